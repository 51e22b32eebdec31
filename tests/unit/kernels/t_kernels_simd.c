/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_simd.c - invariant I1 inside the kernels of a model: see kernels_job.h.
 */
#include "kernels_job.h"

#define PARTS 8 /* partials of layernorm_bwd_sum and rmsnorm_bwd_sum */

static void make_embedding(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)variation;
	j->op.embedding =
		(struct zr_op_embedding){ .dtype = dtype,
					  .batch = 2,
					  .length = s->rows,
					  .width = s->width,
					  .vocabulary = 5,
					  .positions = s->rows + 1,
					  .tokens = draw_tokens(2 * s->rows, 5),
					  .wte = noise(5 * s->width, dtype),
					  .wpe = noise((s->rows + 1) * s->width, dtype),
					  .out = output(j, 2 * s->rows * s->width, dtype, 1) };
	j->span = 2 * s->rows;
	j->grain = 1;
}

static void make_embedding_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.embedding_bwd = (struct zr_op_embedding_bwd){
		.flags = variation ? ZR_OP_ACCUMULATE_WTE : ZR_OP_ACCUMULATE_WPE,
		.dtype = dtype,
		.batch = 2,
		.length = s->rows,
		.width = s->width,
		.vocabulary = 5,
		.positions = s->rows + 1,
		.tokens = draw_tokens(2 * s->rows, 5),
		.dout = noise(2 * s->rows * s->width, dtype),
		.dwte = output(j, 5 * s->width, ZR_F32, !variation),
		.dwpe = output(j, (s->rows + 1) * s->width, ZR_F32, variation)
	};
	j->span = s->width;
	j->grain = 1;
}

static void make_layernorm(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.layernorm =
		(struct zr_op_layernorm){ .dtype = dtype,
					  .rows = s->rows,
					  .width = s->width,
					  .eps = 1e-5f,
					  .x = noise(s->rows * s->width, dtype),
					  .gamma = noise(s->width, dtype),
					  .beta = variation ? NULL : noise(s->width, dtype),
					  .y = output(j, s->rows * s->width, dtype, 1),
					  .mean = output(j, s->rows, ZR_F32, 1),
					  .rstd = output(j, s->rows, ZR_F32, 1) };
	j->span = s->rows;
	j->grain = 1;
}

static void make_layernorm_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)variation;
	j->op.layernorm_bwd = (struct zr_op_layernorm_bwd){
		.dtype = dtype,
		.rows = s->rows,
		.width = s->width,
		.dy = noise(s->rows * s->width, dtype),
		.x = noise(s->rows * s->width, dtype),
		.gamma = noise(s->width, dtype),
		.mean = noise(s->rows, ZR_F32),
		.rstd = absolute(noise(s->rows, ZR_F32), s->rows, ZR_F32),
		.dx = output(j, s->rows * s->width, dtype, 0)
	};
	j->span = (s->rows + ZR_LN_TILE - 1) / ZR_LN_TILE;
	j->grain = 1;
	j->part = output(j, j->span * 2 * s->width, ZR_F32, 1);
}

static void make_layernorm_sum(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype;
	j->op.layernorm_bwd =
		(struct zr_op_layernorm_bwd){ .flags = variation ? ZR_OP_ACCUMULATE : 0,
					      .rows = s->rows,
					      .width = s->width,
					      .dgamma = output(j, s->width, ZR_F32, !variation),
					      .dbeta = output(j, s->width, ZR_F32, !variation) };
	j->part = noise(PARTS * 2 * s->width, ZR_F32);
	j->span = s->width;
	j->grain = 1;
}

/* Variations: 1 of 1 + gamma, 2 of rows in groups of three with gaps, both without gamma. */
static void make_rmsnorm(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	int64_t per = variation & 2 ? 3 : 0, gap = per ? per * s->width + 5 : 0;
	int64_t n = per ? (s->rows + 2) / 3 * gap : s->rows * s->width;
	void *gamma = noise(s->width, dtype);

	j->op.rmsnorm = (struct zr_op_rmsnorm){ .flags = variation & 1 ? ZR_RMSNORM_PLUS_ONE : 0,
						.dtype = dtype,
						.rows = s->rows,
						.width = s->width,
						.eps = 1e-5f,
						.x = noise(n, dtype),
						.gamma = variation == 3 ? NULL : gamma,
						.y = output(j, n, dtype, !per),
						.rstd = output(j, s->rows, ZR_F32, 1),
						.per_row = per,
						.x_stride = gap,
						.y_stride = gap };
	j->span = s->rows;
	j->grain = 1;
}

