/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels.c - the formulas of the row and element kernels: every variant, and the oracle in
 * double, against PyTorch's float64 values.
 */
#include "kernels_mode.h"

/* ---- golden values ---- */

static const int32_t tokens[10] = { 3, 0, 3, 10, 7, 7, 3, 1, 1, 0 };

static void embedding_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 1;
	need(m);
	struct zr_op_embedding op = { .dtype = m->dtype,
				      .batch = 2,
				      .length = 5,
				      .width = 19,
				      .vocabulary = 11,
				      .positions = 6,
				      .tokens = tokens };
	struct zr_op_embedding_bwd bwd = { .dtype = m->dtype,
					   .batch = 2,
					   .length = 5,
					   .width = 19,
					   .vocabulary = 11,
					   .positions = 6,
					   .tokens = tokens };

	op.wte = fixture_drawn(&x, 11 * 19, m->dtype, 1);
	op.wpe = fixture_drawn(&x, 6 * 19, m->dtype, 1);
	op.out = fixture_buffer(10 * 19, m->dtype);
	bwd.dout = fixture_drawn(&x, 10 * 19, m->dtype, 1);
	bwd.dwte = fixture_buffer(11 * 19, m->real);
	bwd.dwpe = fixture_buffer(6 * 19, m->real);
	CALL(m, embedding, &op, 0, 10);
	CALL(m, embedding_bwd, &bwd, 0, 19);
	fixture_golden(m->name, "embedding.out", op.out, 190, m->dtype, m->tolerance);
	fixture_golden(m->name, "embedding.dwte", bwd.dwte, 209, m->real, m->exact);
	fixture_golden(m->name, "embedding.dwpe", bwd.dwpe, 114, m->real, m->exact);
	/* a second contribution adds */
	bwd.flags = ZR_OP_ACCUMULATE_WTE | ZR_OP_ACCUMULATE_WPE;
	CALL(m, embedding_bwd, &bwd, 0, 19);
	for (int64_t i = 0; i < 209; i++)
		fixture_set(bwd.dwte, i, m->real, fixture_get(bwd.dwte, i, m->real) / 2);
	fixture_golden(m->name, "embedding.dwte", bwd.dwte, 209, m->real, m->exact);
	fixture_release();
}

static void layernorm_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 2;
	need(m);
	struct zr_op_layernorm op = { .dtype = m->dtype, .rows = 13, .width = 97, .eps = 1e-5f };
	struct zr_op_layernorm_bwd bwd = { .dtype = m->dtype, .rows = 13, .width = 97 };
	void *part = fixture_buffer(2 * 97, m->real);

	bwd.x = op.x = fixture_drawn(&x, 13 * 97, m->dtype, 1);
	bwd.gamma = op.gamma = fixture_drawn(&x, 97, m->dtype, 1);
	op.beta = fixture_drawn(&x, 97, m->dtype, 1);
	bwd.dy = fixture_drawn(&x, 13 * 97, m->dtype, 1);
	bwd.dx = fixture_drawn(&x, 13 * 97, m->dtype, 1);
	op.y = fixture_buffer(13 * 97, m->dtype);
	bwd.mean = op.mean = fixture_buffer(13, m->real);
	bwd.rstd = op.rstd = fixture_buffer(13, m->real);
	bwd.dgamma = fixture_buffer(97, m->real);
	bwd.dbeta = fixture_buffer(97, m->real);
	CALL(m, layernorm, &op, 0, 13);
	CALL(m, layernorm_bwd, &bwd, 0, 13, part);
	CALL(m, layernorm_bwd_sum, &bwd, part, 1, 0, 97);
	fixture_golden(m->name, "layernorm.y", op.y, 13 * 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "layernorm.mean", op.mean, 13, m->real, m->exact);
	fixture_golden(m->name, "layernorm.rstd", op.rstd, 13, m->real, m->exact);
	fixture_golden(m->name, "layernorm.dx", bwd.dx, 13 * 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "layernorm.dgamma", bwd.dgamma, 97, m->real, m->exact);
	fixture_golden(m->name, "layernorm.dbeta", bwd.dbeta, 97, m->real, m->exact);
	fixture_release();
}

