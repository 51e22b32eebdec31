/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_bits.c - what the kernels promise about single numbers: random words and what is made
 * of them, non-finite values, minus zero, and the accuracy of our own functions. Each runs
 * in every variant of this machine.
 */
#include "cpu/scalar.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels_fixture.h"

/* for every variant k that runs here */
#define EACH_VARIANT(k)                                                                            \
	for (int v_ = 0; (k = fixture_kernels(v_)); v_++)                                          \
		if (fixture_runs(k))

/* ---- random words ---- */

/* The known answers that Salmon et al. publish with their generators. */
static void philox_gives_the_known_answers(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], word[4];
	} known[] = {
		{ { 0 }, { 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
		  { 0xffffffff, 0xffffffff },
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
		  { 0xa4093822, 0x299f31d0 },
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		uint32_t w[4];
		memcpy(w, known[i].counter, sizeof w);
		zr_philox(w, known[i].key[0], known[i].key[1]);
		assert_memory_equal(w, known[i].word, sizeof w);
	}
}

/* The third known answer again, through the fields of struct zr_rng. */
static void stream_is_keyed_as_documented(void **state)
{
	static const uint32_t word[4] = { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 };
	struct zr_rng g = {
		.seed = 0xa4093822u, .step = 0x299f31d0u, .slot = 0x13198a2e, .site = 0x03707344
	};
	uint32_t block[4];

	(void)state;
	zr_rng_block(&g, 0x85a308d3243f6a88u, block);
	assert_memory_equal(block, word, sizeof block);
	zr_rng_block(&g, 1ull << 40, block);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(zr_rng_word(&g, (1ull << 42) + i), block[i]);

	g.seed = (2ull << 32) + (uint32_t)(0xa4093822u - 3 * 0xbb67ae85u);
	g.step = (3ull << 32) + (uint32_t)(0x299f31d0u - 2 * 0x9e3779b9u);
	zr_rng_block(&g, 0x85a308d3243f6a88u, block);
	assert_memory_equal(block, word, sizeof block);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Runs of neighbouring seeds draw other numbers at every step, also at each other's. */
static void neighbouring_seeds_share_no_stream(void **state)
{
	enum { SEEDS = 64, STEPS = 512 };
	uint64_t *first = malloc(SEEDS * STEPS * sizeof *first);
	(void)state;
	for (uint64_t i = 0; i < SEEDS * STEPS; i++) {
		const struct zr_rng g = {
			.seed = 40 + i % SEEDS, .step = i / SEEDS, .slot = 1, .site = 8
		};
		first[i] = (uint64_t)zr_rng_word(&g, 0) << 32 | zr_rng_word(&g, 1);
	}
	qsort(first, SEEDS * STEPS, sizeof *first, by_value);
	for (int i = 1; i < SEEDS * STEPS; i++)
		if (first[i] == first[i - 1])
			fail_msg("two of %d streams begin with %016llx", SEEDS * STEPS,
				 (unsigned long long)first[i]);
	free(first);
}

enum { N = 100003 };

static float *ones(void)
{
	float *p = fixture_buffer(N, ZR_F32);
	for (int i = 0; i < N; i++)
		p[i] = 1;
	return p;
}

static void dropout_keeps_its_share(void **state)
{
	const struct zr_cpu_kernels *k;
	static const float rates[] = { 0.1f, 0.5f, 0.9f };

	(void)state;
	EACH_VARIANT(k)
	{
		for (int r = 0; r < 3; r++) {
			struct zr_op_residual op = { .dtype = ZR_F32,
						     .dropout = rates[r],
						     .n = N,
						     .rng = { 1, 2, 3, 4 },
						     .b = ones(),
						     .out = fixture_buffer(N, ZR_F32) };
			double p = rates[r], kept = 0;
			k->residual(&op, 0, N);
			for (int i = 0; i < N; i++) {
				float x = ((float *)op.out)[i];
				assert_true(x == 0 || x == (float)(1 / (1 - p)));
				kept += x != 0;
			}
			fixture_near(kept, N * (1 - p), 5 * sqrt(N * p * (1 - p)));
			fixture_release();
		}
	}
}

/* Seed, step, slot and site each choose another pattern; the same four give the same one. */
static void dropout_is_a_function_of_its_key(void **state)
{
	static const struct zr_rng keys[] = { { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 9, 2, 3, 4 },
					      { 1, 9, 3, 4 }, { 1, 2, 9, 4 }, { 1, 2, 3, 9 } };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		struct zr_op_residual op = {
			.dtype = ZR_F32, .dropout = 0.5f, .n = N, .b = ones()
		};
		float *out[6];
		for (int i = 0; i < 6; i++) {
			op.rng = keys[i];
			op.out = out[i] = fixture_buffer(N, ZR_F32);
			k->residual(&op, 0, N);
		}
		assert_memory_equal(out[0], out[1], N * sizeof(float));
		for (int i = 2; i < 6; i++) {
			int same = 0;
			for (int e = 0; e < N; e++)
				same += out[0][e] == out[i][e];
			fixture_near(same, N / 2.0, 5 * sqrt(N / 4.0)); /* unrelated, too */
		}
		fixture_release();
	}
}

static void init_is_normal(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		struct zr_op_init op = { .n = N,
					 .mean = 3,
					 .std = 0.5,
					 .rng = { 7, 0, 0, 1 },
					 .dst = fixture_buffer(N, ZR_F32) };
		double m1 = 0, m2 = 0, m3 = 0, m4 = 0, beyond2 = 0, beyond4 = 0, next = 0, last = 0;
		k->init(&op, 0, N);
		for (int i = 0; i < N; i++) {
			double z = (op.dst[i] - 3) / 0.5;
			m1 += z / N;
			m2 += z * z / N;
			m3 += z * z * z / N;
			m4 += z * z * z * z / N;
			beyond2 += fabs(z) > 2;
			beyond4 += fabs(z) > 4;
			next += z * last / N;
			last = z;
			assert_true(fabs(z) < 6.8);
		}
		double s = 5 / sqrt(N); /* five standard errors of a mean of variance 1 */
		fixture_near(m1, 0, s);
		fixture_near(m2, 1, s * sqrt(2));
		fixture_near(m3, 0, s * sqrt(15));
		fixture_near(m4, 3, s * sqrt(96));
		fixture_near(next, 0, s); /* neighbours are independent */
		fixture_near(beyond2, 0.0455 * N, 5 * sqrt(0.0455 * N));
		assert_in_range(beyond4, 0, 25); /* 6.3 expected */
		fixture_release();
	}
}