/* As above; 4: dx is stored; 8: it is dy. */
static void make_rmsnorm_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	int64_t per = variation & 2 ? 3 : 0, gap = per ? per * s->width + 5 : 0;
	int64_t n = per ? (s->rows + 2) / 3 * gap : s->rows * s->width;
	void *gamma = noise(s->width, dtype), *dx = output(j, n, dtype, 0);

	j->op.rmsnorm_bwd = (struct zr_op_rmsnorm_bwd){
		.flags = (variation & 1 ? ZR_RMSNORM_PLUS_ONE : 0) |
			 (variation & 12 ? ZR_RMSNORM_STORE : 0),
		.dtype = dtype,
		.rows = s->rows,
		.width = s->width,
		.x = noise(n, dtype),
		.dy = variation & 8 ? dx : noise(n, dtype),
		.dx = dx,
		.gamma = variation % 4 == 3 ? NULL : gamma,
		.rstd = absolute(noise(s->rows, ZR_F32), s->rows, ZR_F32),
		.per_row = per,
		.x_stride = gap,
		.dy_stride = gap,
		.dx_stride = gap
	};
	j->span = (s->rows + ZR_LN_TILE - 1) / ZR_LN_TILE;
	j->grain = 1;
	j->part = output(j, j->span * s->width, ZR_F32, 1);
}

static void make_rmsnorm_sum(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype;
	j->op.rmsnorm_bwd =
		(struct zr_op_rmsnorm_bwd){ .flags = variation ? ZR_OP_ACCUMULATE : 0,
					    .rows = s->rows,
					    .width = s->width,
					    .dgamma = output(j, s->width, ZR_F32, !variation) };
	j->part = noise(PARTS * s->width, ZR_F32);
	j->span = s->width;
	j->grain = 1;
}

/* Heads of every width up to the widest; forward with gaps between rows, backward in place. From
 * variation 2 on a part of each head turns, and heads lie apart. */
static void make_rotary(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	int64_t dim = 2 * (s->width < ZR_ROTARY_PAIRS ? s->width : ZR_ROTARY_PAIRS);
	int64_t head = variation < 2 ? 0 : dim + 7;
	int64_t stride = 3 * (head ? head : dim) + (variation & 1 ? 0 : 5);

	j->op.rotary = (struct zr_op_rotary){ .flags = variation & 1 ? ZR_ROTARY_BACK : 0,
					      .dtype = dtype,
					      .batch = 2,
					      .rotary_dim = variation < 2 ? 0 : (dim + 3) / 4 * 2,
					      .head_stride = head,
					      .gain = variation < 2 ? 0 : 1.3f,
					      .length = s->rows,
					      .heads = 3,
					      .head_dim = dim,
					      .stride = stride };
	j->op.rotary.out = output(j, 2 * s->rows * stride, dtype, 0);
	j->op.rotary.x = variation & 1 ? j->op.rotary.out : noise(2 * s->rows * stride, dtype);
	for (int64_t i = 0; i < dim / 2; i++)
		j->op.rotary.frequency[i] = 4.0f / (float)(1 + i * i);
	j->span = 2 * s->rows;
	j->grain = 1;
}

static void make_swiglu(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	/* a second half of them in rows with gaps: gates of odd sizes */
	int64_t width = variation < 4 ? 0 : s->width, stride = variation < 4 ? 0 : s->width + 3;
	int64_t n = width ? s->rows * width : s->n, room = width ? s->rows * stride : s->n;

	j->op.swiglu = (struct zr_op_swiglu){ .dtype = dtype,
					      .activation = variation % 4,
					      .n = n,
					      .gate = noise(room, dtype),
					      .up = noise(room, dtype),
					      .out = output(j, n, dtype, 1),
					      .width = width,
					      .stride = stride };
	j->span = n;
	for (int64_t i = 0; i < room; i++) /* both tails, too */
		zr_put((void *)(uintptr_t)j->op.swiglu.gate, i, dtype,
		       60 * zr_get(j->op.swiglu.gate, i, dtype));
}