static void embedding_without_positions(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 1;
	need(m);
	struct zr_op_embedding op = { .dtype = m->dtype,
				      .batch = 2,
				      .length = 5,
				      .width = 19,
				      .vocabulary = 11,
				      .tokens = tokens };
	struct zr_op_embedding_bwd bwd = { .dtype = m->dtype,
					   .batch = 2,
					   .length = 5,
					   .width = 19,
					   .vocabulary = 11,
					   .tokens = tokens };

	op.wte = fixture_drawn(&x, 11 * 19, m->dtype, 1);
	op.out = fixture_buffer(10 * 19, m->dtype);
	fixture_drawn(&x, 6 * 19, m->dtype, 1); /* wpe */
	bwd.dout = fixture_drawn(&x, 10 * 19, m->dtype, 1);
	bwd.dwte = fixture_buffer(11 * 19, m->real);
	CALL(m, embedding, &op, 0, 10);
	CALL(m, embedding_bwd, &bwd, 0, 19);
	for (int r = 0; r < 10; r++)
		for (int c = 0; c < 19; c++)
			fixture_near(fixture_get(op.out, r * 19 + c, m->dtype),
				     fixture_get(op.wte, tokens[r] * 19 + c, m->dtype), 0);
	fixture_golden(m->name, "embedding.dwte", bwd.dwte, 209, m->real, m->exact);
	fixture_release();
}

/* Of rows that are alike one with a given position gets what the row there gets. */
static void positions_may_be_given(void **state)
{
	static const int32_t position[10] = { 4, 0, 0, 1, 3, 2, 0, 1, 4, 4 };
	const struct mode *m = *state;
	uint64_t x = 1;
	int32_t same[10] = { 0 };
	need(m);
	struct zr_op_embedding op = { .dtype = m->dtype,
				      .batch = 2,
				      .length = 5,
				      .width = 19,
				      .vocabulary = 11,
				      .positions = 6,
				      .tokens = same };
	struct zr_op_embedding_bwd bwd = { .dtype = m->dtype,
					   .batch = 2,
					   .length = 5,
					   .width = 19,
					   .vocabulary = 11,
					   .positions = 6,
					   .tokens = same,
					   .position = position };
	struct zr_op_rotary turn = {
		.dtype = m->dtype, .batch = 2, .length = 5, .heads = 1, .head_dim = 18, .stride = 19
	};
	size_t row = 19 * (size_t)fixture_size(m->dtype);
	void *given = fixture_buffer(190, m->dtype), *turned = fixture_buffer(190, m->dtype);

	op.wte = fixture_drawn(&x, 11 * 19, m->dtype, 1);
	op.wpe = fixture_drawn(&x, 6 * 19, m->dtype, 1);
	op.out = fixture_buffer(190, m->dtype);
	turn.x = fixture_drawn(&x, 190, m->dtype, 1);
	turn.out = fixture_drawn(&x, 190, m->dtype, 1);
	for (size_t r = 1; r < 10; r++) {
		memcpy((char *)(uintptr_t)turn.x + r * row, turn.x, row);
		memcpy((char *)turn.out + r * row, turn.out, row);
	}
	memcpy(turned, turn.out, 10 * row);
	for (int i = 0; i < 9; i++)
		turn.frequency[i] = 1 / (float)(1 + i);
	CALL(m, embedding, &op, 0, 10);
	CALL(m, rotary, &turn, 0, 10);
	void *plain = op.out, *plainly = turn.out;
	op.out = given;
	turn.out = turned;
	op.position = turn.position = position;
	CALL(m, embedding, &op, 0, 10);
	CALL(m, rotary, &turn, 0, 10);
	for (size_t r = 0; r < 10; r++) {
		assert_memory_equal((char *)given + r * row,
				    (char *)plain + (size_t)position[r] * row, row);
		assert_memory_equal((char *)turned + r * row,
				    (char *)plainly + (size_t)position[r] * row, row);
	}
	bwd.dout = fixture_drawn(&x, 190, m->dtype, 1);
	bwd.dwpe = fixture_buffer(6 * 19, m->real);
	CALL(m, embedding_bwd, &bwd, 0, 19);
	for (int64_t p = 0; p < 6; p++)
		for (int64_t c = 0; c < 19; c++) {
			double sum = 0;
			for (int64_t r = 0; r < 10; r++)
				sum += position[r] == p ?
					       fixture_get(bwd.dout, r * 19 + c, m->dtype) :
					       0;
			fixture_near(fixture_get(bwd.dwpe, p * 19 + c, m->real), sum, 1e-6);
		}
	fixture_release();
}

