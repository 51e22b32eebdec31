/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_slopes.c - every backward of the row and element kernels against central differences of
 * its forward, both by the oracle in double.
 */
#define ZR_REAL double
#include "cpu/scalar.h"
#include "cpu/table.h"

#include "kernels_fixture.h"

#define STEP 1e-5

/* (loss(x + h) - loss(x - h)) / 2h in coordinate i of x against `gradient`. */
static void check_slope(double (*loss)(void *), void *arg, double *x, int64_t i, double gradient)
{
	double at = x[i], above, below;

	x[i] = at + STEP;
	above = loss(arg);
	x[i] = at - STEP;
	below = loss(arg);
	x[i] = at;
	fixture_near(gradient, (above - below) / (2 * STEP), 1e-7 * (1 + fabs(gradient)));
}

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

struct layernorm_case {
	struct zr_op_layernorm op;
	const double *dy;
};

static double layernorm_loss(void *arg)
{
	struct layernorm_case *c = arg;
	zr_layernorm_f64(&c->op, 0, c->op.rows);
	return dot(c->op.y, c->dy, c->op.rows * c->op.width);
}

static void layernorm_bwd_is_the_slope_of_layernorm(void **state)
{
	enum { R = 3, C = 7 };
	uint64_t x = 11;
	struct layernorm_case c = {
		.op = { .dtype = ZR_F64, .rows = R, .width = C, .eps = 1e-3f }
	};
	struct zr_op_layernorm_bwd bwd = { .dtype = ZR_F64, .rows = R, .width = C };
	double part[2 * C], dgamma[C], dbeta[C], dx[R * C] = { 0 };
	double *in = fixture_drawn(&x, R * C, ZR_F64, 1), *gamma = fixture_drawn(&x, C, ZR_F64, 1);
	double *beta = fixture_drawn(&x, C, ZR_F64, 1);

	(void)state;
	c.op.x = bwd.x = in;
	c.op.gamma = bwd.gamma = gamma;
	c.op.beta = beta;
	bwd.dy = c.dy = fixture_drawn(&x, R * C, ZR_F64, 1);
	c.op.y = fixture_buffer(R * C, ZR_F64);
	bwd.mean = c.op.mean = fixture_buffer(R, ZR_F64);
	bwd.rstd = c.op.rstd = fixture_buffer(R, ZR_F64);
	bwd.dx = dx;
	bwd.dgamma = (float *)(void *)dgamma;
	bwd.dbeta = (float *)(void *)dbeta;
	layernorm_loss(&c);
	zr_layernorm_bwd_f64(&bwd, 0, R, part);
	zr_layernorm_bwd_sum_f64(&bwd, part, 1, 0, C);
	for (int i = 0; i < R * C; i++)
		check_slope(layernorm_loss, &c, in, i, dx[i]);
	for (int i = 0; i < C; i++) {
		check_slope(layernorm_loss, &c, gamma, i, dgamma[i]);
		check_slope(layernorm_loss, &c, beta, i, dbeta[i]);
	}
	fixture_release();
}

struct rmsnorm_case {
	struct zr_op_rmsnorm op;
	const double *dy;
};

static double rmsnorm_loss(void *arg)
{
	struct rmsnorm_case *c = arg;
	zr_rmsnorm_f64(&c->op, 0, c->op.rows);
	return dot(c->op.y, c->dy, c->op.rows * c->op.width);
}

