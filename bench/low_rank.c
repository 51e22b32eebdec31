/* SPDX-License-Identifier: Apache-2.0
 *
 * low_rank.c - the linear maps of GPT-2 124M with a low-rank adapter beside each, forward and
 * backward by device/cpu, in turns with three others on the same data: the frozen map alone, the
 * same adapter by separate operations that keep nothing, and the map that is trained as it is. Per
 * map, milliseconds of the adapted one (best turn) and the medians of three ratios of neighbouring
 * turns: of the adapted to the frozen map, of separate operations to the adapted map, and of the
 * trained to the adapted map; then the same of all four.
 *
 *   bench/low_rank [workers [rows [rank [milliseconds per map [isa]]]]]
 */
#include "tests/lib/testhost.h"

#include <zeroth/device.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS 401

struct map {
	const char *name;
	int64_t in, out;
	int gelu;
};

static const struct map maps[] = {
	{ "attention in", 768, 2304, 0 },
	{ "attention out", 768, 768, 0 },
	{ "mlp in + gelu", 768, 3072, 1 },
	{ "mlp out", 3072, 768, 0 },
};
#define MAPS (int)(sizeof maps / sizeof *maps)

enum { ADAPTED, FROZEN, SEPARATE, TRAINED, KINDS };

/* Weights are [in, out]. wide and grad are of any type. */
struct bench {
	const struct zr_ops *ops;
	int32_t dtype;
	int64_t rows, rank;
	const struct map *map;
	void *x, *y, *pre, *dy, *dx, *w, *a, *b, *u, *v, *wide;
	float *da, *db, *dw;
};

/* Of this thread if it is the only worker: then other processes do not count. */
static clockid_t clock_id = CLOCK_MONOTONIC;

static double now(void)
{
	struct timespec t;
	clock_gettime(clock_id, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* ---- operations ----------------------------------------------------------------------------- */

/* d[m, n] = op(a) op(b), without gaps */
static struct zr_op_matmul product_of(const struct bench *t, uint32_t flags, int64_t m, int64_t n,
				      int64_t k, const void *a, const void *b, void *d)
{
	return (struct zr_op_matmul){ .size = sizeof(struct zr_op_matmul),
				      .flags = flags,
				      .m = m,
				      .n = n,
				      .k = k,
				      .lda = flags & ZR_MM_TRANS_A ? m : k,
				      .ldb = flags & ZR_MM_TRANS_B ? k : n,
				      .ldd = n,
				      .a = zr_array_at(t->dtype, a),
				      .b = zr_array_at(t->dtype, b),
				      .d = zr_array_at(flags & ZR_MM_TRANS_A ? ZR_F32 : t->dtype,
						       d) };
}

static void product(const struct bench *t, uint32_t flags, int64_t m, int64_t n, int64_t k,
		    const void *a, const void *b, void *d)
{
	struct zr_op_matmul op = product_of(t, flags, m, n, k, a, b, d);
	t->ops->matmul(t->ops, NULL, &op);
}

/* out = a + x / 2 */
static void add(const struct bench *t, int64_t n, const void *a, const void *x, void *out)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = t->dtype,
				     .n = n,
				     .a = a,
				     .b = x,
				     .out = out,
				     .gain = 0.5f };
	t->ops->residual(t->ops, NULL, &op);
}

