/* SPDX-License-Identifier: Apache-2.0
 *
 * t_activations.c - the activations that an operation can be asked for, and gates in rows with
 * gaps: PyTorch's values in every variant; the normal distribution over all exponents.
 */
#include "kernels_mode.h"

static void gelu_erf_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 8;
	need(m);
	struct zr_op_gelu_bwd op = { .dtype = m->dtype, .activation = ZR_ACT_GELU_ERF, .n = 97 };

	op.pre = fixture_drawn(&x, 97, m->dtype, 2);
	op.dy = fixture_drawn(&x, 97, m->dtype, 1);
	op.dx = (void *)(uintptr_t)op.dy;
	op.act = fixture_buffer(97, m->dtype);
	CALL(m, gelu_bwd, &op, 0, 97);
	fixture_golden(m->name, "gelu_erf.y", op.act, 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "gelu_erf.dx", op.dx, 97, m->dtype, m->tolerance);
	fixture_release();
}

/* The sum of an element and 1 goes through the finish of a product, by either GELU. */
static void product_golden(void **state)
{
	const struct mode *m = *state;
	static const char *const names[] = { "gelu.y", "gelu.y", "gelu_erf.y" };
	need(m);
	for (int activation = 0; activation <= ZR_ACT_GELU_ERF; activation++) {
		uint64_t x = activation == ZR_ACT_GELU_ERF ? 8 : 3;
		struct zr_op_matmul op = { .flags = ZR_MM_GELU,
					   .activation = activation,
					   .b.dtype = m->dtype,
					   .d.dtype = m->dtype,
					   .ldd = 97 };
		double sums[97];
		float narrow[97];
		void *bias = fixture_buffer(97, m->dtype), *pre = fixture_buffer(97, m->dtype);
		void *d = fixture_buffer(97, m->dtype);
		if (activation == ZR_ACT_SILU)
			continue;
		for (int i = 0; i < 97; i++) {
			sums[i] = 2 * fixture_draw(&x) - 1;
			narrow[i] = (float)sums[i];
			fixture_set(bias, i, m->dtype, 1);
		}
		if (m->k)
			m->k->gemm_finish(&op, narrow, 97, 1, 97, bias, d, pre);
		else
			zr_gemm_finish_f64(&op, sums, 97, 1, 97, bias, d, pre);
		fixture_golden(m->name, names[activation ? activation - 1 : 0], d, 97, m->dtype,
			       m->tolerance);
		for (int i = 0; i < 97; i++)
			assert_true(fixture_get(pre, i, m->dtype) == sums[i] + 1);
	}
	fixture_release();
}

enum { ROWS = 5, WIDTH = 21, STRIDE = 2 * WIDTH + 3, GAPPED = ROWS * STRIDE };

/* `dense` as rows with gaps, which hold what the buffer held. */
static void spread(void *to, const void *dense, int32_t dtype)
{
	for (int i = 0; i < ROWS * WIDTH; i++)
		fixture_set(to, i / WIDTH * STRIDE + i % WIDTH, dtype,
			    fixture_get(dense, i, dtype));
}

static void expect_rows(const struct mode *m, const char *name, const void *apart)
{
	void *dense = fixture_buffer(ROWS * WIDTH, m->dtype);

	for (int i = 0; i < ROWS * WIDTH; i++)
		fixture_set(dense, i, m->dtype,
			    fixture_get(apart, i / WIDTH * STRIDE + i % WIDTH, m->dtype));
	fixture_golden(m->name, name, dense, ROWS * WIDTH, m->dtype, m->tolerance);
}

/* gate and up as the halves of each row of one matrix, forward, and backward in place; over: dy
 * becomes what the forward gave. */
static void run_glu(const struct mode *m, int32_t activation, const char *name, int over)
{
	uint64_t x = 9;
	void *gate = fixture_drawn(&x, ROWS * WIDTH, m->dtype, 2);
	void *up = fixture_drawn(&x, ROWS * WIDTH, m->dtype, 1);
	void *dy = fixture_drawn(&x, ROWS * WIDTH, m->dtype, 1);
	char *both = fixture_buffer(GAPPED, m->dtype),
	     *half = both + WIDTH * fixture_size(m->dtype);
	char *before = malloc((size_t)(GAPPED * fixture_size(m->dtype)));
	struct zr_op_swiglu op = { .dtype = m->dtype,
				   .activation = activation,
				   .n = ROWS * WIDTH,
				   .gate = both,
				   .up = half,
				   .width = WIDTH,
				   .stride = STRIDE };
	struct zr_op_swiglu_bwd bwd = { .dtype = m->dtype,
					.activation = activation,
					.n = ROWS * WIDTH,
					.dy = dy,
					.gate = both,
					.up = half,
					.dgate = both,
					.dup = half,
					.width = WIDTH,
					.stride = STRIDE };
	char what[32];

	assert_non_null(before);
	spread(both, gate, m->dtype);
	spread(half, up, m->dtype);
	memcpy(before, both, (size_t)(GAPPED * fixture_size(m->dtype)));
	op.out = fixture_buffer(ROWS * WIDTH, m->dtype);
	CALL(m, swiglu, &op, 0, ROWS * WIDTH);
	snprintf(what, sizeof what, "%s.y", name);
	fixture_golden(m->name, what, op.out, ROWS * WIDTH, m->dtype, m->tolerance);
	assert_memory_equal(both, before, (size_t)(GAPPED * fixture_size(m->dtype)));

	bwd.act = over ? dy : fixture_buffer(ROWS * WIDTH, m->dtype);
	CALL(m, swiglu_bwd, &bwd, 0, 50); /* cut within a row */
	CALL(m, swiglu_bwd, &bwd, 50, ROWS * WIDTH);
	assert_memory_equal(bwd.act, op.out, (size_t)(ROWS * WIDTH * fixture_size(m->dtype)));
	snprintf(what, sizeof what, "%s.dgate", name);
	expect_rows(m, what, both);
	snprintf(what, sizeof what, "%s.dup", name);
	expect_rows(m, what, half);
	for (int r = 0; r < ROWS; r++) {
		size_t gap = (size_t)((r * STRIDE + 2 * WIDTH) * fixture_size(m->dtype));
		assert_memory_equal(both + gap, before + gap, (size_t)(3 * fixture_size(m->dtype)));
	}
	free(before);
	fixture_release();
}