static void rmsnorm_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 5;
	need(m);
	struct zr_op_rmsnorm op = { .dtype = m->dtype, .rows = 5, .width = 41, .eps = 1e-5f };
	struct zr_op_rmsnorm_bwd bwd = { .dtype = m->dtype, .rows = 5, .width = 41 };
	void *part = fixture_buffer(41, m->real);

	bwd.x = op.x = fixture_drawn(&x, 5 * 41, m->dtype, 1);
	bwd.gamma = op.gamma = fixture_drawn(&x, 41, m->dtype, 1);
	bwd.dy = fixture_drawn(&x, 5 * 41, m->dtype, 1);
	bwd.dx = fixture_drawn(&x, 5 * 41, m->dtype, 1);
	op.y = fixture_buffer(5 * 41, m->dtype);
	bwd.rstd = op.rstd = fixture_buffer(5, m->real);
	bwd.dgamma = fixture_buffer(41, m->real);
	CALL(m, rmsnorm, &op, 0, 5);
	CALL(m, rmsnorm_bwd, &bwd, 0, 5, part);
	CALL(m, rmsnorm_bwd_sum, &bwd, part, 1, 0, 41);
	fixture_golden(m->name, "rmsnorm.y", op.y, 5 * 41, m->dtype, m->tolerance);
	fixture_golden(m->name, "rmsnorm.rstd", op.rstd, 5, m->real, m->exact);
	fixture_golden(m->name, "rmsnorm.dx", bwd.dx, 5 * 41, m->dtype, m->tolerance);
	fixture_golden(m->name, "rmsnorm.dgamma", bwd.dgamma, 41, m->real, m->exact);
	fixture_release();
}

static void rotary_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 6;
	need(m);
	struct zr_op_rotary op = {
		.dtype = m->dtype, .batch = 2, .length = 5, .heads = 2, .head_dim = 22, .stride = 44
	};
	struct zr_op_rotary bwd;

	for (int i = 0; i < 11; i++)
		op.frequency[i] = 3.5f / (float)(1 << i);
	bwd = op;
	bwd.flags = ZR_ROTARY_BACK;
	op.x = fixture_drawn(&x, 440, m->dtype, 1);
	op.out = fixture_buffer(440, m->dtype);
	bwd.x = bwd.out = fixture_drawn(&x, 440, m->dtype, 1); /* in place, as the model does */
	CALL(m, rotary, &op, 0, 10);
	CALL(m, rotary, &bwd, 0, 10);
	fixture_golden(m->name, "rotary.out", op.out, 440, m->dtype, m->tolerance);
	fixture_golden(m->name, "rotary.dx", bwd.out, 440, m->dtype, m->tolerance);
	fixture_release();
}