/* As <zeroth/device.h> says it. */
static void init_is_uniform(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		struct zr_op_init op = { .flags = ZR_INIT_OP_UNIFORM,
					 .n = N,
					 .first = 5,
					 .mean = 3,
					 .std = 0.5,
					 .rng = { 7, 0, 0, 1 },
					 .dst = fixture_buffer(N, ZR_F32) };
		double sum = 0, squares = 0;
		k->init(&op, 0, N);
		for (int i = 0; i < N; i++) {
			uint32_t a = zr_rng_word(&op.rng, 2 * (uint64_t)(5 + i));
			double z = (a + 0.5) / 2147483648.0 - 1;
			assert_true(op.dst[i] == (float)(3 + 0.5 * z));
			sum += z / N;
			squares += z * z / N;
		}
		fixture_near(sum, 0, 5 / sqrt(3.0 * N));
		fixture_near(squares, 1 / 3.0, 5 / sqrt(N));
		fixture_release();
	}
}

static void init_depends_on_the_element_alone(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		struct zr_op_init all = { .n = 1000,
					  .std = 1,
					  .rng = { 7, 0, 0, 1 },
					  .dst = fixture_buffer(1000, ZR_F32) };
		struct zr_op_init some = all;
		k->init(&all, 0, 1000);
		for (some.first = 1; some.first < 300; some.first += 37) {
			some.n = 1000 - some.first;
			some.dst = fixture_buffer(some.n, ZR_F32);
			k->init(&some, 0, some.n);
			assert_memory_equal(some.dst, all.dst + some.first,
					    (size_t)some.n * sizeof(float));
		}
		fixture_release();
	}
}