static void check_rmsnorm(uint32_t flags)
{
	enum { R = 3, C = 7 };
	uint64_t x = 15;
	struct rmsnorm_case c = {
		.op = { .flags = flags, .dtype = ZR_F64, .rows = R, .width = C, .eps = 1e-3f }
	};
	struct zr_op_rmsnorm_bwd bwd = { .flags = flags, .dtype = ZR_F64, .rows = R, .width = C };
	double part[C], dgamma[C], dx[R * C] = { 0 };
	double *in = fixture_drawn(&x, R * C, ZR_F64, 1), *gamma = fixture_drawn(&x, C, ZR_F64, 1);

	c.op.x = bwd.x = in;
	c.op.gamma = bwd.gamma = gamma;
	bwd.dy = c.dy = fixture_drawn(&x, R * C, ZR_F64, 1);
	c.op.y = fixture_buffer(R * C, ZR_F64);
	bwd.rstd = c.op.rstd = fixture_buffer(R, ZR_F64);
	bwd.dx = dx;
	bwd.dgamma = (float *)(void *)dgamma;
	rmsnorm_loss(&c);
	zr_rmsnorm_bwd_f64(&bwd, 0, R, part);
	zr_rmsnorm_bwd_sum_f64(&bwd, part, 1, 0, C);
	for (int i = 0; i < R * C; i++)
		check_slope(rmsnorm_loss, &c, in, i, dx[i]);
	for (int i = 0; i < C; i++)
		check_slope(rmsnorm_loss, &c, gamma, i, dgamma[i]);
	fixture_release();
}

static void rmsnorm_bwd_is_the_slope_of_rmsnorm(void **state)
{
	(void)state;
	check_rmsnorm(0);
	check_rmsnorm(ZR_RMSNORM_PLUS_ONE | ZR_RMSNORM_STORE);
}

struct rotary_case {
	struct zr_op_rotary op;
	const double *dout;
};

static double rotary_loss(void *arg)
{
	struct rotary_case *c = arg;
	zr_rotary_f64(&c->op, 0, 4);
	return dot(c->op.out, c->dout, 4 * 12);
}

static void rotary_back_is_the_slope_of_rotary(void **state)
{
	uint64_t x = 16;
	struct rotary_case c = { .op = { .dtype = ZR_F64,
					 .batch = 1,
					 .length = 4,
					 .heads = 2,
					 .head_dim = 6,
					 .stride = 12,
					 .frequency = { 1, 0.4f, 0.1f } } };
	double *in = fixture_drawn(&x, 4 * 12, ZR_F64, 1), dx[4 * 12];

	(void)state;
	c.op.rotary_dim = 4;
	c.op.gain = 1.7f;
	c.op.x = in;
	c.op.out = fixture_buffer(4 * 12, ZR_F64);
	c.dout = fixture_drawn(&x, 4 * 12, ZR_F64, 1);
	struct zr_op_rotary bwd = c.op;
	bwd.flags = ZR_ROTARY_BACK;
	bwd.x = c.dout;
	bwd.out = dx;
	zr_rotary_f64(&bwd, 0, 4);
	for (int i = 0; i < 4 * 12; i++)
		check_slope(rotary_loss, &c, in, i, dx[i]);
	fixture_release();
}

static int32_t activation;

static double swiglu_loss(void *arg)
{
	double *gate_up = arg, out;
	struct zr_op_swiglu op = { .dtype = ZR_F64,
				   .activation = activation,
				   .n = 1,
				   .gate = gate_up,
				   .up = gate_up + 1,
				   .out = &out };
	zr_swiglu_f64(&op, 0, 1);
	return out;
}

static void swiglu_bwd_is_the_slope_of_swiglu(void **state)
{
	(void)state;
	for (activation = 0; activation <= ZR_ACT_GELU_ERF; activation++)
		for (double at = -30; at < 30; at += 0.37) {
			double x[2] = { at, 1.25 }, dy = 1, dgate, dup;
			struct zr_op_swiglu_bwd op = { .dtype = ZR_F64,
						       .activation = activation,
						       .n = 1,
						       .dy = &dy,
						       .gate = x,
						       .up = x + 1,
						       .dgate = &dgate,
						       .dup = &dup };
			zr_swiglu_bwd_f64(&op, 0, 1);
			check_slope(swiglu_loss, x, x, 0, dgate);
			check_slope(swiglu_loss, x, x, 1, dup);
		}
}