/* q and k in rows that hold v too: the same bits, and v as it was. */
static void rotary_leaves_what_lies_between_rows(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 6, again = 6;
	need(m);
	struct zr_op_rotary op = { .dtype = m->dtype,
				   .batch = 1,
				   .length = 9,
				   .heads = 2,
				   .head_dim = 10,
				   .stride = 33,
				   .frequency = { 1, 0.7f, 0.5f, 0.3f, 0.1f } },
			    tight = op;
	void *before = fixture_drawn(&x, 9 * 33, m->dtype, 1),
	     *after = fixture_drawn(&again, 9 * 33, m->dtype, 1);
	size_t element = (size_t)fixture_size(m->dtype);

	tight.stride = 20;
	tight.x = tight.out = fixture_buffer(9 * 20, m->dtype);
	for (size_t r = 0; r < 9; r++)
		memcpy((char *)tight.out + r * 20 * element, (char *)before + r * 33 * element,
		       20 * element);
	op.x = op.out = after;
	CALL(m, rotary, &op, 0, 9);
	CALL(m, rotary, &tight, 0, 9);
	for (size_t r = 0; r < 9; r++) {
		assert_memory_equal((char *)after + r * 33 * element,
				    (char *)tight.out + r * 20 * element, 20 * element);
		assert_memory_equal((char *)after + (r * 33 + 20) * element,
				    (char *)before + (r * 33 + 20) * element, 13 * element);
	}
	fixture_release();
}

static void swiglu_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 7;
	need(m);
	struct zr_op_swiglu op = { .dtype = m->dtype, .n = 97 };
	struct zr_op_swiglu_bwd bwd = { .dtype = m->dtype, .n = 97 };

	bwd.gate = op.gate = fixture_drawn(&x, 97, m->dtype, 8);
	bwd.up = op.up = fixture_drawn(&x, 97, m->dtype, 1);
	bwd.dy = fixture_drawn(&x, 97, m->dtype, 1);
	op.out = fixture_buffer(97, m->dtype);
	bwd.dgate = fixture_buffer(97, m->dtype);
	bwd.dup = fixture_buffer(97, m->dtype);
	CALL(m, swiglu, &op, 0, 97);
	CALL(m, swiglu_bwd, &bwd, 0, 97);
	fixture_golden(m->name, "swiglu.y", op.out, 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "swiglu.dgate", bwd.dgate, 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "swiglu.dup", bwd.dup, 97, m->dtype, m->tolerance);
	bwd.dgate = (void *)(uintptr_t)bwd.dy; /* in place */
	bwd.dup = (void *)(uintptr_t)bwd.up;
	bwd.act = fixture_buffer(97, m->dtype);
	CALL(m, swiglu_bwd, &bwd, 0, 97);
	fixture_golden(m->name, "swiglu.dgate", bwd.dgate, 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "swiglu.dup", bwd.dup, 97, m->dtype, m->tolerance);
	assert_memory_equal(bwd.act, op.out, (size_t)(97 * fixture_size(m->dtype)));
	fixture_release();
}

/* dbeta of the layer normalisation is the sum of the same dy over rows. */
static void bias_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 2;
	need(m);
	struct zr_op_bias_bwd op = { .dtype = m->dtype, .rows = 13, .width = 97 };

	fixture_drawn(&x, 13 * 97 + 2 * 97, m->dtype, 1); /* x, gamma, beta */
	op.dy = fixture_drawn(&x, 13 * 97, m->dtype, 1);
	op.db = fixture_buffer(97, m->real);
	CALL(m, bias_bwd, &op, 0, 97);
	fixture_golden(m->name, "layernorm.dbeta", op.db, 97, m->real, m->exact);
	op.flags = ZR_OP_ACCUMULATE;
	CALL(m, bias_bwd, &op, 0, 97);
	for (int64_t i = 0; i < 97; i++)
		fixture_set(op.db, i, m->real, fixture_get(op.db, i, m->real) / 2);
	fixture_golden(m->name, "layernorm.dbeta", op.db, 97, m->real, m->exact);
	fixture_release();
}