/* Box-Muller as <zeroth/device.h> says it, by libm. */
static void normals_are_box_muller(void **state)
{
	struct zr_rng g = { 3, 1, 4, 1 };

	(void)state;
	for (uint64_t e = 0; e < 10000; e++) {
		uint32_t a = zr_rng_word(&g, 2 * e), b = zr_rng_word(&g, 2 * e + 1);
		double u = (a + 0.5) / 4294967296.0, turn = b / 4294967296.0;
		fixture_near(zr_normal(a, b), sqrt(-2 * log(u)) * cos(2 * M_PI * turn), 1e-12);
	}
	assert_true(isfinite(zr_normal(0, 0)) && isfinite(zr_normal(UINT32_MAX, UINT32_MAX)));
}

static float *filled(float x)
{
	float *p = fixture_buffer(N, ZR_F32);

	for (int i = 0; i < N; i++)
		p[i] = x;
	return p;
}

/* Only the two neighbours, the farther in magnitude with the probability of the part that is
 * cut. */
static void stochastic_rounding_has_no_bias(void **state)
{
	static const struct {
		float x, below, above;
	} cases[] = {
		{ 0x1.01p0f, 0x1p0f, 0x1.02p0f },
		{ -0x1.008p0f, -0x1p0f, -0x1.02p0f },
		/* carries; subnormal */
		{ 0x1.ffcp5f, 0x1.fep5f, 0x1p6f },
		{ 0x1.8p-134f, 0, 0x1p-133f },
		{ 0x1.fffffep127f, 0x1.fep127f, INFINITY },
		{ 0x1.00002p0f, 0x1p0f, 0x1.02p0f },
	};
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
			struct zr_op_round_stochastic op = { .n = N,
							     .rng = { 1, 2, 3, 4 },
							     .src = filled(cases[c].x),
							     .dst = fixture_buffer(N, ZR_BF16) };
			double p = (zr_bits(cases[c].x) & 0xffff) / 65536.0, up = 0;
			k->round_stochastic(&op, 0, N);
			for (int i = 0; i < N; i++) {
				float y = zr_from_bf16(op.dst[i]);
				assert_true(y == cases[c].below || y == cases[c].above);
				up += y == cases[c].above;
			}
			fixture_near(up, N * p, 5 * sqrt(N * p * (1 - p)));
			fixture_release();
		}
	}
}

static void stochastic_rounding_leaves_what_bf16_holds(void **state)
{
	static const float exact[] = { 0,           -0.0f,    1,         -0x1.fep-3f,
				       0x1.fep127f, INFINITY, -INFINITY, 0x1p-133f };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		for (size_t c = 0; c < sizeof exact / sizeof *exact; c++) {
			struct zr_op_round_stochastic op = { .n = N,
							     .rng = { 1, 2, 3, 4 },
							     .src = filled(exact[c]),
							     .dst = fixture_buffer(N, ZR_BF16) };
			k->round_stochastic(&op, 0, N);
			for (int i = 0; i < N; i++)
				assert_int_equal(op.dst[i], zr_bits(exact[c]) >> 16);
			fixture_release();
		}
		float nan[2] = { zr_from_bits(0x7f800001), zr_from_bits(0xffffffff) };
		uint16_t to[2];
		struct zr_op_round_stochastic op = { .n = 2, .src = nan, .dst = to };
		k->round_stochastic(&op, 0, 2);
		assert_true(to[0] == 0x7fc0 && to[1] == 0xffff);
	}
}

