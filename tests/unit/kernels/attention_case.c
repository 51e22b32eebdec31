/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_case.c - see attention_case.h.
 */
#include "attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/scalar.h"
#include "cpu/table.h"
#include "tests/lib/isa.h"

int64_t attention_pad = 3;

/* ---- variants ---- */

static void backward_f64(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo, int64_t hi,
			 void *scratch, float *delta, float *sums)
{
	zr_attention_bwd_f64(o, parts, lo, hi, scratch, (double *)(void *)delta,
			     (double *)(void *)sums);
}

static void sum_f64(const struct zr_op_attention_bwd *o, int64_t parts, int64_t lo, int64_t hi,
		    float *sums)
{
	zr_attention_bwd_sum_f64(o, parts, lo, hi, (double *)(void *)sums);
}

const struct variant oracle64 = { "f64",   zr_attention_f64,      backward_f64,
				  sum_f64, zr_attention_sums_f64, zr_attention_scratch_f64 };
struct variant variants[5];
int n_variants;

static void add_variant(const struct zr_cpu_kernels *k)
{
	variants[n_variants++] = (struct variant){ k->name,           k->attention,
						   k->attention_bwd,  k->attention_bwd_sum,
						   k->attention_sums, k->attention_scratch };
}

void find_variants(void)
{
	add_variant(&zr_cpu_scalar);
#ifndef ZR_NO_X86
	if (isa_runs("avx2"))
		add_variant(&zr_cpu_avx2);
#endif
#ifdef HAVE_AVX512
	if (isa_runs("avx512"))
		add_variant(&zr_cpu_avx512);
#endif
#ifdef HAVE_AVX512BF16
	if (isa_runs("avx512bf16"))
		add_variant(&zr_cpu_avx512bf16);
#endif
#ifdef HAVE_AMX
	if (isa_runs("amx") && !zr_cpu_missing(ZR_CPU_AMX)) /* asks the system for tile registers */
		add_variant(&zr_cpu_amx);
#endif
}

/* ---- problems ---- */

double get(const struct problem *p, const void *base, int64_t i)
{
	if (p->dtype == ZR_F64)
		return ((const double *)base)[i];
	return (double)zr_get(base, i, p->dtype);
}

void put(const struct problem *p, void *base, int64_t i, double x)
{
	if (p->dtype == ZR_F64)
		((double *)base)[i] = x;
	else
		zr_put(base, i, p->dtype, (float)x);
}

double get_lse(const struct problem *p, int64_t i)
{
	return p->dtype == ZR_F64 ? ((double *)(void *)p->lse)[i] : ((float *)(void *)p->lse)[i];
}

static void *poisoned(size_t bytes)
{
	void *p = NULL;
	assert_int_equal(posix_memalign(&p, 64, bytes), 0);
	memset(p, 0xff, bytes); /* NaN in every type */
	return p;
}

/* The generator of make_attention.py. */
static double draw(uint64_t *x)
{
	*x = *x * 6364136223846793005u + 1442695040888963407u;
	return (double)((*x >> 40) & 0xffff) / 32768 - 1;
}

/* Tokens' elements [first, first + width) of a tensor are drawn, times `by`. */
static void fill(const struct problem *p, void *base, int64_t stride, int64_t first, int64_t width,
		 uint64_t *x, double by)
{
	for (int64_t r = 0; r < p->B * p->T; r++)
		for (int64_t i = 0; i < width; i++)
			put(p, base, r * stride + first + i, draw(x) * by);
}

static void describe(struct problem *p)
{
	struct zr_op_attention *o = &p->op.fwd;

	p->op.size = sizeof p->op;
	o->size = sizeof *o;
	o->dtype = p->dtype;
	o->batch = p->B;
	o->length = p->T;
	o->heads = p->H;
	o->kv_heads = p->G;
	o->head_dim = p->D;
	o->q_stride = o->k_stride = o->v_stride = p->in_stride;
	o->out_stride = p->out_stride;
	o->scale = (float)(1.25 / sqrt((double)p->D));
	o->rng = (struct zr_rng){ 0x123456789abcdefu, 77, 5, 9 };
	o->q = p->qkv;
	o->k = p->qkv + (size_t)(p->H * p->D) * p->elem;
	o->v = p->qkv + (size_t)((p->H + p->G) * p->D) * p->elem;
	o->out = p->out;
	o->lse = (float *)(void *)p->lse;
	p->op.dout = p->dout;
	p->op.dq = p->dqkv;
	p->op.dk = p->dqkv + (size_t)(p->H * p->D) * p->elem;
	p->op.dv = p->dqkv + (size_t)((p->H + p->G) * p->D) * p->elem;
}