static const int32_t tokens[10] = { 3, 0, 3, 10, 7, 7, 3, 1, 1, 0 };

struct embedding_case {
	struct zr_op_embedding op;
	const double *dout;
};

static double embedding_loss(void *arg)
{
	struct embedding_case *c = arg;
	zr_embedding_f64(&c->op, 0, 10);
	return dot(c->op.out, c->dout, 10 * c->op.width);
}

static void embedding_bwd_is_the_slope_of_embedding(void **state)
{
	enum { C = 3, V = 11, P = 6 };
	uint64_t x = 12;
	struct embedding_case c = { .op = { .dtype = ZR_F64,
					    .batch = 2,
					    .length = 5,
					    .width = C,
					    .vocabulary = V,
					    .positions = P,
					    .tokens = tokens } };
	struct zr_op_embedding_bwd bwd = { .dtype = ZR_F64,
					   .batch = 2,
					   .length = 5,
					   .width = C,
					   .vocabulary = V,
					   .positions = P,
					   .tokens = tokens };
	double dwte[V * C], dwpe[P * C];
	double *wte = fixture_drawn(&x, V * C, ZR_F64, 1),
	       *wpe = fixture_drawn(&x, P * C, ZR_F64, 1);

	(void)state;
	c.op.wte = wte;
	c.op.wpe = wpe;
	c.op.out = fixture_buffer(10 * C, ZR_F64);
	bwd.dout = c.dout = fixture_drawn(&x, 10 * C, ZR_F64, 1);
	bwd.dwte = (float *)(void *)dwte;
	bwd.dwpe = (float *)(void *)dwpe;
	zr_embedding_bwd_f64(&bwd, 0, C);
	for (int i = 0; i < V * C; i++)
		check_slope(embedding_loss, &c, wte, i, dwte[i]);
	for (int i = 0; i < P * C; i++)
		check_slope(embedding_loss, &c, wpe, i, dwpe[i]);
	fixture_release();
}

static double gelu_loss(void *x)
{
	return zr_activation(*(double *)x, zr_gelu_of(activation));
}

static void gelu_bwd_is_the_slope_of_gelu(void **state)
{
	(void)state;
	for (activation = 0; activation <= ZR_ACT_GELU_ERF; activation += ZR_ACT_GELU_ERF)
		for (double at = -9; at < 9; at += 0.37) {
			double x = at, dy = 1, dx;
			struct zr_op_gelu_bwd op = { .dtype = ZR_F64,
						     .activation = activation,
						     .n = 1,
						     .dy = &dy,
						     .pre = &x,
						     .dx = &dx };
			zr_gelu_bwd_f64(&op, 0, 1);
			check_slope(gelu_loss, &x, &x, 0, dx);
		}
}

struct residual_case {
	struct zr_op_residual op;
	const double *dout;
};

static double residual_loss(void *arg)
{
	struct residual_case *c = arg;
	zr_residual_f64(&c->op, 0, c->op.n);
	return dot(c->op.out, c->dout, c->op.n);
}

static void dropout_is_its_own_slope(void **state)
{
	enum { N = 70 };
	uint64_t x = 13;
	struct residual_case c = {
		.op = { .dtype = ZR_F64, .dropout = 0.3f, .n = N, .rng = { 5, 6, 7, 8 } }
	};
	struct zr_op_residual bwd = c.op;
	double *b = fixture_drawn(&x, N, ZR_F64, 1), db[N];

	(void)state;
	c.op.a = fixture_drawn(&x, N, ZR_F64, 1);
	c.op.b = b;
	c.op.out = fixture_buffer(N, ZR_F64);
	bwd.b = c.dout = fixture_drawn(&x, N, ZR_F64, 1);
	bwd.out = db;
	zr_residual_f64(&bwd, 0, N);
	for (int i = 0; i < N; i++)
		check_slope(residual_loss, &c, b, i, db[i]);
	fixture_release();
}