/* op, and the update u v of its result in either way */
static void update(const struct bench *t, int separate, uint32_t flags, const void *u,
		   const void *v, struct zr_op_matmul op)
{
	const int gelu = (op.flags & ZR_MM_GELU) != 0;
	struct zr_op_matmul_low_rank low = { .size = sizeof low,
					     .flags = flags,
					     .r = t->rank,
					     .gain = 0.5f,
					     .u = u,
					     .v = v,
					     .product = op };
	struct zr_op_gelu_bwd act = { .size = sizeof act,
				      .dtype = t->dtype,
				      .n = op.m * op.n,
				      .dy = op.pre,
				      .pre = op.pre,
				      .dx = t->wide,
				      .act = op.d.data };
	if (!separate) {
		t->ops->matmul_low_rank(t->ops, NULL, &low);
		return;
	}
	op.flags &= ~ZR_MM_GELU;
	if (gelu)
		op.d.data = op.pre;
	op.pre = NULL;
	t->ops->matmul(t->ops, NULL, &op);
	product(t, flags & ZR_LR_TRANS_V ? ZR_MM_TRANS_B : 0, op.m, op.n, t->rank, u, v, t->wide);
	add(t, op.m * op.n, op.d.data, t->wide, op.d.data);
	if (gelu)
		t->ops->gelu_bwd(t->ops, NULL, &act);
}

static void forward(const struct bench *t, int kind)
{
	const struct map *m = t->map;
	struct zr_op_matmul op =
		product_of(t, m->gelu ? ZR_MM_GELU : 0, t->rows, m->out, m->in, t->x, t->w, t->y);
	op.pre = m->gelu ? t->pre : NULL;
	if (kind == FROZEN || kind == TRAINED) {
		t->ops->matmul(t->ops, NULL, &op);
		return;
	}
	product(t, ZR_MM_TRANS_B, t->rows, t->rank, m->in, t->x, t->a, t->u);
	update(t, kind == SEPARATE, ZR_LR_TRANS_V, t->u, t->b, op);
}

static void backward(const struct bench *t, int kind)
{
	const struct map *m = t->map;
	struct zr_op_matmul op =
		product_of(t, ZR_MM_TRANS_B, t->rows, m->in, m->out, t->dy, t->w, t->dx);
	if (kind == FROZEN || kind == TRAINED)
		t->ops->matmul(t->ops, NULL, &op);
	if (kind == TRAINED)
		product(t, ZR_MM_TRANS_A, m->in, m->out, t->rows, t->x, t->dy, t->dw);
	if (kind == FROZEN || kind == TRAINED)
		return;
	product(t, 0, t->rows, t->rank, m->out, t->dy, t->b, t->v);
	update(t, kind == SEPARATE, 0, t->v, t->a, op);
	if (kind == SEPARATE) {
		product(t, ZR_MM_TRANS_B, t->rows, t->rank, m->in, t->x, t->a, t->u);
		product(t, 0, t->rows, t->rank, m->out, t->dy, t->b, t->v);
	}
	add(t, t->rows * t->rank, NULL, t->u, t->u);
	add(t, t->rows * t->rank, NULL, t->v, t->v);
	product(t, ZR_MM_TRANS_A, t->rank, m->in, t->rows, t->v, t->x, t->da);
	product(t, ZR_MM_TRANS_A, m->out, t->rank, t->rows, t->dy, t->u, t->db);
}

/* ---- data ----------------------------------------------------------------------------------- */

/* n small values, in room for as many floats. */
static void *operand(int64_t n, int32_t dtype)
{
	uint32_t seed = 12345;
	char *p = aligned_alloc(64, ((size_t)n * 4 + 127) / 64 * 64);
	if (!p)
		exit(1);
	memset(p, 0, (size_t)n * 4);
	for (int64_t i = 0; i < n; i++) {
		float x = (float)((int32_t)(seed = seed * 1664525u + 1013904223u) >> 16) * 0x1p-20f;
		if (dtype == ZR_BF16)
			memcpy(p + 2 * i, (char *)&x + 2, 2);
		else
			memcpy(p + 4 * i, &x, 4);
	}
	return p;
}

