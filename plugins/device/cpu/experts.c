/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.c - the operations of a mixture of experts: tokens are routed, sorted by expert, and the
 * experts' products are cut into tiles. How many rows an expert has decides how many tiles there
 * are, and nothing else: a product is summed over all of K at once, a weight's gradient over a
 * chunk's rows at once.
 */
#include "cpu.h"

#include <checks.h>

#include <string.h>

#define ROUTED    64    /* tokens per item */
#define ELEMENTS  16384 /* per item of what goes over rows */
#define TILE_ROWS 256
#define TILE_COLS 384
#define SUMS      256 /* partial sums, each over every 256th token, added pairwise */

_Static_assert(ZR_GEMM_SCRATCH + TILE_ROWS * TILE_COLS * sizeof(float) <= CPU_SCRATCH,
	       "a tile of a gradient beside the scratch of gemm_tile");

struct job {
	const struct zr_inst *d;
	const void *op;
	int64_t n, cut;
};

static void run(const struct zr_inst *d, const void *op, int64_t n, int64_t cut,
		void (*fn)(void *, int64_t, int32_t))
{
	struct job job = { d, op, n, cut };
	cpu_parallel(d, cpu_ceil_div(n, cut), fn, &job);
}

#define ITEM(name)                                                                                 \
	static void name##_item(void *arg, int64_t item, int32_t worker)                           \
	{                                                                                          \
		const struct job *j = arg;                                                         \
		int64_t lo = item * j->cut;                                                        \
		(void)worker;                                                                      \
		j->d->k->name(j->op, lo, cpu_min(lo + j->cut, j->n));                              \
	}
ITEM(route)
ITEM(route_bwd)
ITEM(expert_combine)
ITEM(expert_weigh)

static int64_t rows_per_item(int64_t width)
{
	return width < ELEMENTS ? ELEMENTS / (width > 0 ? width : 1) : 1;
}

/* ---- routing --------------------------------------------------------------------- */

/* offsets, order and where by counting */
static void sort_places(const struct zr_op_route *o)
{
	int32_t next[ZR_EXPERTS], places = (int32_t)(o->rows * o->k);
	memset(o->offsets, 0, (size_t)(o->experts + 1) * sizeof *o->offsets);
	for (int32_t i = 0; i < places; i++)
		o->offsets[o->ids[i] + 1]++;
	for (int64_t e = 0; e < o->experts; e++) {
		next[e] = o->offsets[e];
		o->offsets[e + 1] += o->offsets[e];
	}
	for (int32_t i = 0; i < places; i++) {
		int32_t at = next[o->ids[i]]++;
		o->order[at] = i;
		o->where[i] = at;
	}
}

static double add_up(double *sum)
{
	for (int n = SUMS / 2; n > 0; n /= 2)
		for (int i = 0; i < n; i++)
			sum[i] += sum[i + n];
	return sum[0];
}

static int counts(const struct zr_op_route *o, int64_t r)
{
	return !o->targets || o->targets[r] != ZR_PADDING;
}

/* Adds the numbers of tokens that count, of all and of each expert. */
static void count_tokens(const struct zr_op_route *o)
{
	int64_t places[ZR_EXPERTS] = { 0 }, tokens = 0;

	for (int64_t r = 0; r < o->rows; r++) {
		if (!counts(o, r))
			continue;
		tokens++;
		for (int64_t j = 0; j < o->k; j++)
			places[o->ids[r * o->k + j]]++;
	}

	for (int64_t e = 0; e < o->experts; e++)
		o->sums[e] += (double)places[e];
	o->sums[2 * o->experts + 1] += (double)tokens;
}

static void add_sums(const struct zr_op_route *o)
{
	const int64_t E = o->experts;

	for (int64_t i = 0; i < 2 * E + 2; i++)
		o->sums[i] = o->before ? o->before[i] : 0;
	count_tokens(o);

	for (int64_t e = 0; e <= E; e++) {
		double sum[SUMS] = { 0 };
		for (int64_t r = 0; r < o->rows; r++) {
			if (!counts(o, r))
				continue;
			sum[r % SUMS] += e < E ? (double)o->logits[r * E + e] :
						 (double)o->lse[r] * (double)o->lse[r];
		}

		o->sums[E + e] += add_up(sum);
	}
}

int cpu_route(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_route *o)
{
	int rc = zr_check_route(ops->dev->h, "route", o->rows, o->experts, o->k);
	(void)s;
	if (rc)
		return rc;
	run(ops->dev, o, o->rows, ROUTED, route_item);
	sort_places(o);
	if (o->sums)
		add_sums(o);
	return ZR_OK;
}