struct bias_case {
	const double *dy;
	double bias[5], y[4 * 5];
};

static double bias_loss(void *arg)
{
	struct bias_case *c = arg;
	for (int i = 0; i < 4 * 5; i++)
		c->y[i] = c->bias[i % 5];
	return dot(c->y, c->dy, 4 * 5);
}

static void bias_bwd_is_the_slope_of_a_bias(void **state)
{
	uint64_t x = 14;
	double db[5];
	struct bias_case c = { .dy = fixture_drawn(&x, 4 * 5, ZR_F64, 1),
			       .bias = { 1, 2, 3, 4, 5 } };
	struct zr_op_bias_bwd op = {
		.dtype = ZR_F64, .rows = 4, .width = 5, .dy = c.dy, .db = (float *)(void *)db
	};

	(void)state;
	zr_bias_bwd_f64(&op, 0, 5);
	for (int i = 0; i < 5; i++)
		check_slope(bias_loss, &c, c.bias, i, db[i]);
	fixture_release();
}

enum { TOKENS = 4, EXPERTS = 5, CHOSEN = 2 };

struct route_case {
	struct zr_op_route op;
	const double *dweights;
	double *logits, p[TOKENS * EXPERTS];
	double count[EXPERTS]; /* of places, as the first call chose them: a step changes none */
	const int32_t *targets;
	double tokens; /* that count */
};

static int is_counted(const struct route_case *c, int r)
{
	return !c->targets || c->targets[r] != ZR_PADDING;
}

static double route_loss(void *arg)
{
	struct route_case *c = arg;
	double loss = 0, *lse = zr_reals(c->op.lse);
	memcpy(c->p, c->logits, sizeof c->p);
	zr_route_f64(&c->op, 0, TOKENS);
	for (int r = 0; r < TOKENS; r++) {
		if (!is_counted(c, r))
			continue;
		for (int e = 0; e < EXPERTS; e++)
			loss += 0.75 * EXPERTS * (c->count[e] / c->tokens) *
				(c->p[r * EXPERTS + e] / c->tokens);
		loss += 0.5 * lse[r] * lse[r] / c->tokens;
	}
	return loss + dot(zr_reals(c->op.weights), c->dweights, TOKENS * CHOSEN);
}

static void route_bwd_is_the_slope_of_route_and_its_losses(void **state)
{
	static const int32_t padded[TOKENS] = { 0, ZR_PADDING, -1, 3 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t flags = i % 2 ? ZR_ROUTE_NORMALISE : 0;
		uint64_t x = 17;
		double lse[TOKENS], weights[TOKENS * CHOSEN], dlogits[TOKENS * EXPERTS];
		double share[EXPERTS + 1];
		int32_t ids[TOKENS * CHOSEN];
		struct route_case c = { .op = { .flags = flags,
						.rows = TOKENS,
						.experts = EXPERTS,
						.k = CHOSEN,
						.ids = ids,
						.lse = (float *)(void *)lse,
						.weights = (float *)(void *)weights },
					.targets = i < 2 ? NULL : padded,
					.tokens = i < 2 ? TOKENS : TOKENS - 1 };
		c.op.logits = (float *)(void *)c.p;
		c.logits = fixture_drawn(&x, TOKENS * EXPERTS, ZR_F64, 1);
		c.dweights = fixture_drawn(&x, TOKENS * CHOSEN, ZR_F64, 1);
		for (int j = 0; j < TOKENS * EXPERTS; j++) /* none within a step of another */
			c.logits[j] += 0.001 * j;
		route_loss(&c);
		for (int j = 0; j < TOKENS * CHOSEN; j++)
			c.count[ids[j]] += is_counted(&c, j / CHOSEN);
		for (int e = 0; e < EXPERTS; e++)
			share[e] = c.count[e] / c.tokens;
		share[EXPERTS] = c.tokens;
		struct zr_op_route_bwd bwd = { .flags = flags,
					       .rows = TOKENS,
					       .experts = EXPERTS,
					       .k = CHOSEN,
					       .balance = 0.75f,
					       .z = 0.5f,
					       .p = c.op.logits,
					       .lse = c.op.lse,
					       .ids = ids,
					       .weights = c.op.weights,
					       .share = (float *)(void *)share,
					       .dweights = (const float *)(const void *)c.dweights,
					       .dlogits = (float *)(void *)dlogits,
					       .targets = c.targets };
		zr_route_bwd_f64(&bwd, 0, TOKENS);
		for (int j = 0; j < TOKENS * EXPERTS; j++)
			check_slope(route_loss, &c, c.logits, j, dlogits[j]);
		fixture_release();
	}
}

