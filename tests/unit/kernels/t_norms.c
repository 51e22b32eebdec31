/* SPDX-License-Identifier: Apache-2.0
 *
 * t_norms.c - the norms as families of models ask for them: rows in groups with gaps, a factor of
 * 1 + gamma or none, gradients that are stored or not wanted. PyTorch's values, in every variant.
 */
#include "kernels_mode.h"

/* Tokens hold 2 heads of 20 and 7 elements more; those of dx 9. */
enum { TOKENS = 5, HEADS = 2, C = 20, ROWS = TOKENS * HEADS, N = ROWS * C, GAP = 7 };
enum { STRIDE = HEADS * C + GAP, WIDE = STRIDE + 2 };

static int64_t apart(int64_t i, int64_t stride)
{
	return i / (HEADS * C) * stride + i % (HEADS * C);
}

/* `dense` in groups of rows, between poison */
static void *spread(const void *dense, int64_t stride, int32_t dtype)
{
	void *p = fixture_buffer(TOKENS * stride, dtype);

	for (int64_t i = 0; i < N; i++)
		fixture_set(p, apart(i, stride), dtype, fixture_get(dense, i, dtype));
	return p;
}

static void expect(const struct mode *m, const char *name, const void *p, int64_t stride)
{
	void *dense = fixture_buffer(N, m->dtype);
	const void *poison = zr_at(p, TOKENS * stride, m->dtype); /* the guard */

	for (int64_t i = 0; i < N; i++)
		fixture_set(dense, i, m->dtype, fixture_get(p, apart(i, stride), m->dtype));
	fixture_golden(m->name, name, dense, N, m->dtype, m->tolerance);
	for (int64_t g = 0; g < TOKENS; g++)
		for (int64_t i = HEADS * C; i < stride; i++)
			assert_memory_equal(zr_at(p, g * stride + i, m->dtype), poison,
					    (size_t)fixture_size(m->dtype));
}

/* Forward in place, backward with its results in dy. */
static void heads_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 10;
	need(m);
	void *part = fixture_buffer(C, m->real), *in = fixture_drawn(&x, N, m->dtype, 1);
	struct zr_op_rmsnorm op = { .flags = ZR_RMSNORM_PLUS_ONE,
				    .dtype = m->dtype,
				    .rows = ROWS,
				    .width = C,
				    .eps = 1e-5f,
				    .per_row = HEADS,
				    .x_stride = STRIDE,
				    .y_stride = STRIDE };
	struct zr_op_rmsnorm_bwd bwd = { .flags = ZR_RMSNORM_PLUS_ONE | ZR_RMSNORM_STORE,
					 .dtype = m->dtype,
					 .rows = ROWS,
					 .width = C,
					 .per_row = HEADS,
					 .x_stride = STRIDE,
					 .dy_stride = WIDE,
					 .dx_stride = WIDE };

	op.x = op.y = spread(in, STRIDE, m->dtype);
	bwd.x = spread(in, STRIDE, m->dtype);
	bwd.gamma = op.gamma = fixture_drawn(&x, C, m->dtype, 1);
	bwd.dy = bwd.dx = spread(fixture_drawn(&x, N, m->dtype, 1), WIDE, m->dtype);
	bwd.rstd = op.rstd = fixture_buffer(ROWS, m->real);
	bwd.dgamma = fixture_buffer(C, m->real);
	CALL(m, rmsnorm, &op, 0, ROWS);
	expect(m, "rmsnorm_heads.y", op.y, STRIDE);
	CALL(m, rmsnorm_bwd, &bwd, 0, ROWS, part);
	CALL(m, rmsnorm_bwd_sum, &bwd, part, 1, 0, C);
	expect(m, "rmsnorm_heads.dx", bwd.dx, WIDE);
	fixture_golden(m->name, "rmsnorm_heads.dgamma", bwd.dgamma, C, m->real, m->exact);
	fixture_release();
}

/* Without gamma, from rows with gaps to rows without, and without its gradient. */
static void no_gamma_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 10;
	need(m);
	void *in = fixture_drawn(&x, N, m->dtype, 1);
	struct zr_op_rmsnorm op = { .dtype = m->dtype,
				    .rows = ROWS,
				    .width = C,
				    .eps = 1e-5f,
				    .per_row = HEADS,
				    .x_stride = STRIDE };
	struct zr_op_rmsnorm_bwd bwd = { .flags = ZR_RMSNORM_STORE,
					 .dtype = m->dtype,
					 .rows = ROWS,
					 .width = C,
					 .per_row = HEADS,
					 .x_stride = STRIDE };

	fixture_drawn(&x, C, m->dtype, 1);
	bwd.x = op.x = spread(in, STRIDE, m->dtype);
	op.y = fixture_buffer(N, m->dtype);
	bwd.dy = fixture_drawn(&x, N, m->dtype, 1);
	bwd.dx = fixture_buffer(N, m->dtype);
	bwd.rstd = op.rstd = fixture_buffer(ROWS, m->real);
	CALL(m, rmsnorm, &op, 0, ROWS);
	CALL(m, rmsnorm_bwd, &bwd, 0, ROWS, NULL);
	fixture_golden(m->name, "rmsnorm_plain.y", op.y, N, m->dtype, m->tolerance);
	fixture_golden(m->name, "rmsnorm_plain.dx", bwd.dx, N, m->dtype, m->tolerance);
	fixture_release();
}

/* Without beta; then with no gradient of parameters, and with that of gamma only. */
static void no_beta_golden(void **state)
{
	const struct mode *m = *state;
	need(m);
	for (int wanted = 0; wanted < 2; wanted++) {
		uint64_t x = 12;
		void *part = wanted ? fixture_buffer(2 * C, m->real) : NULL;
		struct zr_op_layernorm op = {
			.dtype = m->dtype, .rows = ROWS, .width = C, .eps = 1e-5f
		};
		struct zr_op_layernorm_bwd bwd = { .dtype = m->dtype, .rows = ROWS, .width = C };

		bwd.x = op.x = fixture_drawn(&x, N, m->dtype, 1);
		bwd.gamma = op.gamma = fixture_drawn(&x, C, m->dtype, 1);
		bwd.dy = fixture_drawn(&x, N, m->dtype, 1);
		bwd.dx = fixture_drawn(&x, N, m->dtype, 1);
		op.y = fixture_buffer(N, m->dtype);
		bwd.mean = op.mean = fixture_buffer(ROWS, m->real);
		bwd.rstd = op.rstd = fixture_buffer(ROWS, m->real);
		CALL(m, layernorm, &op, 0, ROWS);
		CALL(m, layernorm_bwd, &bwd, 0, ROWS, part);
		fixture_golden(m->name, "layernorm_plain.y", op.y, N, m->dtype, m->tolerance);
		fixture_golden(m->name, "layernorm_plain.dx", bwd.dx, N, m->dtype, m->tolerance);
		if (!wanted)
			continue;
		bwd.dgamma = fixture_buffer(C, m->real);
		CALL(m, layernorm_bwd_sum, &bwd, part, 1, 0, C);
		fixture_golden(m->name, "layernorm_plain.dgamma", bwd.dgamma, C, m->real, m->exact);
	}
	fixture_release();
}

static const struct mode_test tests[] = {
	{ "LayerNorm without beta agrees with torch", no_beta_golden, 0 },
	{ "RMSNorm of heads by 1 + gamma agrees with torch", heads_golden, 0 },
	{ "RMSNorm without gamma agrees with torch", no_gamma_golden, 0 },
};

int main(void)
{
	return mode_main("norms", tests, (int)(sizeof tests / sizeof *tests));
}