static void stochastic_rounding_depends_on_the_element_alone(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		struct zr_op_round_stochastic all = { .n = N,
						      .rng = { 7, 8, 9, 1 },
						      .src = filled(0x1.01p0f),
						      .dst = fixture_buffer(N, ZR_BF16) },
					      some = all;
		k->round_stochastic(&all, 0, N);
		for (some.first = 1; some.first < 300; some.first += 37) {
			some.n = 1000 - some.first;
			some.dst = fixture_buffer(some.n, ZR_BF16);
			k->round_stochastic(&some, 0, some.n);
			assert_memory_equal(some.dst, all.dst + some.first, (size_t)some.n * 2);
		}
		fixture_release();
	}
}

/* ---- fold ---- */

static void fold_stores_minus_zero(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		for (int32_t dtype = ZR_F32; dtype <= ZR_F16; dtype++) {
			float g[19], *acc = fixture_buffer(19, ZR_F32);
			struct zr_op_fold op = { .comm_dtype = dtype, .n = 19, .g = g, .acc = acc };
			for (int i = 0; i < 19; i++)
				g[i] = -0.0f;
			k->fold(&op, 0, 1);
			for (int i = 0; i < 19; i++)
				assert_int_equal(zr_bits(acc[i]), 0x80000000u);
			fixture_release();
		}
	}
}

static void fold_counts_what_is_not_finite(void **state)
{
	enum { LENGTH = ZR_BLOCK + 37 };
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		float *g = fixture_buffer(LENGTH, ZR_F32), *acc = fixture_buffer(LENGTH, ZR_F32);
		double *sumsq = fixture_buffer(2, ZR_F64);
		uint32_t *bad = fixture_buffer(2, ZR_F32);
		struct zr_op_fold op = { .comm_dtype = ZR_F32,
					 .n = LENGTH,
					 .g = g,
					 .acc = acc,
					 .sumsq = sumsq,
					 .nonfinite = bad };
		for (int i = 0; i < LENGTH; i++)
			g[i] = i % 2 ? 3 : -2;
		k->fold(&op, 0, 2);
		fixture_near(sumsq[0], ZR_BLOCK / 2 * 13.0, 0);
		fixture_near(sumsq[1], 18 * 13.0 + 4, 0);
		assert_true(bad[0] == 0 && bad[1] == 0);
		g[5] = NAN;
		g[6] = -INFINITY;
		g[ZR_BLOCK - 1] = INFINITY;
		g[LENGTH - 1] = zr_from_bits(0xff800001u); /* a signalling NaN in the tail */
		/* finite, and its square, too, in fp64 */
		g[9] = 0x1.fffffep+127f;
		k->fold(&op, 0, 2);
		assert_true(bad[0] == 3 && bad[1] == 1);
		assert_false(isfinite(sumsq[0]) || isfinite(sumsq[1]));
		fixture_release();
	}
}

/* What loss scaling looks for: a gradient that the wire cannot hold. */
static void fold_counts_what_overflows_fp16(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		float g[5] = { 65519, 65520, -1e38f, 1e-38f, -65504 }, acc[5];
		double sumsq;
		uint32_t bad;
		struct zr_op_fold op = { .comm_dtype = ZR_F16,
					 .n = 5,
					 .g = g,
					 .acc = acc,
					 .sumsq = &sumsq,
					 .nonfinite = &bad };
		k->fold(&op, 0, 1);
		assert_int_equal(bad, 2);
		assert_true(acc[0] == 65504 && acc[1] == INFINITY && acc[2] == -INFINITY &&
			    acc[3] == 0 && acc[4] == -65504);
	}
}