static void begin(struct bench *t)
{
	const int64_t in = t->map->in, out = t->map->out, wide = in > out ? in : out;
	void **const narrow[] = { &t->u, &t->v };
	t->x = operand(t->rows * in, t->dtype);
	t->dx = operand(t->rows * in, t->dtype);
	t->y = operand(t->rows * out, t->dtype);
	t->pre = operand(t->rows * out, t->dtype);
	t->dy = operand(t->rows * out, t->dtype);
	t->wide = operand(t->rows * wide, ZR_F32);
	t->w = operand(in * out, t->dtype);
	t->dw = operand(in * out, ZR_F32);
	t->a = operand(t->rank * in, t->dtype);
	t->b = operand(t->rank * out, t->dtype);
	t->da = operand(t->rank * in, ZR_F32);
	t->db = operand(t->rank * out, ZR_F32);
	for (int i = 0; i < 2; i++)
		*narrow[i] = operand(t->rows * t->rank, t->dtype);
}

static void end(struct bench *t)
{
	void *const all[] = { t->x,  t->dx, t->y, t->pre, t->dy, t->wide, t->w,
			      t->dw, t->a,  t->b, t->da,  t->db, t->u,    t->v };
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static double run(const struct bench *t, int kind)
{
	double start = now();
	forward(t, kind);
	backward(t, kind);
	return now() - start;
}

static void compare(struct bench *t, double budget, double *sum)
{
	static double ratio[KINDS][TURNS];
	double best = 1e9, stop, one, middle[KINDS];
	int n = 0;
	begin(t);
	for (int kind = 0; kind < KINDS; kind++)
		run(t, kind);
	stop = now() + budget;
	do {
		one = run(t, ADAPTED);
		best = one < best ? one : best;
		for (int kind = 1; kind < KINDS; kind++)
			ratio[kind][n] = run(t, kind) / one;
		n++;
	} while (n < TURNS && now() < stop);
	for (int kind = 1; kind < KINDS; kind++) {
		qsort(ratio[kind], (size_t)n, sizeof **ratio, by_value);
		middle[kind] = ratio[kind][n / 2];
		sum[kind] += best * middle[kind];
	}
	sum[0] += best;
	printf("%-14s %-5s %8.1f %8.3f %8.3f %8.3f\n", t->map->name,
	       t->dtype == ZR_F32 ? "fp32" : "bf16", best * 1e3, 1 / middle[FROZEN],
	       middle[SEPARATE], middle[TRAINED]);
	end(t);
}

int main(int argc, char **argv)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16 };
	struct zr_host *h = test_host(argc > 1 ? atoi(argv[1]) : 1);
	const struct zr_desc *desc = test_plugin("device/cpu");
	const struct zr_device_v1 *v = test_iface(desc, "zr.device/1");
	void *opts = test_options(desc);
	struct zr_inst *inst;
	struct bench t = { .rows = argc > 2 ? atoi(argv[2]) : 1024,
			   .rank = argc > 3 ? atoi(argv[3]) : 16 };
	const double budget = argc > 4 ? atof(argv[4]) * 1e-3 : 5;
	if (test_set(desc, opts, "isa", argc > 5 ? argv[5] : "auto") ||
	    test_create(h, desc, opts, &inst)) {
		fprintf(stderr, "low_rank: %s\n", test_error(h));
		return 1;
	}
	t.ops = v->ops(inst);
	if (h->workers == 1)
		clock_id = CLOCK_THREAD_CPUTIME_ID;
	printf("%-14s %-5s %8s %8s %8s %8s\n", "", "", "ms", "/frozen", "separate", "trained");
	for (int k = 0; k < 2; k++) {
		double sum[KINDS] = { 0 };
		t.dtype = dtypes[k];
		for (int i = 0; i < MAPS; i++) {
			t.map = &maps[i];
			compare(&t, budget, sum);
		}
		printf("%-14s %-5s %8.1f %8.3f %8.3f %8.3f\n", "all",
		       t.dtype == ZR_F32 ? "fp32" : "bf16", sum[0] * 1e3, sum[0] / sum[FROZEN],
		       sum[SEPARATE] / sum[0], sum[TRAINED] / sum[0]);
	}
	desc->destroy(inst);
	free(opts);
	test_host_free(h);
	return 0;
}