static void gelu_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 3;
	need(m);
	struct zr_op_gelu_bwd op = { .dtype = m->dtype, .n = 97 };
	double y[97];

	op.pre = fixture_drawn(&x, 97, m->dtype, 2);
	op.dy = fixture_drawn(&x, 97, m->dtype, 1);
	op.dx = fixture_buffer(97, m->dtype);
	CALL(m, gelu_bwd, &op, 0, 97);
	fixture_golden(m->name, "gelu.dx", op.dx, 97, m->dtype, m->tolerance);
	op.dx = (void *)(uintptr_t)op.dy; /* in place */
	op.act = fixture_buffer(97, m->dtype);
	CALL(m, gelu_bwd, &op, 0, 97);
	fixture_golden(m->name, "gelu.dx", op.dx, 97, m->dtype, m->tolerance);
	fixture_golden(m->name, "gelu.y", op.act, 97, m->dtype, m->tolerance);
	for (int i = 0; i < 97; i++)
		y[i] = zr_gelu(fixture_get(op.pre, i, m->dtype));
	fixture_golden(m->name, "gelu.y", y, 97, ZR_F64, 1e-9);
	fixture_release();
}

static void residual_adds(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 5;
	need(m);
	struct zr_op_residual op = { .dtype = m->dtype, .n = 97 };
	void *out = fixture_buffer(97, m->dtype);

	op.a = fixture_drawn(&x, 97, m->dtype, 1);
	op.b = fixture_drawn(&x, 97, m->dtype, 1);
	op.out = out;
	for (int gained = 0; gained < 2; gained++) {
		op.gain = gained ? 0 : 2.5f;
		CALL(m, residual, &op, 0, 97);
		for (int i = 0; i < 97; i++)
			fixture_near(fixture_get(out, i, m->dtype),
				     fixture_get(op.a, i, m->dtype) +
					     (gained ? 1 : 2.5) * fixture_get(op.b, i, m->dtype),
				     8 * m->tolerance);
	}
	op.out = (void *)(uintptr_t)op.b; /* in place, as the model does */
	CALL(m, residual, &op, 0, 97);
	assert_memory_equal(op.out, out, (size_t)(97 * fixture_size(m->dtype)));
	fixture_release();
}

/* ---- trajectories of the optimizers ---- */

static void compare(const struct mode *m, const char *run, int step, const char *what,
		    const void *p)
{
	char name[64];

	if (step != 1 && step != 10 && step != 50)
		return;
	snprintf(name, sizeof name, "%s.%d.%s", run, step, what);
	fixture_golden(m->name, name, p, 7, m->real, m->exact);
}

static void adam_run(const struct mode *m, const char *run, uint8_t l2)
{
	struct zr_scalars scalars = { .grad_mult = 0.5f, .lr = 0x1p-7f };
	struct zr_op_adamw op = { .l2 = l2,
				  .bias_correction = 1,
				  .n = 7,
				  .beta1 = 0.9,
				  .beta2 = 0.95,
				  .eps = 1e-8,
				  .weight_decay = 0.1,
				  .scalars = &scalars };
	uint64_t x = 4;

	op.master = fixture_drawn(&x, 7, m->real, 1);
	op.m = memset(fixture_buffer(7, m->real), 0, (size_t)(7 * fixture_size(m->real)));
	op.v = memset(fixture_buffer(7, m->real), 0, (size_t)(7 * fixture_size(m->real)));
	op.lowp_dtype = m->dtype;
	op.lowp = fixture_buffer(7, m->dtype);
	for (scalars.step = 1; scalars.step <= 50; scalars.step++) {
		op.grad = fixture_drawn(&x, 7, m->real, 1);
		CALL(m, adamw, &op, 0, 7);
		compare(m, run, (int)scalars.step, "p", op.master);
		compare(m, run, (int)scalars.step, "exp_avg", op.m);
		compare(m, run, (int)scalars.step, "exp_avg_sq", op.v);
	}
	for (int i = 0; i < 7; i++)
		fixture_near(fixture_get(op.lowp, i, m->dtype), fixture_get(op.master, i, m->real),
			     2 * m->tolerance);
	fixture_release();
}

static void adamw_trajectory(void **state)
{
	need(*state);
	adam_run(*state, "adamw", 0);
}

static void adam_l2_trajectory(void **state)
{
	need(*state);
	adam_run(*state, "adam_l2", 1);
}