struct problem make(const int64_t shape[5], int32_t dtype, uint64_t seed, double by)
{
	int64_t B = shape[0], T = shape[1], H = shape[2], G = shape[3], D = shape[4];
	struct problem p = { .B = B, .T = T, .H = H, .G = G, .D = D, .parts = 1, .dtype = dtype };

	p.in_stride = (H + 2 * G) * D + attention_pad;
	p.out_stride = H * D + attention_pad;
	p.n_in = B * T * p.in_stride;
	p.n_out = B * T * p.out_stride;
	p.n_lse = B * H * T;
	p.elem = (size_t)zr_size(dtype);
	p.real = dtype == ZR_F64 ? 8 : 4;
	p.qkv = poisoned((size_t)p.n_in * p.elem);
	p.dqkv = poisoned((size_t)p.n_in * p.elem);
	p.out = poisoned((size_t)p.n_out * p.elem);
	p.dout = poisoned((size_t)p.n_out * p.elem);
	p.lse = poisoned((size_t)p.n_lse * p.real);
	p.delta = poisoned((size_t)p.n_lse * p.real);
	describe(&p);
	fill(&p, p.qkv, p.in_stride, 0, H * D, &seed, by);
	fill(&p, p.qkv, p.in_stride, H * D, G * D, &seed, by);
	fill(&p, p.qkv, p.in_stride, (H + G) * D, G * D, &seed, by);
	fill(&p, p.dout, p.out_stride, 0, H * D, &seed, by);
	return p;
}

void give_documents(struct problem *p)
{
	static const int64_t lengths[] = { 3, 1, 1, 33, 2, 67, 130, 5 };
	p->starts = poisoned((size_t)(p->B * p->T) * sizeof *p->starts);
	for (int64_t b = 0; b < p->B; b++)
		for (int64_t t = 0, start = 0, n = b; t < p->T; t++) {
			if (t == start + lengths[n % 8]) {
				start = t;
				n++;
			}
			p->starts[b * p->T + t] = (int32_t)start;
		}
	p->op.fwd.starts = p->starts;
}

void give_options(struct problem *p, const struct options *options)
{
	p->op.fwd.dropout = options->dropout;
	p->op.fwd.window = options->window;
	p->op.fwd.softcap = options->softcap;
	if (options->documents)
		give_documents(p);
}

void drop(struct problem *p)
{
	free(p->starts);
	free(p->qkv);
	free(p->dqkv);
	free(p->out);
	free(p->dout);
	free(p->lse);
	free(p->delta);
}

static void check_padding(const struct problem *p, const char *base, int64_t n, int64_t stride)
{
	for (int64_t i = stride - attention_pad; i < n; i += stride)
		for (size_t byte = 0; byte < (size_t)attention_pad * p->elem; byte++)
			assert_int_equal((unsigned char)base[(size_t)i * p->elem + byte], 0xff);
}

void forward(const struct variant *v, struct problem *p, int64_t cut)
{
	size_t bytes = v->scratch(&p->op.fwd, 0);
	void *scratch = poisoned(bytes);

	memset(p->out, 0xff, (size_t)p->n_out * p->elem);
	v->forward(&p->op.fwd, cut, p->B * p->H, scratch);
	v->forward(&p->op.fwd, 0, cut, scratch);
	check_padding(p, p->out, p->n_out, p->out_stride);
	free(scratch);
}

/* Row by row of the queries from `first` on, in a copy of exactly these. */
static char *queries_from(const struct problem *p, int64_t first)
{
	size_t row = (size_t)p->in_stride * p->elem, n = (size_t)(p->T - first);
	char *q = poisoned((size_t)p->B * n * row);
	for (size_t b = 0; b < (size_t)p->B; b++)
		memcpy(q + b * n * row, p->qkv + (b * (size_t)p->T + (size_t)first) * row, n * row);
	return q;
}