/* acc + round(g), not round(acc + g): the wire's dtype, then fp32. */
static void fold_rounds_the_contribution_once(void **state)
{
	const struct zr_cpu_kernels *k;

	(void)state;
	EACH_VARIANT(k)
	{
		float g[1] = { 0x1.01p0f }, acc[1] = { 0x1p-20f }; /* 1 + 2^-8 is a tie */
		struct zr_op_fold op = {
			.flags = ZR_OP_ACCUMULATE, .comm_dtype = ZR_BF16, .n = 1, .g = g, .acc = acc
		};
		k->fold(&op, 0, 1);
		fixture_near(acc[0], 0x1.02p0 + 0x1p-20, 0);
		op.comm_dtype = ZR_F16;
		g[0] = 0x1.006p0f; /* 1 + 3 * 2^-11, a tie */
		acc[0] = 0x1p-20f;
		k->fold(&op, 0, 1);
		fixture_near(acc[0], 0x1.008p0 + 0x1p-20, 0);
	}
}

static void fold_can_only_measure(void **state)
{
	enum { BLOCKS = 6, LENGTH = (BLOCKS - 1) * ZR_BLOCK + 777 };
	const struct zr_cpu_kernels *k;
	uint64_t seed = 5;

	(void)state;
	EACH_VARIANT(k)
	{
		float *acc = fixture_drawn(&seed, LENGTH, ZR_F32, 1), copy[LENGTH];
		double sumsq[BLOCKS], sum[BLOCKS] = { 0 };
		uint32_t bad[BLOCKS];
		struct zr_op_fold op = { .comm_dtype = ZR_F32,
					 .n = LENGTH,
					 .g = acc,
					 .acc = acc,
					 .sumsq = sumsq,
					 .nonfinite = bad };
		memcpy(copy, acc, sizeof copy);
		for (int i = 0; i < LENGTH; i++)
			/* exact: small multiples of 2^-12 */
			sum[i / ZR_BLOCK] += (double)acc[i] * acc[i];
		k->fold(&op, 0, BLOCKS);
		assert_memory_equal(acc, copy, sizeof copy);
		for (int b = 0; b < BLOCKS; b++) {
			fixture_near(sumsq[b], sum[b], 0);
			assert_int_equal(bad[b], 0);
		}
		fixture_release();
	}
}

/* ---- several contributions in a fold ---- */

enum { SEVERAL = 2 * ZR_BLOCK + 37, MOST_LEAVES = 16, MOST_LEVELS = 4 };

/* With full mantissas, so that each addition rounds. */
static void *drawn_finely(uint64_t *state, int64_t n, int32_t dtype)
{
	void *p = fixture_buffer(n, dtype);
	for (int64_t i = 0; i < n; i++)
		zr_put(p, i, dtype, (float)(fixture_draw(state) * 0.731));
	return p;
}

/* The sum of n leaves as a balanced tree, by its definition. */
static float tree(const float *leaf, int n, int32_t dtype)
{
	if (n == 1)
		return zr_rounded(*leaf, dtype);
	return zr_rounded(tree(leaf, n / 2, dtype) + tree(leaf + n / 2, n / 2, dtype), dtype);
}

struct several {
	int32_t group, number, from, dtype;
	int adds, listed, to16;
	void *leaf[MOST_LEAVES]; /* [SEVERAL] of type from */
	float *acc, *waiting;
	double *sumsq;
	uint32_t *bad;
};

/* acc of element i after all leaves. */
static float several_should_be(const struct several *t, int64_t i, float before)
{
	float leaf[MOST_LEAVES], sum = before;
	for (int k = 0; k < MOST_LEAVES; k++)
		leaf[k] = (float)fixture_get(t->leaf[k], i, t->from);
	for (int k = 0; k < MOST_LEAVES; k += t->group) {
		float x = tree(leaf + k, t->group, t->dtype);
		sum = k || t->adds ? sum + x : x;
	}
	return sum;
}