/* The i-th sum over all parts. */
static double sum_of_parts(const struct zr_op_router_losses *o, int64_t i)
{
	const int64_t apart = 2 * o->experts + 2;
	double sum = o->sums[i];

	for (int64_t part = 1; part < o->parts; part++)
		sum += o->sums[part * apart + i];
	return sum;
}

int cpu_router_losses(const struct zr_ops *ops, struct zr_stream *s,
		      const struct zr_op_router_losses *o)
{
	const int64_t E = o->experts;
	int rc = zr_check_router_losses(ops->dev->h, o);
	(void)s;
	if (rc)
		return rc;

	const double all = sum_of_parts(o, 2 * E + 1);
	const double tokens = all > 0 ? all : 1; /* without tokens all sums are 0 */
	double balance = 0;

	for (int64_t e = 0; e < E; e++) {
		const double places = sum_of_parts(o, e);
		balance += places / tokens * (sum_of_parts(o, E + e) / tokens);
		o->share[e] = (float)(places / tokens);
	}
	o->share[E] = (float)(tokens / (double)o->blocks);
	*o->loss = (double)o->balance * ((double)E * balance) +
		   (double)o->z * (sum_of_parts(o, 2 * E) / tokens);
	return ZR_OK;
}

int cpu_route_bwd(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_route_bwd *o)
{
	int rc = zr_check_route(ops->dev->h, "route_bwd", o->rows, o->experts, o->k);
	(void)s;
	if (!rc)
		run(ops->dev, o, o->rows, ROUTED, route_bwd_item);
	return rc;
}

/* ---- rows ------------------------------------------------------------------------ */

static void expert_rows_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_expert_rows *o = j->op;
	int64_t lo = item * j->cut, hi = cpu_min(lo + j->cut, j->n);
	(void)worker;
	for (int64_t s = lo; s < hi; s++)
		memcpy(cpu_at(o->out, o->dtype, s * o->width),
		       cpu_at(o->x, o->dtype, o->order[s] / o->k * o->width),
		       zr_bytes_of(o->dtype, o->width));
}

int cpu_expert_rows(const struct zr_ops *ops, struct zr_stream *s,
		    const struct zr_op_expert_rows *o)
{
	int rc = zr_check_dtype(ops->dev->h, "expert_rows", o->dtype);
	(void)s;
	if (!rc)
		run(ops->dev, o, o->rows * o->k, rows_per_item(o->width), expert_rows_item);
	return rc;
}

int cpu_expert_combine(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_expert_combine *o)
{
	int rc = zr_check_combine(ops->dev->h, o);
	(void)s;
	if (!rc)
		run(ops->dev, o, o->rows, rows_per_item(o->width * o->k), expert_combine_item);
	return rc;
}

int cpu_expert_weigh(const struct zr_ops *ops, struct zr_stream *s,
		     const struct zr_op_expert_weigh *o)
{
	int rc = zr_check_dtype(ops->dev->h, "expert_weigh", o->dtype);
	(void)s;
	if (!rc)
		run(ops->dev, o, o->places, rows_per_item(o->width), expert_weigh_item);
	return rc;
}

/* ---- products of each expert's rows ---------------------------------------------- */

static int64_t tiles(int64_t rows, int64_t cols)
{
	return cpu_ceil_div(rows, TILE_ROWS) * cpu_ceil_div(cols, TILE_COLS);
}

static void grouped_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_matmul_grouped *o = j->op;
	int64_t e = 0, across = cpu_ceil_div(o->n, TILE_COLS), row, col, n;
	while (item >= (n = tiles(o->offsets[e + 1] - o->offsets[e], o->n))) {
		item -= n;
		e++;
	}

	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = o->flags | ZR_MM_EACH_ROW,
				   .m = o->offsets[e + 1] - o->offsets[e],
				   .n = o->n,
				   .k = o->k,
				   .lda = o->k,
				   .ldb = o->flags & ZR_MM_TRANS_B ? o->k : o->n,
				   .ldd = o->n,
				   .a = zr_array_from(&o->a, o->offsets[e] * o->k),
				   .b = zr_array_at(o->b_dtype, o->b[e]),
				   .d = zr_array_from(&o->d, o->offsets[e] * o->n) };
	row = item / across * TILE_ROWS;
	col = item % across * TILE_COLS;
	j->d->k->gemm_tile(&op, NULL, row, cpu_min(TILE_ROWS, op.m - row), col,
			   cpu_min(TILE_COLS, op.n - col), cpu_scratch(j->d, worker));
}