/* The same update without bias correction, by hand. */
static void adamw_uncorrected(void **state)
{
	const struct mode *m = *state;
	need(m);
	struct zr_scalars scalars = { .step = 1, .grad_mult = 1, .lr = 0.125f };
	struct zr_op_adamw op = {
		.n = 1, .beta1 = 0.5, .beta2 = 0.75, .eps = 0, .scalars = &scalars
	};

	fixture_set(op.master = fixture_buffer(1, m->real), 0, m->real, 1);
	fixture_set(op.m = fixture_buffer(1, m->real), 0, m->real, 0);
	fixture_set(op.v = fixture_buffer(1, m->real), 0, m->real, 0);
	void *g = fixture_buffer(1, m->real);
	fixture_set(g, 0, m->real, 2);
	op.grad = g;
	CALL(m, adamw, &op, 0, 1);
	/* m = 1, v = 1 */
	fixture_near(fixture_get(op.master, 0, m->real), 1 - 0.125, 0);
	fixture_release();
}

static void sgd_run(const struct mode *m, const char *run, double momentum, double damping,
		    double wd, uint8_t nesterov)
{
	struct zr_scalars scalars = { .grad_mult = 0.5f, .lr = 0x1p-7f };
	struct zr_op_sgd op = { .nesterov = nesterov,
				.n = 7,
				.momentum = momentum,
				.dampening = damping,
				.weight_decay = wd,
				.scalars = &scalars };
	uint64_t x = 4;

	op.master = fixture_drawn(&x, 7, m->real, 1);
	if (momentum > 0)
		op.buf = fixture_buffer(7, m->real); /* poison: the first update stores */
	for (scalars.step = 1; scalars.step <= 50; scalars.step++) {
		op.grad = fixture_drawn(&x, 7, m->real, 1);
		CALL(m, sgd, &op, 0, 7);
		compare(m, run, (int)scalars.step, "p", op.master);
		if (op.buf)
			compare(m, run, (int)scalars.step, "momentum_buffer", op.buf);
	}
	fixture_release();
}

static void sgd_trajectories(void **state)
{
	need(*state);
	sgd_run(*state, "sgd", 0, 0, 0, 0);
	sgd_run(*state, "sgd_wd", 0, 0, 0.1, 0);
	sgd_run(*state, "momentum", 0.9, 0, 0, 0);
	sgd_run(*state, "damped", 0.9, 0.3, 0.1, 0);
	sgd_run(*state, "nesterov", 0.9, 0, 0.1, 1);
}

static void lion_trajectory(void **state)
{
	const struct mode *m = *state;
	struct zr_scalars scalars = { .grad_mult = 0.5f, .lr = 0x1p-7f };
	struct zr_op_lion op = {
		.n = 7, .beta1 = 0.9, .beta2 = 0.98, .weight_decay = 0.1, .scalars = &scalars
	};
	uint64_t x = 4;
	need(m);

	op.master = fixture_drawn(&x, 7, m->real, 1);
	op.m = memset(fixture_buffer(7, m->real), 0, (size_t)(7 * fixture_size(m->real)));
	for (scalars.step = 1; scalars.step <= 50; scalars.step++) {
		op.grad = fixture_drawn(&x, 7, m->real, 1);
		CALL(m, lion, &op, 0, 7);
		compare(m, "lion", (int)scalars.step, "p", op.master);
		compare(m, "lion", (int)scalars.step, "exp_avg", op.m);
	}
	fixture_release();
}

static void adagrad_trajectory(void **state)
{
	const struct mode *m = *state;
	struct zr_scalars scalars = { .grad_mult = 0.5f, .lr = 0x1p-7f };
	struct zr_op_adagrad op = {
		.n = 7, .lr_decay = 0.01, .eps = 1e-10, .weight_decay = 0.1, .scalars = &scalars
	};
	uint64_t x = 4;
	need(m);

	op.master = fixture_drawn(&x, 7, m->real, 1);
	op.sum = fixture_buffer(7, m->real);
	for (int i = 0; i < 7; i++)
		fixture_set(op.sum, i, m->real, 0.25);
	for (scalars.step = 1; scalars.step <= 50; scalars.step++) {
		op.grad = fixture_drawn(&x, 7, m->real, 1);
		CALL(m, adagrad, &op, 0, 7);
		compare(m, "adagrad", (int)scalars.step, "p", op.master);
		compare(m, "adagrad", (int)scalars.step, "sum", op.sum);
	}
	fixture_release();
}