struct combine_case {
	struct zr_op_expert_combine op;
	const double *dout;
};

static double combine_loss(void *arg)
{
	struct combine_case *c = arg;
	zr_expert_combine_f64(&c->op, 0, 3);
	return dot(c->op.out, c->dout, 3 * 19);
}

/* Width 19: more than there are lanes. */
static void expert_weigh_is_the_slope_of_expert_combine(void **state)
{
	static const int32_t order[6] = { 3, 0, 4, 1, 5, 2 }, where[6] = { 1, 3, 5, 0, 2, 4 };
	uint64_t x = 18;
	struct combine_case c = { .op = { .dtype = ZR_F64,
					  .out_dtype = ZR_F64,
					  .rows = 3,
					  .k = 2,
					  .width = 19,
					  .where = where } };
	double *y = fixture_drawn(&x, 6 * 19, ZR_F64, 1),
	       *weights = fixture_drawn(&x, 6, ZR_F64, 1), dy[6 * 19], kept[6 * 19], dweights[6];
	struct zr_op_expert_weigh bwd = { .dtype = ZR_F64,
					  .places = 6,
					  .width = 19,
					  .order = order,
					  .x = kept,
					  .dy = dy,
					  .weights = (float *)(void *)weights,
					  .dweights = (float *)(void *)dweights };

	(void)state;
	c.op.y = y;
	c.op.weights = (float *)(void *)weights;
	c.op.out = fixture_buffer(3 * 19, ZR_F64);
	c.dout = fixture_drawn(&x, 3 * 19, ZR_F64, 1);
	memcpy(kept, y, sizeof kept);
	for (int i = 0; i < 6 * 19; i++)
		dy[i] = c.dout[order[i / 19] / 2 * 19 + i % 19];
	zr_expert_weigh_f64(&bwd, 0, 6);
	for (int i = 0; i < 6 * 19; i++) {
		check_slope(combine_loss, &c, y, i, dy[i]);
		fixture_near(kept[i], y[i] * weights[order[i / 19]], 0);
	}
	for (int i = 0; i < 6; i++)
		check_slope(combine_loss, &c, weights, i, dweights[i]);
	fixture_release();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(embedding_bwd_is_the_slope_of_embedding),
		cmocka_unit_test(layernorm_bwd_is_the_slope_of_layernorm),
		cmocka_unit_test(rmsnorm_bwd_is_the_slope_of_rmsnorm),
		cmocka_unit_test(rotary_back_is_the_slope_of_rotary),
		cmocka_unit_test(gelu_bwd_is_the_slope_of_gelu),
		cmocka_unit_test(swiglu_bwd_is_the_slope_of_swiglu),
		cmocka_unit_test(dropout_is_its_own_slope),
		cmocka_unit_test(bias_bwd_is_the_slope_of_a_bias),
		cmocka_unit_test(route_bwd_is_the_slope_of_route_and_its_losses),
		cmocka_unit_test(expert_weigh_is_the_slope_of_expert_combine),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("kernels_slopes", tests, NULL, NULL);
}