/* The calls that bring all leaves to acc; call by call, block by block. */
static void several_run(const struct zr_cpu_kernels *kernels, struct several *t)
{
	const int32_t turns = t->number < t->group ? t->group / t->number : 1;
	for (int32_t k = 0; k < MOST_LEAVES; k += t->number) {
		const int32_t turn = k / t->number % turns;
		const int last = turn + 1 == turns;
		struct zr_op_fold op = {
			.size = sizeof op,
			.flags = t->adds || k >= t->group ? ZR_OP_ACCUMULATE : 0,
			.comm_dtype = t->dtype,
			.n = SEVERAL,
			.g = t->leaf[k],
			.acc = t->acc,
			.sumsq = last ? t->sumsq : NULL,
			.nonfinite = last ? t->bad : NULL,
			.number = t->number,
			.from = t->from,
			.apart = (char *)t->leaf[1] - (char *)t->leaf[0],
			.each = t->listed ? (const void *const *)t->leaf + k : NULL,
			.group = t->group,
			.turn = turn,
			.waiting = t->waiting,
			.waiting_apart = SEVERAL,
		};
		for (int64_t b = 0; b < 3; b++)
			kernels->fold(&op, b, b + 1);
	}
}

static void several_check(const struct zr_cpu_kernels *kernels, struct several *t)
{
	float before[SEVERAL];
	double squares = 0;
	for (int64_t i = 0; i < SEVERAL; i++)
		before[i] = t->acc[i] = (float)(i % 7) * 0.37f;
	several_run(kernels, t);
	for (int64_t i = 0; i < SEVERAL; i++)
		assert_int_equal(zr_bits(t->acc[i]), zr_bits(several_should_be(t, i, before[i])));
	for (int64_t i = 2 * ZR_BLOCK; i < SEVERAL; i++)
		squares += (double)t->acc[i] * t->acc[i];
	fixture_near(t->sumsq[2], squares, 1e-12);
	assert_int_equal(t->bad[0] + t->bad[1] + t->bad[2], 0);
}

/* Whatever number of leaves a call brings, where they lie and how wide they are. */
static void fold_adds_trees_however_leaves_come(void **state)
{
	const struct zr_cpu_kernels *k;
	uint64_t seed = 11;

	(void)state;
	EACH_VARIANT(k)
	for (int32_t from = ZR_F32; from <= ZR_F16; from++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_F16; dtype++) {
			char *leaves = drawn_finely(&seed, MOST_LEAVES * SEVERAL, from);
			struct several t = { .from = from,
					     .dtype = dtype,
					     .acc = fixture_buffer(SEVERAL, ZR_F32),
					     .waiting =
						     fixture_buffer(MOST_LEVELS * SEVERAL, ZR_F32),
					     .sumsq = fixture_buffer(3, ZR_F64),
					     .bad = fixture_buffer(3, ZR_F32) };
			for (int l = 0; l < MOST_LEAVES; l++)
				t.leaf[l] = leaves + (size_t)l * SEVERAL * (from == ZR_F32 ? 4 : 2);
			for (t.group = 1; t.group <= MOST_LEAVES; t.group *= 2)
				for (t.number = 1; t.number <= MOST_LEAVES; t.number *= 2) {
					t.adds = t.number & 1;
					t.listed = t.number & 2;
					several_check(k, &t);
				}
			fixture_release();
		}
}

/* What machines send each other: a node of the tree in the type of the wire. */
static void fold_stores_a_tree_in_16_bits(void **state)
{
	const struct zr_cpu_kernels *k;
	uint64_t seed = 12;

	(void)state;
	EACH_VARIANT(k)
	for (int32_t dtype = ZR_BF16; dtype <= ZR_F16; dtype++) {
		float *leaf = drawn_finely(&seed, 4 * 19, ZR_F32), wide[19];
		uint16_t *sum = fixture_buffer(19, dtype);
		struct zr_op_fold op = { .size = sizeof op,
					 .comm_dtype = dtype,
					 .n = 19,
					 .g = leaf,
					 .acc = (float *)(void *)sum,
					 .number = 4,
					 .apart = 19 * 4,
					 .group = 4,
					 .to = dtype };
		k->fold(&op, 0, 1);
		op.acc = wide;
		op.to = 0;
		k->fold(&op, 0, 1);
		for (int i = 0; i < 19; i++)
			assert_int_equal(zr_bits((float)fixture_get(sum, i, dtype)),
					 zr_bits(wide[i]));
		fixture_release();
	}
}