void assert_rows_alone(const struct variant *v, struct problem *p, int64_t first)
{
	struct zr_op_attention o = p->op.fwd;
	size_t n = (size_t)(p->T - first), row = (size_t)p->out_stride * p->elem;
	size_t used = (size_t)(p->H * p->D) * p->elem, all = (size_t)p->T;
	char *q = queries_from(p, first), *out = malloc((size_t)p->B * n * row + 1);
	char *lse = poisoned((size_t)(p->B * p->H) * n * p->real), *scratch;
	forward(v, p, 0);
	memset(out, 0xff, (size_t)p->B * n * row);
	o.first = (int32_t)first;
	o.q = q;
	o.out = out;
	o.lse = (float *)(void *)lse;
	scratch = poisoned(v->scratch(&o, 0));
	v->forward(&o, 0, p->B * p->H, scratch);
	for (size_t b = 0; b < (size_t)p->B; b++)
		for (size_t t = 0; t < n; t++) {
			const char *mine = out + (b * n + t) * row;
			assert_memory_equal(mine, p->out + (b * all + (size_t)first + t) * row,
					    used);
			for (size_t i = used; i < row; i++)
				assert_int_equal((unsigned char)mine[i], 0xff);
		}
	for (size_t h = 0; h < (size_t)(p->B * p->H); h++)
		assert_memory_equal(lse + h * n * p->real,
				    p->lse + (h * all + (size_t)first) * p->real, n * p->real);
	free(q);
	free(out);
	free(lse);
	free(scratch);
}

void backward(const struct variant *v, struct problem *p, int64_t cut)
{
	int64_t all = p->B * p->G * p->parts, heads = cut / p->parts;
	size_t bytes = v->scratch(&p->op.fwd, 1),
	       sums_bytes = (size_t)v->sums(&p->op.fwd) * p->real;
	char *scratch = poisoned(bytes), *sums = poisoned((size_t)all * sums_bytes);
	char *sums_cut = sums + (size_t)cut * sums_bytes,
	     *sums_heads = sums + (size_t)(heads * p->parts) * sums_bytes;

	memset(p->dqkv, 0xff, (size_t)p->n_in * p->elem);
	v->backward(&p->op, p->parts, cut, all, scratch, (float *)(void *)p->delta,
		    (float *)(void *)sums_cut);
	v->backward(&p->op, p->parts, 0, cut, scratch, (float *)(void *)p->delta,
		    (float *)(void *)sums);
	v->sum(&p->op, p->parts, heads, p->B * p->G, (float *)(void *)sums_heads);
	v->sum(&p->op, p->parts, 0, heads, (float *)(void *)sums);
	check_padding(p, p->dqkv, p->n_in, p->in_stride);
	free(scratch);
	free(sums);
}

void both(const struct variant *v, struct problem *p)
{
	forward(v, p, 0);
	backward(v, p, 0);
}

/* Tokens' q, k and v of p, head by head in rows of s. */
static char *side_by_side(const struct problem *p, const char *from, const struct problem *s)
{
	char *to = poisoned((size_t)s->n_in * s->elem);
	const int64_t heads[3] = { p->H, p->G, p->G }, starts[3] = { 0, p->H, p->H + p->G };
	for (int64_t r = 0; r < p->B * p->T; r++)
		for (int part = 0; part < 3; part++)
			for (int64_t h = 0; h < heads[part]; h++) {
				int64_t in = r * s->in_stride + h * s->op.fwd.q_head + part * p->D,
					out = r * p->in_stride + (starts[part] + h) * p->D;
				memcpy(to + (size_t)in * p->elem, from + (size_t)out * p->elem,
				       (size_t)p->D * p->elem);
			}
	return to;
}

void assert_heads_apart(const struct variant *v, struct problem *p)
{
	struct problem s = *p;
	struct zr_op_attention *o = &s.op.fwd;
	size_t D = (size_t)p->D * p->elem;
	char *want;
	o->q_head = o->k_head = o->v_head = 3 * p->D + attention_pad;
	s.in_stride = p->H * o->q_head + attention_pad;
	s.n_in = p->B * p->T * s.in_stride;
	s.qkv = side_by_side(p, p->qkv, &s);
	s.dqkv = poisoned((size_t)s.n_in * s.elem);
	s.out = poisoned((size_t)s.n_out * s.elem);
	s.lse = poisoned((size_t)s.n_lse * s.real);
	describe(&s);
	o->k = s.qkv + D;
	o->v = s.qkv + 2 * D;
	s.op.dk = s.dqkv + D;
	s.op.dv = s.dqkv + 2 * D;
	both(v, p);
	both(v, &s);
	want = side_by_side(p, p->dqkv, &s);
	assert_memory_equal(s.out, p->out, (size_t)s.n_out * s.elem);
	assert_memory_equal(s.lse, p->lse, (size_t)s.n_lse * s.real);
	assert_memory_equal(s.dqkv, want, (size_t)s.n_in * s.elem);
	if (o->dropout <= 0)
		assert_rows_alone(v, &s, p->T / 3);
	free(want);
	free(s.qkv);
	free(s.dqkv);
	free(s.out);
	free(s.lse);
}