int cpu_matmul_grouped(const struct zr_ops *ops, struct zr_stream *s,
		       const struct zr_op_matmul_grouped *o)
{
	const struct zr_inst *d = ops->dev;
	int64_t items = 0;
	int rc = zr_check_grouped(d->h, o);
	(void)s;
	for (int64_t e = 0; !rc && e < o->experts; e++)
		items += tiles(o->offsets[e + 1] - o->offsets[e], o->n);
	if (!rc)
		run(d, o, items, 1, grouped_item);
	return rc;
}

/* ---- gradients of weights -------------------------------------------------------- */

/* A tile of dw. */
struct gradient {
	const struct zr_op_matmul_grouped_dw *o;
	int64_t row, rows, col, cols;
	float *dw;
};

/* to[rows, cols], ld apart, = the sum over rows [first, end) of dy and x */
static void sum_rows(const struct job *j, const struct gradient *g, int64_t first, int64_t end,
		     float *to, int64_t ld, void *scratch)
{
	const struct zr_op_matmul_grouped_dw *o = g->o;
	struct zr_op_matmul op = {
		.size = sizeof op,
		.flags = ZR_MM_TRANS_A | ZR_MM_EACH_ROW,
		.m = g->rows,
		.n = g->cols,
		.k = end - first,
		.lda = o->m,
		.ldb = o->n,
		.ldd = ld,
		.a = zr_array_at(o->dtype, cpu_at(o->dy, o->dtype, first * o->m + g->row)),
		.b = zr_array_at(o->dtype, cpu_at(o->x, o->dtype, first * o->n + g->col)),
		.d = zr_array_at(ZR_F32, to)
	};
	j->d->k->gemm_tile(&op, NULL, 0, g->rows, 0, g->cols, scratch);
}

/* Behind the rows of the chunk that row s of expert e is in. */
static int64_t chunk_end(const struct zr_op_matmul_grouped_dw *o, int64_t s, int64_t end)
{
	if (!o->order)
		return end;
	int64_t chunk = o->order[s] / o->k / ZR_EXPERT_CHUNK;
	while (s < end && o->order[s] / o->k / ZR_EXPERT_CHUNK == chunk)
		s++;
	return s;
}

static void sum_chunks(const struct job *j, const struct gradient *g, int64_t s, int64_t end,
		       char *scratch)
{
	float *part = (float *)(void *)(scratch + ZR_GEMM_SCRATCH);
	int store = !(g->o->flags & ZR_OP_ACCUMULATE);
	if (store && s == end)
		for (int64_t i = 0; i < g->rows; i++)
			memset(g->dw + i * g->o->n, 0, (size_t)g->cols * sizeof(float));
	for (int64_t first = s; first < end; first = s, store = 0) {
		s = chunk_end(g->o, first, end);
		if (store) {
			sum_rows(j, g, first, s, g->dw, g->o->n, scratch);
			continue;
		}
		sum_rows(j, g, first, s, part, g->cols, scratch);
		for (int64_t i = 0; i < g->rows; i++)
			for (int64_t c = 0; c < g->cols; c++)
				g->dw[i * g->o->n + c] += part[i * g->cols + c];
	}
}

static void grouped_dw_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_matmul_grouped_dw *o = j->op;
	int64_t n = tiles(o->m, o->n), e = item / n, across = cpu_ceil_div(o->n, TILE_COLS);
	int64_t row = item % n / across * TILE_ROWS, col = item % n % across * TILE_COLS;
	struct gradient g = {
		o, row, cpu_min(TILE_ROWS, o->m - row), col, cpu_min(TILE_COLS, o->n - col), NULL
	};
	if (!o->dw[e])
		return;

	g.dw = o->dw[e] + row * o->n + col;
	sum_chunks(j, &g, o->offsets[e], o->offsets[e + 1], cpu_scratch(j->d, worker));
}

int cpu_matmul_grouped_dw(const struct zr_ops *ops, struct zr_stream *s,
			  const struct zr_op_matmul_grouped_dw *o)
{
	const struct zr_inst *d = ops->dev;
	int rc = zr_check_grouped_dw(d->h, o);
	(void)s;
	if (!rc)
		run(d, o, o->experts * tiles(o->m, o->n), 1, grouped_dw_item);
	return rc;
}