static void glu_golden(void **state)
{
	need(*state);
	for (int over = 0; over < 2; over++) {
		run_glu(*state, 0, "glu_silu", over);
		run_glu(*state, ZR_ACT_SILU, "glu_silu", over);
		run_glu(*state, ZR_ACT_GELU_TANH, "glu_gelu_tanh", over);
		run_glu(*state, ZR_ACT_GELU_ERF, "glu_gelu_erf", over);
	}
}

/* x Phi(x) and its derivative for fp32 of all exponents and signs, against libm. */
static void gelu_erf_holds_for_every_exponent(void **state)
{
	const struct mode *m = *state;
	enum { OF_EACH = 61, N = 2 * 256 * OF_EACH };
	need(m);
	if (m->k != &zr_cpu_scalar)
		return;
	float *pre = fixture_buffer(N, ZR_F32), *one = fixture_buffer(N, ZR_F32);
	struct zr_op_gelu_bwd op = { .dtype = ZR_F32,
				     .activation = ZR_ACT_GELU_ERF,
				     .n = N,
				     .dy = one,
				     .pre = pre,
				     .dx = fixture_buffer(N, ZR_F32),
				     .act = fixture_buffer(N, ZR_F32) };

	for (uint32_t i = 0; i < N; i++) {
		uint32_t bits = i / OF_EACH << 23 | i % OF_EACH * (0x7fffff / OF_EACH);
		memcpy(pre + i, &bits, sizeof bits);
		one[i] = 1;
	}
	zr_cpu_scalar.gelu_bwd(&op, 0, N);
	for (int i = 0; i < N; i++) {
		double x = (double)pre[i], y = (double)((float *)op.act)[i];
		double dy = (double)((float *)op.dx)[i], cdf = erfc(-x * M_SQRT1_2) / 2;
		if (x - x != 0) {
			assert_true(x > 0 ? y == x && dy == 1 : isnan(y));
			continue;
		}
		fixture_near(y, x * cdf, 4 * 0x1p-23 * fabs(x * cdf) + 1e-36);
		fixture_near(dy, cdf + x * exp(-x * x / 2) * M_SQRT1_2 / sqrt(M_PI), 4 * 0x1p-24);
	}
	fixture_release();
}

/* Those of NaN and infinities, too. A vector may hold values that are beyond a limit and others. */
static void gates_of_every_exponent_have_the_scalar_bits(void **state)
{
	const struct mode *m = *state;
	enum { OF_EACH = 61, N = 2 * 256 * OF_EACH };
	need(m);
	for (int32_t f = ZR_ACT_SILU; m->k && f <= ZR_ACT_GELU_ERF; f++) {
		float *gate = fixture_buffer(N, ZR_F32), *one = fixture_buffer(N, ZR_F32);
		float *got[3], *expected[3];
		for (uint32_t i = 0; i < N; i++) {
			uint32_t bits = i / OF_EACH << 23 | i % OF_EACH * (0x7fffff / OF_EACH);
			memcpy(gate + i, &bits, sizeof bits);
			one[i] = 1;
		}
		for (int i = 0; i < 3; i++) {
			got[i] = fixture_buffer(N, ZR_F32);
			expected[i] = fixture_buffer(N, ZR_F32);
		}
		struct zr_op_swiglu_bwd op = { .dtype = ZR_F32,
					       .activation = f,
					       .n = N,
					       .dy = one,
					       .gate = gate,
					       .up = one,
					       .dgate = got[0],
					       .dup = got[1],
					       .act = got[2] };
		m->k->swiglu_bwd(&op, 0, N);
		op.dgate = expected[0];
		op.dup = expected[1];
		op.act = expected[2];
		zr_cpu_scalar.swiglu_bwd(&op, 0, N);
		for (int i = 0; i < 3 * N; i++) {
			float a = got[i / N][i % N], b = expected[i / N][i % N];
			assert_true(!memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b)));
		}
		fixture_release();
	}
}

static const struct mode_test tests[] = {
	{ "GELU by erf and its gradient agree with torch", gelu_erf_golden, 0 },
	{ "a product's GELU of either form agrees with torch", product_golden, 0 },
	{ "gated units in rows with gaps agree with torch", glu_golden, 0 },
	{ "GELU by erf holds for every exponent", gelu_erf_holds_for_every_exponent, 1 },
	{ "gates of every exponent have the scalar bits",
	  gates_of_every_exponent_have_the_scalar_bits, 1 },
};

int main(void)
{
	return mode_main("activations", tests, (int)(sizeof tests / sizeof *tests));
}