void assert_wide_windows(const struct variant *v, struct problem *p)
{
	const int64_t windows[] = { p->T, INT64_MAX };
	struct problem w = *p;
	both(v, p);
	w.out = poisoned((size_t)w.n_out * w.elem);
	w.dqkv = poisoned((size_t)w.n_in * w.elem);
	w.lse = poisoned((size_t)w.n_lse * w.real);
	describe(&w);
	for (int i = 0; i < 2; i++) {
		w.op.fwd.window = windows[i];
		both(v, &w);
		assert_memory_equal(w.out, p->out, (size_t)w.n_out * w.elem);
		assert_memory_equal(w.lse, p->lse, (size_t)w.n_lse * w.real);
		assert_memory_equal(w.dqkv, p->dqkv, (size_t)w.n_in * w.elem);
	}
	free(w.out);
	free(w.dqkv);
	free(w.lse);
}

/* The largest of scale q.k that query i of batch entry b and head h attends to, or `largest`. */
static double largest_of_row(const struct problem *p, int64_t b, int64_t h, int64_t i,
			     double largest)
{
	const struct zr_op_attention *o = &p->op.fwd;
	int64_t start = p->starts ? p->starts[b * p->T + i] : 0,
		q = (b * p->T + i) * p->in_stride + h * p->D, k0 = (p->H + h * p->G / p->H) * p->D;

	for (int64_t j = start; j <= i; j++) {
		int64_t k = (b * p->T + j) * p->in_stride + k0;
		double s = 0;
		if (o->window && i - j >= o->window)
			continue;
		for (int64_t d = 0; d < p->D; d++)
			s += get(p, p->qkv, q + d) * get(p, p->qkv, k + d);
		if (s * (double)o->scale > largest)
			largest = s * (double)o->scale;
	}
	return largest;
}

static double largest_of_head(const struct problem *p, int64_t h)
{
	double largest = 0;
	for (int64_t b = 0; b < p->B; b++)
		for (int64_t i = 0; i < p->T; i++)
			largest = largest_of_row(p, b, h, i, largest);
	return largest;
}

void assert_largest_scores(const struct variant *v, struct problem *p)
{
	const size_t out = (size_t)p->n_out * p->elem, lse = (size_t)p->n_lse * p->real;
	float scores[8] = { 0 }, raised[8];
	char *want;
	assert_true(p->H + 1 < 8);
	forward(v, p, 0);
	want = malloc(out + lse);
	memcpy(want, p->out, out);
	memcpy(want + out, p->lse, lse);
	scores[p->H] = 1e30f; /* behind the last head */
	p->op.fwd.max_scores = scores;
	forward(v, p, p->B * p->H / 2);
	assert_memory_equal(p->out, want, out);
	assert_memory_equal(p->lse, want + out, lse);
	for (int64_t h = 0; h < p->H; h++) {
		double largest = largest_of_head(p, h), off = fabs((double)scores[h] - largest);
		if (!(off <= 4e-6 * (1 + largest)))
			fail_msg("%s: largest score of head %d is %g, not %g (T %d dim %d)",
				 v->name, (int)h, (double)scores[h], largest, (int)p->T, (int)p->D);
		scores[h] = h % 2 ? 1e20f : scores[h];
	}
	memcpy(raised, scores, sizeof scores);
	forward(v, p, 0);
	assert_memory_equal(raised, scores, sizeof scores);
	p->op.fwd.max_scores = NULL;
	free(want);
}

void assert_window_forgets(const struct variant *v, int32_t dtype, int64_t head_dim)
{
	enum { ALL = 161, GONE = 128, UNREAD = 64, WINDOW = 16 };
	const int64_t shape[5] = { 1, ALL, 1, 1, head_dim },
		      tail[5] = { 1, ALL - GONE, 1, 1, head_dim };
	struct problem p = make(shape, dtype, 3, 1), t = make(tail, dtype, 3, 1);
	size_t in = (size_t)p.in_stride * p.elem, out = (size_t)p.out_stride * p.elem;
	size_t from = WINDOW - 1, n = ALL - GONE - from;
	memcpy(t.qkv, p.qkv + GONE * in, (ALL - GONE) * in);
	memcpy(t.dout, p.dout + GONE * out, (ALL - GONE) * out);
	memset(p.qkv, 0xff, UNREAD * in);
	p.op.fwd.window = t.op.fwd.window = WINDOW;
	both(v, &p);
	both(v, &t);
	assert_memory_equal(p.out + (GONE + from) * out, t.out + from * out, n * out);
	assert_memory_equal(p.dqkv + (GONE + from) * in, t.dqkv + from * in, n * in);
	assert_memory_equal(p.lse + (GONE + from) * p.real, t.lse + from * p.real, n * p.real);
	for (int64_t i = 0; i < p.D; i++)
		assert_true(isfinite(get(&p, p.out, (ALL - 1) * p.out_stride + i)));
	drop(&p);
	drop(&t);
}

