/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.c - the grouped products of a mixture's experts by device/cpu: y = x W^T, dx = dy W and
 * dW = dy^T x of all experts at once, beside one product after the other of each expert's rows, and
 * beside one dense product of as many operations, whose weight is that of a single expert. In turns
 * on the same data. Per shape and product: GFLOP/s of the grouped one (best turn), and the median
 * ratios of the times of neighbouring turns, above 1 where the grouped product is faster.
 *
 *   bench/experts [workers [isa [milliseconds per product [part of a shape's name]]]]
 */
#include "tests/lib/testhost.h"

#include <zeroth/device.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS 101

/* Of `tokens` tokens each goes to k of the experts. */
struct shape {
	const char *name;
	int64_t tokens, experts, k, width, ffn;
	int32_t dtype;
	int skewed; /* expert e is twice as likely as e + 1; else all are alike */
};

static const struct shape shapes[] = {
	{ "8, 2 each", 512, 8, 2, 1024, 3584, ZR_F32, 0 },
	{ "8, 2 each, skewed", 512, 8, 2, 1024, 3584, ZR_F32, 1 },
	{ "8, 2 each, bf16", 512, 8, 2, 1024, 3584, ZR_BF16, 0 },
	{ "64, 8 each", 512, 64, 8, 1024, 512, ZR_F32, 0 },
	{ "64, 8 each, skewed", 512, 64, 8, 1024, 512, ZR_F32, 1 },
	{ "128, 8 each", 512, 128, 8, 1024, 384, ZR_F32, 0 },
	{ "128, 8 each, bf16", 512, 128, 8, 1024, 384, ZR_BF16, 0 },
	{ "8, 2 each, few", 16, 8, 2, 1024, 3584, ZR_F32, 0 },
};

enum product { FORWARD, INPUT, WEIGHT, PRODUCTS };
static const char *const product_name[] = { "y", "dx", "dW" };

struct bench {
	const struct zr_ops *ops;
	const struct shape *s;
	int64_t rows;
	int32_t *offsets, *order;
	char *narrow, *wide; /* [rows, width], [rows, ffn] */
	char *weight;        /* [experts][ffn, width] */
	float *gradient;     /* [experts][ffn, width] */
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

static uint32_t drawn(void)
{
	static uint32_t seed = 12345;
	return seed = seed * 1664525u + 1013904223u;
}

static size_t width_of(int32_t dtype)
{
	return zr_bytes_of(dtype, 1);
}

/* n small values, in room for as many floats. */
static void *operand(int64_t n, int32_t dtype)
{
	char *p = aligned_alloc(64, ((size_t)n * 4 + 127) / 64 * 64);
	if (!p)
		exit(1);
	for (int64_t i = 0; i < n; i++) {
		float x = (float)((int32_t)drawn() >> 16) * 0x1p-15f;
		memcpy(p + (size_t)i * width_of(dtype), (char *)&x + 4 - width_of(dtype),
		       width_of(dtype));
	}
	return p;
}

/* One of the experts that the token does not have. */
static int32_t choose(const struct shape *s, const int32_t *have, int64_t n)
{
	for (;;) {
		int32_t e = (int32_t)((drawn() >> 8) % (uint32_t)s->experts);
		int taken = 0;
		if (s->skewed)
			for (e = 0; e + 1 < s->experts && drawn() >> 31;)
				e++;
		for (int64_t j = 0; j < n; j++)
			taken |= have[j] == e;
		if (!taken)
			return e;
	}
}

static void route(struct bench *b)
{
	const struct shape *s = b->s;
	int32_t *ids = malloc((size_t)b->rows * sizeof *ids), *next;
	b->offsets = calloc((size_t)s->experts + 1, sizeof *b->offsets);
	next = calloc((size_t)s->experts, sizeof *next);
	b->order = malloc((size_t)b->rows * sizeof *b->order);
	if (!ids || !b->offsets || !next || !b->order)
		exit(1);
	for (int64_t i = 0; i < b->rows; i++) {
		ids[i] = choose(s, ids + i / s->k * s->k, i % s->k);
		b->offsets[ids[i] + 1]++;
	}
	for (int64_t e = 0; e < s->experts; e++)
		b->offsets[e + 1] += next[e] = b->offsets[e];
	for (int32_t i = 0; i < b->rows; i++)
		b->order[next[ids[i]]++] = i;
	free(ids);
	free(next);
}

/* ---- the three ways ---- */

static void grouped(const struct bench *b, enum product what)
{
	const struct shape *s = b->s;
	const int forward = what == FORWARD;
	struct zr_op_matmul_grouped op = {
		.size = sizeof op,
		.flags = forward ? ZR_MM_TRANS_B : 0,
		.b_dtype = s->dtype,
		.rows = b->rows,
		.experts = s->experts,
		.n = forward ? s->ffn : s->width,
		.k = forward ? s->width : s->ffn,
		.offsets = b->offsets,
		.a = zr_array_at(s->dtype, forward ? b->narrow : b->wide),
		.d = zr_array_at(s->dtype, forward ? b->wide : b->narrow)
	};
	struct zr_op_matmul_grouped_dw dw = { .size = sizeof dw,
					      .dtype = s->dtype,
					      .rows = b->rows,
					      .experts = s->experts,
					      .m = s->ffn,
					      .n = s->width,
					      .k = s->k,
					      .offsets = b->offsets,
					      .order = b->order,
					      .dy = b->wide,
					      .x = b->narrow };
	for (int64_t e = 0; e < s->experts; e++) {
		op.b[e] = b->weight + (size_t)(e * s->ffn * s->width) * width_of(s->dtype);
		dw.dw[e] = b->gradient + e * s->ffn * s->width;
	}
	if (what == WEIGHT)
		b->ops->matmul_grouped_dw(b->ops, NULL, &dw);
	else
		b->ops->matmul_grouped(b->ops, NULL, &op);
}

/* Rows [lo, hi) with the weight of expert e. */
static void single(const struct bench *b, enum product what, int64_t lo, int64_t hi, int64_t e)
{
	const struct shape *s = b->s;
	const size_t size = width_of(s->dtype);
	char *narrow = b->narrow + (size_t)(lo * s->width) * size;
	char *wide = b->wide + (size_t)(lo * s->ffn) * size;
	const char *weight = b->weight + (size_t)(e * s->ffn * s->width) * size;
	const struct zr_op_matmul ops[] = {
		[FORWARD] = { .flags = ZR_MM_TRANS_B,
			      .m = hi - lo,
			      .n = s->ffn,
			      .k = s->width,
			      .lda = s->width,
			      .ldb = s->width,
			      .ldd = s->ffn,
			      .a = zr_array_at(s->dtype, narrow),
			      .b = zr_array_at(s->dtype, weight),
			      .d = zr_array_at(s->dtype, wide) },
		[INPUT] = { .m = hi - lo,
			    .n = s->width,
			    .k = s->ffn,
			    .lda = s->ffn,
			    .ldb = s->width,
			    .ldd = s->width,
			    .a = zr_array_at(s->dtype, wide),
			    .b = zr_array_at(s->dtype, weight),
			    .d = zr_array_at(s->dtype, narrow) },
		[WEIGHT] = { .flags = ZR_MM_TRANS_A,
			     .m = s->ffn,
			     .n = s->width,
			     .k = hi - lo,
			     .lda = s->ffn,
			     .ldb = s->width,
			     .ldd = s->width,
			     .a = zr_array_at(s->dtype, wide),
			     .b = zr_array_at(s->dtype, narrow),
			     .d = zr_array_at(ZR_F32, b->gradient + e * s->ffn * s->width) },
	};
	struct zr_op_matmul op = ops[what];
	op.size = sizeof op;
	b->ops->matmul(b->ops, NULL, &op);
}

static void each(const struct bench *b, enum product what)
{
	for (int64_t e = 0; e < b->s->experts; e++)
		if (b->offsets[e] < b->offsets[e + 1])
			single(b, what, b->offsets[e], b->offsets[e + 1], e);
}

static void dense(const struct bench *b, enum product what)
{
	single(b, what, 0, b->rows, 0);
}

/* ---- ratios ---- */

static void (*const ways[])(const struct bench *, enum product) = { grouped, each, dense };
enum { WAYS = sizeof ways / sizeof *ways };

static double timed(const struct bench *b, int way, enum product what, int times)
{
	double start = now();
	for (int i = 0; i < times; i++)
		ways[way](b, what);
	return (now() - start) / times;
}

static void compare(const struct bench *b, enum product what, double budget)
{
	static double ratio[WAYS][TURNS];
	double flop = 2.0 * (double)(b->rows * b->s->width) * (double)b->s->ffn, best = 1e9, end;
	int times = (int)(2e8 / flop) + 1, n = 0;
	for (int way = 0; way < WAYS; way++)
		timed(b, way, what, 1);
	end = now() + budget;
	do {
		double t[WAYS];
		for (int way = 0; way < WAYS; way++)
			t[way] = timed(b, way, what, times);
		for (int way = 1; way < WAYS; way++)
			ratio[way][n] = t[way] / t[0];
		best = t[0] < best ? t[0] : best;
		n++;
	} while (n < TURNS && now() < end);
	for (int way = 1; way < WAYS; way++)
		qsort(ratio[way], (size_t)n, sizeof **ratio, by_value);
	printf("%-20s %-2s %7.1f %6.2f %6.2f\n", b->s->name, product_name[what], flop / best * 1e-9,
	       ratio[1][n / 2], ratio[2][n / 2]);
}

static void run_shape(const struct zr_ops *ops, const struct shape *s, double budget)
{
	struct bench b = { .ops = ops, .s = s, .rows = s->tokens * s->k };
	int64_t weights = s->experts * s->ffn * s->width;
	route(&b);
	b.narrow = operand(b.rows * s->width, s->dtype);
	b.wide = operand(b.rows * s->ffn, s->dtype);
	b.weight = operand(weights, s->dtype);
	b.gradient = operand(weights, ZR_F32);
	for (int what = 0; what < PRODUCTS; what++)
		compare(&b, (enum product)what, budget);
	free(b.narrow);
	free(b.wide);
	free(b.weight);
	free(b.gradient);
	free(b.offsets);
	free(b.order);
}

int main(int argc, char **argv)
{
	struct zr_host *h = test_host(argc > 1 ? atoi(argv[1]) : 1);
	const char *only = argc > 4 ? argv[4] : NULL;
	const struct zr_desc *desc = test_plugin("device/cpu");
	const struct zr_device_v1 *v = test_iface(desc, "zr.device/1");
	void *opts = test_options(desc);
	struct zr_inst *inst;
	if (test_set(desc, opts, "isa", argc > 2 ? argv[2] : "auto") ||
	    test_create(h, desc, opts, &inst)) {
		fprintf(stderr, "experts: %s\n", test_error(h));
		return 1;
	}
	if (h->workers == 1)
		clock_id = CLOCK_THREAD_CPUTIME_ID;
	printf("%-20s %-2s %7s %6s %6s\n", "experts", "", "GFLOP/s", "loop", "dense");
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (!only || strstr(shapes[i].name, only))
			run_shape(v->ops(inst), &shapes[i], argc > 3 ? atof(argv[3]) * 1e-3 : 1);
	desc->destroy(inst);
	free(opts);
	test_host_free(h);
	return 0;
}