/* Three trees of two in one call, each to its own place, in the type of the wire and in fp32. */
static void fold_stores_each_tree_in_its_place(void **state)
{
	enum { LENGTH = 21, APART = 32 };
	const struct zr_cpu_kernels *k;
	uint64_t seed = 13;

	(void)state;
	EACH_VARIANT(k)
	for (int32_t dtype = ZR_F32; dtype <= ZR_F16; dtype++) {
		float *leaf = drawn_finely(&seed, 6 * LENGTH, ZR_F32);
		char *sum = fixture_buffer(3 * APART, dtype);
		struct zr_op_fold op = { .size = sizeof op,
					 .comm_dtype = dtype,
					 .n = LENGTH,
					 .g = leaf,
					 .acc = (float *)(void *)sum,
					 .number = 6,
					 .apart = LENGTH * 4,
					 .group = 2,
					 .to = dtype,
					 .to_apart = APART };
		k->fold(&op, 0, 1);
		for (int i = 0; i < 3 * LENGTH; i++) {
			const int t = i / LENGTH, e = i % LENGTH;
			const float pair[] = { leaf[2 * t * LENGTH + e],
					       leaf[(2 * t + 1) * LENGTH + e] };
			assert_int_equal(zr_bits((float)fixture_get(sum, t * APART + e, dtype)),
					 zr_bits(tree(pair, 2, dtype)));
		}
		fixture_release();
	}
}

/* ---- our own functions ---- */

static void exp_is_within_one_ulp(void **state)
{
	(void)state;
	for (double at = -87.3; at < 88.7; at += 0.00137) {
		float x = (float)at;
		double want = exp((double)x);
		fixture_near(zr_expf(x), want, want * 0x1p-23);
	}
	assert_true(zr_expf(0) == 1 && zr_expf(-0.0f) == 1);
	assert_true(zr_expf(-INFINITY) == 0 && zr_expf(-88) == 0 && isinf(zr_expf(89)) &&
		    isinf(zr_expf(INFINITY)));
	assert_true(isnan(zr_expf(NAN)));
}

static void log_and_cos_are_accurate(void **state)
{
	(void)state;
	for (double x = 1e-300; x < 1e300; x *= 1.37)
		fixture_near(zr_logd(x), log(x), 1e-14 * (1 + fabs(log(x))));
	for (double x = 0.7; x < 1.5; x += 0.0037) /* relative to the small result, too */
		fixture_near(zr_logd(x), log(x), 1e-14 * fabs(log(x)));
	for (uint64_t w = 0; w < 1ull << 32; w += 0x12345)
		fixture_near(zr_cos_turn((uint32_t)w), cos(2 * M_PI * ((double)w / 4294967296.0)),
			     1e-12);
	assert_true(zr_cos_turn(0x40000000) == 0 && zr_cos_turn(0xc0000000) == 0);
}

static void gelu_is_accurate_and_calm_in_its_tails(void **state)
{
	(void)state;
	for (double at = -12; at < 12; at += 0.0037) {
		double x = (float)at, u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
		fixture_near(zr_gelu((float)x), 0.5 * x * (1 + tanh(u)), 3e-7 * (1 + fabs(x)));
	}
	assert_true(zr_gelu(1e30f) == 1e30f && zr_gelu(-1e30f) == 0 && zr_gelu(0) == 0);
	assert_true(zr_gelu_grad(1e3f) == 1 && zr_gelu_grad(0) == 0.5f);
	for (float x = -11; x > -1e30f; x *= 7) {
		fixture_near(zr_gelu_grad(x), 0, 1e-30);
		assert_true(zr_gelu_grad(-x) == 1);
	}
	assert_true(isnan(zr_gelu(NAN)) && isnan(zr_gelu_grad(NAN)));
}

/* Angles of the last positions of long contexts, where a fast frequency makes hundreds of thousands
 * of turns. */