/* ---- comparisons ---- */

void measure(struct distance *d, double x, double y)
{
	d->diff += isfinite(x) ? (x - y) * (x - y) : INFINITY;
	d->norm += y * y;
}

void assert_close(const struct distance *d, double tolerance, const struct problem *p,
		  const char *variant, const char *what)
{
	double rel = sqrt(d->diff) / (sqrt(d->norm) + 1e-30);

	/* T = 1: gradients of q and k are zero but for rounding */
	if (rel <= tolerance || sqrt(d->diff) <= tolerance)
		return;
	fail_msg("%s: %s off by %g (B %d T %d heads %d/%d dim %d dtype %d dropout %g)", variant,
		 what, rel, (int)p->B, (int)p->T, (int)p->H, (int)p->G, (int)p->D, (int)p->dtype,
		 (double)p->op.fwd.dropout);
}

/* One tensor of x against the same of y, which may have another dtype: elements [first, first +
 * width) of each token. */
static void compare(const struct problem *x, const char *xb, const struct problem *y,
		    const char *yb, int64_t stride, int64_t first, int64_t width, double tolerance,
		    const char *variant, const char *what)
{
	struct distance d = { 0, 0 };

	for (int64_t r = 0; r < x->B * x->T; r++)
		for (int64_t i = 0; i < width; i++)
			measure(&d, get(x, xb, r * stride + first + i),
				get(y, yb, r * stride + first + i));
	assert_close(&d, tolerance, x, variant, what);
}

void compare_all(const struct problem *x, const struct problem *y, double tolerance,
		 const char *variant)
{
	struct distance d = { 0, 0 };
	int64_t q = x->H * x->D, k = x->G * x->D;

	compare(x, x->out, y, y->out, x->out_stride, 0, q, tolerance, variant, "out");
	compare(x, x->dqkv, y, y->dqkv, x->in_stride, 0, q, tolerance, variant, "dq");
	compare(x, x->dqkv, y, y->dqkv, x->in_stride, q, k, tolerance, variant, "dk");
	compare(x, x->dqkv, y, y->dqkv, x->in_stride, q + k, k, tolerance, variant, "dv");
	for (int64_t i = 0; i < x->n_lse; i++)
		measure(&d, get_lse(x, i), get_lse(y, i));
	assert_close(&d, tolerance, x, variant, "lse");
}

const int64_t attention_shapes[N_ATTENTION_SHAPES][5] = {
	{ 1, 1, 1, 1, 1 },    { 2, 13, 3, 3, 5 },   { 1, 31, 2, 1, 16 },  { 1, 33, 1, 1, 31 },
	{ 1, 64, 2, 2, 64 },  { 1, 65, 3, 1, 32 },  { 2, 70, 4, 2, 8 },   { 1, 127, 1, 1, 7 },
	{ 1, 128, 1, 1, 17 }, { 1, 129, 2, 1, 33 }, { 1, 193, 1, 1, 96 }, { 1, 260, 1, 1, 20 },
	{ 1, 65, 1, 1, 128 }, { 1, 40, 1, 1, 200 },
};

/* Rounds n elements to what a problem of dtype holds. */
static void as_stored(struct problem *p, void *base, int64_t n, int32_t dtype)
{
	for (int64_t i = 0; i < n; i++) {
		float x;
		zr_put(&x, 0, dtype, (float)get(p, base, i));
		put(p, base, i, (double)zr_get(&x, 0, dtype));
	}
}

void assert_variants_agree(int64_t parts, int32_t dtype, const struct options *options,
			   double tolerance)
{
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++) {
		if (attention_shapes[s][2] / attention_shapes[s][3] % parts)
			continue;
		struct problem want = make(attention_shapes[s], ZR_F64, 100 + s, 1);

		give_options(&want, options);
		as_stored(&want, want.qkv, want.n_in, dtype);
		as_stored(&want, want.dout, want.n_out, dtype);
		both(&oracle64, &want);
		for (int v = 0; v < n_variants; v++) {
			struct problem p = make(attention_shapes[s], dtype, 100 + s, 1);
			p.parts = parts;
			give_options(&p, options);
			both(&variants[v], &p);
			compare_all(&p, &want, tolerance, variants[v].name);
			drop(&p);
		}
		drop(&want);
	}
}