/* p moves as with fp32 moments; what is stored of them is rounded. */
static void adamw_with_bf16_moments(void **state)
{
	const struct mode *m = *state;
	struct zr_scalars scalars = { .step = 3, .grad_mult = 0.5f, .lr = 0x1p-7f };
	struct zr_op_adamw op = { .bias_correction = 1,
				  .n = 97,
				  .beta1 = 0.9,
				  .beta2 = 0.95,
				  .eps = 1e-8,
				  .weight_decay = 0.1,
				  .scalars = &scalars },
			   narrow = op;
	uint64_t x = 9, again = 9;
	need(m);

	narrow.moment_dtype = ZR_BF16;
	op.master = fixture_drawn(&x, 97, m->real, 1);
	op.grad = narrow.grad = fixture_drawn(&x, 97, m->real, 1);
	narrow.master = fixture_drawn(&again, 97, m->real, 1);
	op.m = fixture_buffer(97, m->real);
	op.v = fixture_buffer(97, m->real);
	narrow.m = fixture_buffer(97, ZR_BF16);
	narrow.v = fixture_buffer(97, ZR_BF16);
	for (int i = 0; i < 97; i++) {
		/* exact in bf16 */
		double first = fixture_draw(&x), second = fabs(fixture_draw(&x));
		fixture_set(op.m, i, m->real, first);
		fixture_set(narrow.m, i, ZR_BF16, first);
		fixture_set(op.v, i, m->real, second);
		fixture_set(narrow.v, i, ZR_BF16, second);
	}
	CALL(m, adamw, &op, 0, 97);
	CALL(m, adamw, &narrow, 0, 97);
	assert_memory_equal(op.master, narrow.master, (size_t)(97 * fixture_size(m->real)));
	for (int i = 0; i < 97; i++) {
		assert_int_equal(((uint16_t *)narrow.m)[i],
				 zr_bf16((float)fixture_get(op.m, i, m->real)));
		assert_int_equal(((uint16_t *)narrow.v)[i],
				 zr_bf16((float)fixture_get(op.v, i, m->real)));
	}
	fixture_release();
}

/* ---- every test for every mode ---- */

static const struct mode_test tests[] = {
	{ "embedding and its gradient agree with torch", embedding_golden, 0 },
	{ "layernorm and its gradient agree with torch", layernorm_golden, 0 },
	{ "the embedding does without positions", embedding_without_positions, 0 },
	{ "positions may be given", positions_may_be_given, 0 },
	{ "rmsnorm and its gradient agree with torch", rmsnorm_golden, 0 },
	{ "rotary and its gradient agree with torch", rotary_golden, 0 },
	{ "rotary leaves what lies between rows", rotary_leaves_what_lies_between_rows, 0 },
	{ "swiglu and its gradients agree with torch", swiglu_golden, 0 },
	{ "the bias gradient agrees with torch", bias_golden, 0 },
	{ "gelu and its gradient agree with torch", gelu_golden, 0 },
	{ "residual without dropout adds", residual_adds, 0 },
	{ "50 steps of AdamW agree with torch", adamw_trajectory, 0 },
	{ "50 steps of Adam with L2 agree with torch", adam_l2_trajectory, 1 },
	{ "AdamW without bias correction", adamw_uncorrected, 1 },
	{ "AdamW with moments in bf16", adamw_with_bf16_moments, 1 },
	{ "50 steps of SGD agree with torch", sgd_trajectories, 1 },
	{ "50 steps of Lion agree with its formula", lion_trajectory, 1 },
	{ "50 steps of Adagrad agree with torch", adagrad_trajectory, 1 },
};

int main(void)
{
	return mode_main("kernels", tests, (int)(sizeof tests / sizeof *tests));
}