static void sine_and_cosine_hold_for_long_sequences(void **state)
{
	(void)state;
	for (float a = 0; a < 2e5f; a += a < 100 ? 0.0137f : 13.37f) {
		fixture_near(zr_cos(a), cos((double)a), 0x1p-24);
		fixture_near(zr_sin(a), sin((double)a), 0x1p-24);
	}
	assert_true(zr_cos(0) == 1 && zr_sin(0) == 0);
	fixture_near(zr_cos(0x1p26f), cos(0x1p26), 1e-6);
	fixture_near(zr_sin(0x1p26f), sin(0x1p26), 1e-6);
}

static void silu_is_accurate_and_calm_in_its_tails(void **state)
{
	(void)state;
	for (double at = -90; at < 90; at += 0.037) {
		double x = (float)at, s = 1 / (1 + exp(-x));
		fixture_near(zr_silu((float)x), x * s, 3e-7 * fabs(x * s) + 1e-36);
		fixture_near(zr_silu_grad((float)x), s * (1 + x * (1 - s)), 3e-7);
	}
	assert_true(zr_silu(1e30f) == 1e30f && zr_silu(-1e30f) == 0 && zr_silu(0) == 0);
	assert_true(zr_silu_grad(1e3f) == 1 && zr_silu_grad(0) == 0.5f);
	for (float x = -81; x > -1e30f; x *= 7) {
		fixture_near(zr_silu_grad(x), 0, 1e-30);
		assert_true(zr_silu_grad(-x) == 1);
	}
	assert_true(isnan(zr_silu(NAN)) && isnan(zr_silu_grad(NAN)));
}

static void tanh_is_accurate_everywhere(void **state)
{
	(void)state;
	for (float x = 1e-30f; x < 1e30f; x *= 1.003f) {
		double want = tanh((double)x);
		fixture_near(zr_tanhf(x), want, 3e-7 * want);
		fixture_near(zr_tanhf(-x), -want, 3e-7 * want);
	}
	assert_true(zr_tanhf(INFINITY) == 1 && zr_tanhf(-INFINITY) == -1 && zr_tanhf(0) == 0);
	assert_true(isnan(zr_tanhf(NAN)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(philox_gives_the_known_answers),
		cmocka_unit_test(stream_is_keyed_as_documented),
		cmocka_unit_test(neighbouring_seeds_share_no_stream),
		cmocka_unit_test(dropout_keeps_its_share),
		cmocka_unit_test(dropout_is_a_function_of_its_key),
		cmocka_unit_test(init_is_normal),
		cmocka_unit_test(init_is_uniform),
		cmocka_unit_test(init_depends_on_the_element_alone),
		cmocka_unit_test(normals_are_box_muller),
		cmocka_unit_test(stochastic_rounding_has_no_bias),
		cmocka_unit_test(stochastic_rounding_leaves_what_bf16_holds),
		cmocka_unit_test(stochastic_rounding_depends_on_the_element_alone),
		cmocka_unit_test(fold_stores_minus_zero),
		cmocka_unit_test(fold_counts_what_is_not_finite),
		cmocka_unit_test(fold_counts_what_overflows_fp16),
		cmocka_unit_test(fold_rounds_the_contribution_once),
		cmocka_unit_test(fold_can_only_measure),
		cmocka_unit_test(fold_adds_trees_however_leaves_come),
		cmocka_unit_test(fold_stores_a_tree_in_16_bits),
		cmocka_unit_test(fold_stores_each_tree_in_its_place),
		cmocka_unit_test(exp_is_within_one_ulp),
		cmocka_unit_test(log_and_cos_are_accurate),
		cmocka_unit_test(gelu_is_accurate_and_calm_in_its_tails),
		cmocka_unit_test(sine_and_cosine_hold_for_long_sequences),
		cmocka_unit_test(silu_is_accurate_and_calm_in_its_tails),
		cmocka_unit_test(tanh_is_accurate_everywhere),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("kernels_bits", tests, NULL, NULL);
}
