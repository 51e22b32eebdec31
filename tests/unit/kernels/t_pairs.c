/* SPDX-License-Identifier: Apache-2.0
 *
 * t_pairs.c - sums of pairs of bf16 and the products made of them: the processor against the
 * arithmetic that kernels/cpu/bf16_pairs.h writes down, bit by bit.
 */
#include "cpu/bf16_pairs.h"
#include "cpu/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels_fixture.h"
#include "tests/lib/isa.h"
#include "tests/lib/sanitize.h"
#include "tests/twins/twins.h"

#ifdef HAVE_AVX512BF16
static uint32_t draw32(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 32);
}

/* Any bits; values near 1; products near the least; near the largest; zeros, denormals,
 * infinities */
static uint16_t operand(uint64_t *state, int kind)
{
	static const uint16_t odd[] = { 0,      0x8000, 1,      0x8001, 0x7f,  0x80,
					0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0 };
	const uint32_t x = draw32(state), low = x & 0x807f, e = x >> 16;
	switch (kind) {
	case 0:
		return (uint16_t)(x >> 8);
	case 1:
		return (uint16_t)(low | (120 + e % 14) << 7);
	case 2:
		return (uint16_t)(low | (e % 110) << 7);
	case 3:
		return (uint16_t)(low | (180 + e % 75) << 7);
	default:
		return odd[e % (sizeof odd / sizeof *odd)];
	}
}

static int same(float a, float b)
{
	return zr_bits(a) == zr_bits(b) || (a != a && b != b);
}

static void the_processor_sums_pairs_as_written_down(void **state)
{
	uint64_t seed = 1;
	(void)state;
	if (!isa_runs("avx512bf16"))
		skip();
	for (int n = 0; n < 20000; n++) {
		uint16_t a[32], b[32];
		float sum[16], was[16];
		for (int i = 0; i < 32; i++) {
			a[i] = operand(&seed, n % 5);
			b[i] = operand(&seed, n % 5);
			if (i % 2)
				continue;
			was[i / 2] = zr_from_bits((uint32_t)operand(&seed, n / 5 % 5) << 16 |
						  (n % 2 ? draw32(&seed) & 0xffff : 0));
		}
		memcpy(sum, was, sizeof sum);
		zr_pair_sums_avx512bf16(sum, a, b);
		for (int i = 0; i < 16; i++)
			if (!same(sum[i], zr_pair_sum(was[i], a + 2 * i, b + 2 * i)))
				fail_msg("%a + (%x, %x) (%x, %x): %a, written down %a",
					 (double)was[i], a[2 * i], a[2 * i + 1], b[2 * i],
					 b[2 * i + 1], (double)sum[i],
					 (double)zr_pair_sum(was[i], a + 2 * i, b + 2 * i));
	}
}

static void the_order_of_a_pair_and_denormals_matter(void **state)
{
	/* 2^30 + 1 and 2^-140: the odd product comes first, and what is denormal is 0 */
	const uint16_t a[2] = { 0x3f80, 0x4e80 }, b[2] = { 0x3f80, 0xbf80 },
		       tiny[2] = { 0x0001, 0 }, none[2] = { 0, 0 };
	(void)state;
	assert_true(zr_pair_sum(0x1p30f, a, b) == 1);
	assert_true(zr_pair_sum(0, tiny, a) == 0);
	assert_true(zr_pair_sum(0x1p-130f, none, a) == 0);
}

/* ---- products ---- */

struct product {
	struct zr_op_matmul op;
	struct zr_op_matmul_low_rank low;
	int with_low;
};

static struct product make(uint64_t *seed, const int64_t *mnk, uint32_t flags, int32_t d_dtype,
			   int bias, int low)
{
	const int64_t m = mnk[0], n = mnk[1], k = mnk[2];
	struct product p = { .with_low = low };
	p.op = (struct zr_op_matmul){
		.size = sizeof p.op,
		.flags = flags,
		.a.dtype = ZR_BF16,
		.b.dtype = ZR_BF16,
		.d.dtype = d_dtype,
		.m = m,
		.n = n,
		.k = k,
		.lda = (flags & ZR_MM_TRANS_A ? m : k) + (int64_t)(*seed % 3),
		.ldb = (flags & ZR_MM_TRANS_B ? k : n) + (int64_t)(*seed / 3 % 3),
		.ldd = n + 1,
	};
	p.op.a.data = fixture_drawn(seed, p.op.lda * (flags & ZR_MM_TRANS_A ? k : m), ZR_BF16, 1);
	p.op.b.data =
		fixture_drawn(seed, p.op.ldb * (flags & ZR_MM_TRANS_B ? n : k), ZR_BF16, 0x1p-3);
	p.op.bias = bias ? fixture_drawn(seed, n, ZR_BF16, 1) : NULL;
	p.low = (struct zr_op_matmul_low_rank){ .size = sizeof p.low,
						.r = 5,
						.gain = 0.5f,
						.product = p.op,
						.dropout = low > 1 ? 0.25f : 0,
						.flags = low > 1 ? ZR_LR_TRANS_V : 0 };
	p.low.u = fixture_drawn(seed, m * 5, ZR_BF16, 1);
	p.low.v = fixture_drawn(seed, n * 5, ZR_BF16, 1);
	return p;
}