static void make_swiglu_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	make_swiglu(j, s, dtype, variation);
	struct zr_op_swiglu op = j->op.swiglu;
	int64_t room = op.width ? s->rows * op.stride : op.n;
	j->outs = variation & 1; /* whether it has its out again */
	j->op.swiglu_bwd = (struct zr_op_swiglu_bwd){ .dtype = dtype,
						      .activation = op.activation,
						      .n = op.n,
						      .dy = noise(op.n, dtype),
						      .gate = op.gate,
						      .up = op.up,
						      .dgate = output(j, room, dtype, !op.width),
						      .dup = output(j, room, dtype, !op.width),
						      .act = variation & 1 ? op.out : NULL,
						      .width = op.width,
						      .stride = op.stride };
}

static void make_gelu_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.gelu_bwd =
		(struct zr_op_gelu_bwd){ .dtype = dtype,
					 .activation = variation & 2 ? ZR_ACT_GELU_ERF : 0,
					 .n = s->n,
					 .dy = noise(s->n, dtype),
					 .pre = noise(s->n, dtype),
					 .dx = output(j, s->n, dtype, 1),
					 .act = variation & 1 ? output(j, s->n, dtype, 1) : NULL };
	for (int64_t i = 0; i < s->n; i++) /* both tails, too */
		zr_put((void *)(uintptr_t)j->op.gelu_bwd.pre, i, dtype,
		       6 * zr_get(j->op.gelu_bwd.pre, i, dtype));
}

static void make_residual(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.residual = (struct zr_op_residual){ .dtype = dtype,
						  .dropout = variation < 2 ? 0.3f : 0,
						  .n = s->n,
						  .gain = variation % 2 ? 1.7f : 0,
						  .rng = { 0x123456789abcdef0u, 77, 5, 17 },
						  .a = variation & 1 ? noise(s->n, dtype) : NULL,
						  .b = noise(s->n, dtype),
						  .out = output(j, s->n, dtype, 1),
						  .first = variation * s->n };
}

static void make_bias_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.bias_bwd = (struct zr_op_bias_bwd){ .flags = variation ? ZR_OP_ACCUMULATE : 0,
						  .dtype = dtype,
						  .rows = s->rows,
						  .width = s->width,
						  .dy = noise(s->rows * s->width, dtype),
						  .db = output(j, s->width, ZR_F32, !variation) };
	j->span = s->width;
	j->grain = 1;
}

/* variation: 1 no cap, 2 the slope */
static void make_logit_cap(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype;
	j->op.logit_cap = (struct zr_op_logit_cap){ .n = s->n,
						    .gain = 1.7f,
						    .softcap = variation & 1 ? 0 : 0.9f,
						    .x = output(j, s->n, ZR_F32, 0) };
	j->part = variation & 2 ? output(j, s->n, ZR_F32, 0) : NULL;
}

static void run_logit_cap(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	struct zr_op_logit_cap op = j->op.logit_cap;

	k->logit_cap(&op, lo, hi);
	if (!j->part)
		return;
	op.x += lo;
	op.n = hi - lo;
	k->logit_cap_bwd(&op, j->part + lo);
}

#define RUN(name)                                                                                  \
	static void run_##name(const struct zr_cpu_kernels *k, struct job *j, int64_t lo,          \
			       int64_t hi)                                                         \
	{                                                                                          \
		k->name(&j->op.name, lo, hi);                                                      \
	}
RUN(embedding)
RUN(embedding_bwd)
RUN(layernorm)
RUN(rmsnorm)
RUN(rotary)
RUN(gelu_bwd)
RUN(swiglu)
RUN(swiglu_bwd)
RUN(residual)
RUN(expert_combine)
RUN(expert_weigh)
RUN(bias_bwd)

/* spans tiles: a caller may not cut them */
static void run_layernorm_bwd(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	const struct zr_op_layernorm_bwd *op = &j->op.layernorm_bwd;

	for (int64_t t = lo; t < hi; t++) {
		int64_t from = t * ZR_LN_TILE,
			to = from + ZR_LN_TILE < op->rows ? from + ZR_LN_TILE : op->rows;
		k->layernorm_bwd(op, from, to, j->part + t * 2 * op->width);
	}
}

static void run_layernorm_sum(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->layernorm_bwd_sum(&j->op.layernorm_bwd, j->part, PARTS, lo, hi);
}

static void run_rmsnorm_bwd(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	const struct zr_op_rmsnorm_bwd *op = &j->op.rmsnorm_bwd;

	for (int64_t t = lo; t < hi; t++) {
		int64_t from = t * ZR_LN_TILE,
			to = from + ZR_LN_TILE < op->rows ? from + ZR_LN_TILE : op->rows;
		k->rmsnorm_bwd(op, from, to, j->part + t * op->width);
	}
}

static void run_rmsnorm_sum(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->rmsnorm_bwd_sum(&j->op.rmsnorm_bwd, j->part, PARTS, lo, hi);
}

/* Places in descending order. */
static const int32_t *mixed(int64_t n)
{
	int32_t *p = fixture_buffer(n, ZR_F32);
	for (int64_t i = 0; i < n; i++)
		p[i] = (int32_t)(n - 1 - i);
	return p;
}

static void make_combine(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.expert_combine = (struct zr_op_expert_combine){
		.dtype = dtype,
		.out_dtype = variation ? ZR_F32 : dtype,
		.rows = s->rows,
		.k = 3,
		.width = s->width,
		.where = mixed(3 * s->rows),
		.weights = variation ? NULL : noise(3 * s->rows, ZR_F32),
		.y = noise(3 * s->rows * s->width, dtype),
		.out = output(j, s->rows * s->width, variation ? ZR_F32 : dtype, 1)
	};
	j->span = s->rows;
	j->grain = 1;
}

static void make_weigh(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)variation;
	j->op.expert_weigh =
		(struct zr_op_expert_weigh){ .dtype = dtype,
					     .places = s->rows,
					     .width = s->width,
					     .order = mixed(s->rows),
					     .weights = noise(s->rows, ZR_F32),
					     .x = output(j, s->rows * s->width, dtype, 0),
					     .dy = output(j, s->rows * s->width, dtype, 0),
					     .dweights = output(j, s->rows, ZR_F32, 1) };
	j->span = s->rows;
	j->grain = 1;
}

static const struct kernel kernels[] = {
	{ "embedding", make_embedding, run_embedding, 1, 0 },
	{ "embedding_bwd", make_embedding_bwd, run_embedding_bwd, 2, 0 },
	{ "layernorm", make_layernorm, run_layernorm, 2, 4e-6 },
	{ "layernorm_bwd", make_layernorm_bwd, run_layernorm_bwd, 1, 2e-5 },
	{ "layernorm_bwd_sum", make_layernorm_sum, run_layernorm_sum, 2, 0 },
	{ "rmsnorm", make_rmsnorm, run_rmsnorm, 4, 4e-6 },
	{ "rmsnorm_bwd", make_rmsnorm_bwd, run_rmsnorm_bwd, 12, 2e-5 },
	{ "rmsnorm_bwd_sum", make_rmsnorm_sum, run_rmsnorm_sum, 2, 0 },
	{ "rotary", make_rotary, run_rotary, 4, 0 },
	{ "gelu_bwd", make_gelu_bwd, run_gelu_bwd, 4, 0 },
	{ "swiglu", make_swiglu, run_swiglu, 8, 0 },
	{ "swiglu_bwd", make_swiglu_bwd, run_swiglu_bwd, 8, 0 },
	{ "residual", make_residual, run_residual, 4, 0 },
	{ "logit_cap", make_logit_cap, run_logit_cap, 4, 0 },
	{ "bias_bwd", make_bias_bwd, run_bias_bwd, 2, 0 },
	{ "expert_combine", make_combine, run_expert_combine, 2, 0 },
	{ "expert_weigh", make_weigh, run_expert_weigh, 1, 0 },
};

int main(void)
{
	return job_main("kernels_simd", kernels, (int)(sizeof kernels / sizeof *kernels));
}