/* Where a cache line begins: only such a result goes past the caches. */
static void *on_a_line(char *p)
{
	return p + (64 - (uintptr_t)p % 64) % 64;
}

typedef void tile_fn(const struct zr_op_matmul *, const struct zr_op_matmul_low_rank *, int64_t,
		     int64_t, int64_t, int64_t, void *);

/* The whole product in three tiles, against the twin. */
static void compare(tile_fn *tile, int tiles, struct product *p, uint64_t *seed, void *scratch)
{
	const int64_t m = p->op.m, n = p->op.n, size = fixture_size(p->op.d.dtype) * m * p->op.ldd;
	const int64_t row = m / 3, col = n / 2;
	void *start = fixture_drawn(seed, m * p->op.ldd, p->op.d.dtype, 1), *d[2], *pre[2];
	for (int twin = 0; twin < 2; twin++) {
		struct zr_op_matmul op = p->op;
		struct zr_op_matmul_low_rank low = p->low;
		op.d.data = d[twin] = on_a_line(fixture_buffer(m * op.ldd + 64, op.d.dtype));
		op.pre = pre[twin] = fixture_buffer(m * op.ldd, op.d.dtype);
		memcpy(op.d.data, start, (size_t)size);
		memcpy(op.pre, start, (size_t)size);
		low.product = op;
		const struct zr_op_matmul_low_rank *l = p->with_low ? &low : NULL;
		if (twin) {
			zr_gemm_tile_twin(&op, l, tiles, 0, m, 0, n);
			continue;
		}
		tile(&op, l, 0, row, 0, n, scratch);
		tile(&op, l, row, m - row, 0, col, scratch);
		tile(&op, l, row, m - row, col, n - col, scratch);
	}
	if (memcmp(d[0], d[1], (size_t)size) || memcmp(pre[0], pre[1], (size_t)size))
		fail_msg("tiles %d: %lld x %lld x %lld, flags %u, result %d, low rank %d: other "
			 "bits",
			 tiles, (long long)m, (long long)n, (long long)p->op.k, p->op.flags,
			 p->op.d.dtype, p->with_low);
}

static void hold_to_twin(tile_fn *tile, int tiles)
{
	static const int64_t shapes[][3] = {
		{ 1, 1, 1 },
		{ 3, 50, 7 },
		{ 8, 48, 16 },
		{ 17, 97, 385 },
		{ 5, 33, 768 },
		{ 40, 64, 801 },
		{ 260, 5, 6 },
		{ 2, 3, 0 },
		/* rows that fill tiles, more of K than is packed at once, and a
		 * result that goes past the caches */
		{ 96, 170, 70 },
		{ 40, 17, 2100 },
		{ 513, 511, 3 },
		/* groups of columns, each in parts of K */
		{ 20, 160, 448 },
		/* more rows at once, and more than that */
		{ 540, 20, 450 },
		{ 1060, 35, 40 },
		/* more columns at once than sums are kept of */
		{ 33, 1600, 18 },
		{ 8, 1600, 18 }
	};
	static const uint32_t trans[] = { 0, ZR_MM_TRANS_A, ZR_MM_TRANS_B,
					  ZR_MM_TRANS_A | ZR_MM_TRANS_B };
	void *scratch = aligned_alloc(64, ZR_GEMM_SCRATCH);
	uint64_t seed = 7;
	assert_non_null(scratch);
	for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
		const int64_t results = shapes[s][0] * shapes[s][1];
		const int large = results > 100000 || results * shapes[s][2] > 3000000;
		for (int t = 0; t < 4; t++) {
			static const struct {
				uint32_t flags;
				int32_t d;
				int bias, low;
			} kinds[] = {
				{ 0, ZR_F32, 0, 0 },          { ZR_MM_ACCUMULATE, ZR_F32, 0, 0 },
				{ 0, ZR_BF16, 1, 1 },         { ZR_MM_GELU, ZR_BF16, 1, 0 },
				{ ZR_MM_GELU, ZR_F32, 1, 2 }, { ZR_MM_ACCUMULATE, ZR_F32, 0, 2 },
			};
			for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
				/* of large results each kind in one layout: what is done with
				 * a result knows nothing of the operands' */
				if (large && (int)i % 4 != t)
					continue;
				if (sanitized() && ((int)i + t + (int)s) % 3)
					continue;
				struct product p = make(&seed, shapes[s], trans[t] | kinds[i].flags,
							kinds[i].d, kinds[i].bias, kinds[i].low);
				compare(tile, tiles, &p, &seed, scratch);
				fixture_release();
			}
		}
	}
	free(scratch);
}

/* On processors of Intel vdpbf16ps has half the rate of a multiply-add: widened numbers are
 * faster. */
static void slow_pairs_are_left_out(void **state)
{
	(void)state;
	if (!isa_runs("avx512bf16"))
		skip();
	assert_int_equal(zr_cpu_best_of(ZR_CPU_AVX512BF16, 0), ZR_CPU_AVX512BF16);
	assert_int_equal(zr_cpu_best_of(ZR_CPU_AVX512BF16, 1), ZR_CPU_AVX512);
}

/* Of few rows, and of values at the edges of what bf16 and fp32 hold, kind by kind. */
static void hold_few_rows(tile_fn *tile)
{
	static const int64_t nk[][2] = {
		{ 300, 77 }, { 31, 64 }, { 1, 33 }, { 129, 32 }, { 18, 2100 }
	};
	void *scratch = aligned_alloc(64, ZR_GEMM_SCRATCH);
	uint64_t seed = 5;
	assert_non_null(scratch);
	for (size_t s = 0; s < sizeof nk / sizeof *nk; s++)
		for (int i = 0; i < 9 * 4 * 5; i++) {
			const int64_t mnk[] = { 1 + i % 9, nk[s][0], nk[s][1] };
			struct product p = make(&seed, mnk,
						(i / 9 % 2 ? ZR_MM_TRANS_B : 0) |
							(i / 18 % 2 ? ZR_MM_ACCUMULATE : 0),
						ZR_F32, 0, 0);
			struct zr_op_matmul op = p.op;
			uint16_t *a = op.a.data, *b = op.b.data;
			const int64_t all = op.m * op.ldd;
			float *d[2] = { fixture_buffer(all, ZR_F32), fixture_buffer(all, ZR_F32) };
			for (int64_t e = 0; e < op.m * op.lda; e++)
				a[e] = operand(&seed, i / 36);
			for (int64_t e = 0; e < op.ldb * (op.flags & ZR_MM_TRANS_B ? op.n : op.k);
			     e++)
				b[e] = operand(&seed, i / 36);
			for (int64_t e = 0; e < all; e++)
				d[0][e] = d[1][e] =
					zr_from_bits((uint32_t)operand(&seed, i / 36) << 16);
			op.d.data = d[0];
			tile(&op, NULL, 0, op.m, 0, op.n, scratch);
			op.d.data = d[1];
			zr_gemm_tile_twin(&op, NULL, 1, 0, op.m, 0, op.n);
			for (int64_t e = 0; e < all; e++)
				if (!same(d[0][e], d[1][e]))
					fail_msg("%lld x %lld x %lld, flags %u, values %d: %a, "
						 "twin %a",
						 (long long)op.m, (long long)op.n, (long long)op.k,
						 op.flags, i / 36, (double)d[0][e],
						 (double)d[1][e]);
			fixture_release();
		}
	free(scratch);
}

static void products_have_the_bits_of_the_twin(void **state)
{
	(void)state;
	if (!isa_runs("avx512bf16"))
		skip();
	hold_to_twin(zr_gemm_tile_avx512bf16, 0);
}

static void products_on_emulated_tiles_have_the_bits_of_the_twin(void **state)
{
	(void)state;
	if (!isa_runs("avx512"))
		skip();
	hold_to_twin(zr_gemm_tile_amx_emulated, 1);
	hold_few_rows(zr_gemm_tile_amx_emulated);
}

static void products_on_tiles_have_the_bits_of_the_twin(void **state)
{
	(void)state;
#ifdef HAVE_AMX
	if (!zr_cpu_missing(ZR_CPU_AMX)) {
		hold_to_twin(zr_gemm_tile_amx, 1);
		hold_few_rows(zr_gemm_tile_amx);
		return;
	}
#endif
	skip();
}
#endif

int main(void)
{
#ifdef HAVE_AVX512BF16
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_processor_sums_pairs_as_written_down),
		cmocka_unit_test(the_order_of_a_pair_and_denormals_matter),
		cmocka_unit_test(slow_pairs_are_left_out),
		cmocka_unit_test(products_have_the_bits_of_the_twin),
		cmocka_unit_test(products_on_emulated_tiles_have_the_bits_of_the_twin),
		cmocka_unit_test(products_on_tiles_have_the_bits_of_the_twin),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	printf("1..0 # SKIP a compiler without AVX512_BF16\n");
	return 0;
#endif
}
