/* SPDX-License-Identifier: Apache-2.0
 *
 * device_ops.h - every operation of a device once, for t_device.c. One array of floats in device
 * memory holds all operands of a chain of operations; what it holds at the end tells whether any
 * bit of any result differed. Sizes give every operation several items and a short last.
 */
#ifndef ZR_TESTS_DEVICE_OPS_H
#define ZR_TESTS_DEVICE_OPS_H

#define B     3
#define T     50
#define C     72
#define HEADS 4
#define V     301
#define ROWS  (B * T)
#define N     (9 * ZR_BLOCK + 100)
#define SLOTS 92
#define SLOT  46080 /* floats; every operand fits one */
#define BYTES ((uint64_t)SLOTS * SLOT * sizeof(float))

static float *slot(float *all, int i)
{
	return all + (size_t)i * SLOT;
}

static int32_t *tokens_of(float *x)
{
	return (int32_t *)(void *)slot(x, 58);
}

static struct zr_scalars *scalars_of(float *x)
{
	return (struct zr_scalars *)(void *)slot(x, 59);
}

static void rows_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_embedding e = { .size = sizeof e,
				     .dtype = dtype,
				     .batch = B,
				     .length = T,
				     .width = C,
				     .vocabulary = V,
				     .positions = T + 2,
				     .tokens = tokens_of(x),
				     .wte = slot(x, 0),
				     .wpe = slot(x, 1),
				     .out = slot(x, 2) };
	struct zr_op_embedding_bwd eb = { .size = sizeof eb,
					  .dtype = dtype,
					  .batch = B,
					  .length = T,
					  .width = C,
					  .vocabulary = V,
					  .positions = T + 2,
					  .tokens = tokens_of(x),
					  .dout = slot(x, 3),
					  .dwte = slot(x, 4),
					  .dwpe = slot(x, 5) };
	struct zr_op_layernorm l = { .size = sizeof l,
				     .dtype = dtype,
				     .rows = ROWS,
				     .width = C,
				     .eps = 1e-5f,
				     .x = slot(x, 2),
				     .gamma = slot(x, 6),
				     .beta = slot(x, 7),
				     .y = slot(x, 8),
				     .mean = slot(x, 9),
				     .rstd = slot(x, 10) };
	struct zr_op_layernorm_bwd lb = { .size = sizeof lb,
					  .dtype = dtype,
					  .rows = ROWS,
					  .width = C,
					  .dy = slot(x, 3),
					  .x = slot(x, 2),
					  .gamma = slot(x, 6),
					  .mean = slot(x, 9),
					  .rstd = slot(x, 10),
					  .dx = slot(x, 11),
					  .dgamma = slot(x, 12),
					  .dbeta = slot(x, 13),
					  .work = slot(x, 14) };
	struct zr_op_bias_bwd bb = { .size = sizeof bb,
				     .dtype = dtype,
				     .rows = ROWS,
				     .width = C,
				     .dy = slot(x, 3),
				     .db = slot(x, 15) };
	assert_true(o->layernorm_bwd_work(o, &lb) <= SLOT * sizeof(float));
	must(d, o->embedding(o, NULL, &e));
	must(d, o->embedding_bwd(o, NULL, &eb));
	must(d, o->layernorm(o, NULL, &l));
	must(d, o->layernorm_bwd(o, NULL, &lb));
	must(d, o->bias_bwd(o, NULL, &bb));
}

static void attention_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_attention a = { .size = sizeof a,
				     .dtype = dtype,
				     .batch = B,
				     .length = T,
				     .heads = HEADS,
				     .kv_heads = HEADS,
				     .head_dim = C / HEADS,
				     .q_stride = 3 * C,
				     .k_stride = 3 * C,
				     .v_stride = 3 * C,
				     .out_stride = C,
				     .scale = 0.25f,
				     .dropout = 0.1f,
				     .rng = { 1, 2, 3, 4 },
				     .q = slot(x, 16),
				     .out = slot(x, 17),
				     .lse = slot(x, 18) };
	struct zr_op_attention_bwd ab = { .size = sizeof ab };
	size_t third = C * width_of(dtype);
	a.k = (char *)slot(x, 16) + third;
	a.v = (char *)slot(x, 16) + 2 * third;
	ab.fwd = a;
	ab.dout = slot(x, 19);
	ab.dq = slot(x, 20);
	ab.dk = (char *)slot(x, 20) + third;
	ab.dv = (char *)slot(x, 20) + 2 * third;
	ab.work = slot(x, 21);
	assert_true(o->attention_bwd_work(o, &ab) <= SLOT * sizeof(float));
	must(d, o->attention(o, NULL, &a));
	must(d, o->attention_bwd(o, NULL, &ab));
	ab.fwd.first = T / 3;
	ab.fwd.drop_rows = T + 9;
	ab.fwd.key_sums = slot(x, 26);
	ab.fwd.lse = slot(x, 26) + SLOT / 2;
	must(d, o->attention(o, NULL, &ab.fwd));
	must(d, o->attention_bwd(o, NULL, &ab));
	struct zr_op_cast_heads h = { .size = sizeof h,
				      .rows = ROWS,
				      .heads = HEADS,
				      .head_dim = C / HEADS,
				      .src_stride = 2 * C,
				      .src_head = C / HEADS,
				      .dst_stride = C / HEADS,
				      .dst_head = ROWS * C / HEADS,
				      .src = zr_array_at(ZR_F32, ab.fwd.key_sums),
				      .dst = zr_array_at(dtype, slot(x, 26) + SLOT / 4 * 3) };
	must(d, o->cast_heads(o, NULL, &h));
}

static void head_op(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_head_loss h = { .size = sizeof h,
				     .dtype = dtype,
				     .scale = 0.5f,
				     .rows = ROWS,
				     .width = C,
				     .vocabulary = V,
				     .x = slot(x, 8),
				     .w = slot(x, 0),
				     .targets = tokens_of(x),
				     .loss = slot(x, 22),
				     .loss_sum = (double *)(void *)slot(x, 23),
				     .dx = slot(x, 24),
				     .dw = slot(x, 25),
				     .work = slot(x, 87) };
	assert_true(o->head_loss_work(o, &h) <= (SLOTS - 87) * SLOT * sizeof(float));
	must(d, o->head_loss(o, NULL, &h));
}

static void element_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_gelu_bwd g = { .size = sizeof g,
				    .dtype = dtype,
				    .n = N,
				    .dy = slot(x, 27),
				    .pre = slot(x, 28),
				    .dx = slot(x, 29),
				    .act = slot(x, 60) };
	struct zr_op_residual r = { .size = sizeof r,
				    .dtype = dtype,
				    .dropout = 0.2f,
				    .n = N,
				    .rng = { 5, 6, 7, 8 },
				    .a = slot(x, 27),
				    .b = slot(x, 28),
				    .out = slot(x, 30),
				    .first = 4321 };
	struct zr_op_fold f = { .size = sizeof f,
				.flags = ZR_OP_ACCUMULATE,
				.comm_dtype = dtype,
				.n = N,
				.g = slot(x, 31),
				.acc = slot(x, 32),
				.sumsq = (double *)(void *)slot(x, 33),
				.nonfinite = (uint32_t *)(void *)slot(x, 34) };
	struct zr_op_adamw a = { .size = sizeof a,
				 .lowp_dtype = dtype,
				 .bias_correction = 1,
				 .n = N,
				 .beta1 = 0.9,
				 .beta2 = 0.99,
				 .eps = 1e-8,
				 .weight_decay = 0.1,
				 .scalars = scalars_of(x),
				 .grad = slot(x, 31),
				 .master = slot(x, 35),
				 .m = slot(x, 36),
				 .v = slot(x, 37),
				 .lowp = slot(x, 38) };
	struct zr_op_sgd m = { .size = sizeof m,
			       .lowp_dtype = dtype,
			       .nesterov = 1,
			       .n = N,
			       .momentum = 0.9,
			       .weight_decay = 0.1,
			       .scalars = scalars_of(x),
			       .grad = slot(x, 31),
			       .master = slot(x, 39),
			       .buf = slot(x, 40),
			       .lowp = slot(x, 41) };
	struct zr_op_cast c = { .size = sizeof c,
				.n = N,
				.src = zr_array_at(ZR_F32, slot(x, 31)),
				.dst = zr_array_at(dtype == ZR_F32 ? ZR_BF16 : dtype,
						   slot(x, 42)) };
	struct zr_op_init i = { .size = sizeof i,
				.n = N,
				.first = 12345,
				.mean = 1,
				.std = 2,
				.rng = { 9, 10, 11, 12 },
				.dst = slot(x, 43) };
	must(d, o->gelu_bwd(o, NULL, &g));
	must(d, o->residual(o, NULL, &r));
	must(d, o->fold(o, NULL, &f));
	must(d, o->adamw(o, NULL, &a));
	must(d, o->sgd(o, NULL, &m));
	must(d, o->cast(o, NULL, &c));
	must(d, o->init(o, NULL, &i));
}

static void update_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	const struct zr_scalars *s = scalars_of(x);
	struct zr_op_adamw a = { .size = sizeof a,
				 .lowp_dtype = dtype,
				 .bias_correction = 1,
				 .n = N,
				 .beta1 = 0.9,
				 .beta2 = 0.99,
				 .eps = 1e-8,
				 .scalars = s,
				 .grad = slot(x, 31),
				 .master = slot(x, 44),
				 .m = slot(x, 45),
				 .v = slot(x, 46),
				 .lowp = slot(x, 47),
				 .moment_dtype = ZR_BF16 };
	struct zr_op_lion l = { .size = sizeof l,
				.lowp_dtype = dtype,
				.n = N,
				.beta1 = 0.9,
				.beta2 = 0.99,
				.weight_decay = 0.1,
				.scalars = s,
				.grad = slot(x, 31),
				.master = slot(x, 48),
				.m = slot(x, 49),
				.lowp = slot(x, 50) };
	struct zr_op_adagrad g = { .size = sizeof g,
				   .lowp_dtype = dtype,
				   .n = N,
				   .lr_decay = 0.1,
				   .eps = 1e-10,
				   .weight_decay = 0.1,
				   .scalars = s,
				   .grad = slot(x, 31),
				   .master = slot(x, 51),
				   .sum = slot(x, 52),
				   .lowp = slot(x, 53) };
	struct zr_op_master m = { .size = sizeof m,
				  .n = N,
				  .master = slot(x, 31),
				  .lowp = (uint16_t *)(void *)slot(x, 54),
				  .rem = slot(x, 55) };
	struct zr_op_round_stochastic r = { .size = sizeof r,
					    .n = N,
					    .first = 12345,
					    .rng = { 9, 10, 11, 12 },
					    .src = slot(x, 31),
					    .dst = (uint16_t *)(void *)slot(x, 57) };
	must(d, o->adamw(o, NULL, &a));
	must(d, o->lion(o, NULL, &l));
	must(d, o->adagrad(o, NULL, &g));
	must(d, o->master_split(o, NULL, &m));
	m.master = slot(x, 56); /* comes out as slot 31, see results() */
	must(d, o->master_join(o, NULL, &m));
	must(d, o->round_stochastic(o, NULL, &r));
}

static void norm_ops(const struct dev *d, float *x, int32_t dtype)
{
	enum { WIDE = 131 }; /* rows and columns of a factor */
	const struct zr_ops *o = d->ops;
	const struct zr_scalars *s = scalars_of(x);
	struct zr_op_lamb l = { .size = sizeof l,
				.lowp_dtype = dtype,
				.bias_correction = 1,
				.n = N,
				.beta1 = 0.9,
				.beta2 = 0.99,
				.eps = 1e-8,
				.weight_decay = 0.1,
				.max_coeff = 10,
				.scalars = s,
				.grad = slot(x, 31),
				.master = slot(x, 61),
				.m = slot(x, 62),
				.v = slot(x, 63),
				.lowp = slot(x, 64),
				.block_norms = (double *)(void *)slot(x, 65) };
	struct zr_op_muon m = { .size = sizeof m,
				.lowp_dtype = dtype,
				.nesterov = 1,
				.n = N,
				.momentum = 0.9,
				.weight_decay = 0.1,
				.eps = 1e-7,
				.ratio = 2,
				.scalars = s,
				.grad = slot(x, 31),
				.master = slot(x, 66),
				.buf = slot(x, 67),
				.x = slot(x, 68),
				.sumsq = (double *)(void *)slot(x, 69),
				.lowp = slot(x, 70) };
	struct zr_op_muon_factor f = { .size = sizeof f,
				       .n = WIDE,
				       .a = 3,
				       .b = -4,
				       .c = 2,
				       .gram = slot(x, 71),
				       .square = slot(x, 72) };
	struct zr_op_scale_heads h = { .size = sizeof h,
				       .flags = ZR_SCALE_COLUMNS,
				       .n = N - 5,
				       .first = 7,
				       .width = C,
				       .begin = 8,
				       .apart = 12,
				       .lines = 8,
				       .heads = HEADS,
				       .factor = slot(x, 71),
				       .x = slot(x, 66) };
	must(d, o->lamb_norms(o, NULL, &l));
	l.norms = l.block_norms; /* of the first block, for all */
	must(d, o->lamb(o, NULL, &l));
	must(d, o->muon_momentum(o, NULL, &m));
	must(d, o->muon_normalize(o, NULL, &m)); /* slot 68, see results() */
	must(d, o->muon_factor(o, NULL, &f));
	must(d, o->muon_update(o, NULL, &m));
	must(d, o->scale_heads(o, NULL, &h));
	h.flags = 0;
	must(d, o->scale_heads(o, NULL, &h));
}

/* What a model like Llama adds; the attention's heads of queries share a head of keys and values
 * each two. */
static void llama_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_embedding e = { .size = sizeof e,
				     .dtype = dtype,
				     .batch = B,
				     .length = T,
				     .width = C,
				     .vocabulary = V,
				     .tokens = tokens_of(x),
				     .wte = slot(x, 0),
				     .out = slot(x, 73) };
	struct zr_op_embedding_bwd eb = { .size = sizeof eb,
					  .dtype = dtype,
					  .batch = B,
					  .length = T,
					  .width = C,
					  .vocabulary = V,
					  .tokens = tokens_of(x),
					  .dout = slot(x, 3),
					  .dwte = slot(x, 74) };
	struct zr_op_rmsnorm n = { .size = sizeof n,
				   .dtype = dtype,
				   .rows = ROWS,
				   .width = C,
				   .eps = 1e-5f,
				   .x = slot(x, 2),
				   .gamma = slot(x, 6),
				   .y = slot(x, 75),
				   .rstd = slot(x, 76) };
	struct zr_op_rmsnorm_bwd nb = { .size = sizeof nb,
					.dtype = dtype,
					.rows = ROWS,
					.width = C,
					.dy = slot(x, 3),
					.x = slot(x, 2),
					.gamma = slot(x, 6),
					.rstd = slot(x, 76),
					.dx = slot(x, 77),
					.dgamma = slot(x, 78),
					.work = slot(x, 79) };
	struct zr_op_rotary r = { .size = sizeof r,
				  .dtype = dtype,
				  .batch = B,
				  .length = T,
				  .heads = HEADS + HEADS / 2,
				  .head_dim = C / HEADS,
				  .stride = 2 * C,
				  .x = slot(x, 16),
				  .out = slot(x, 80),
				  .frequency = { 1, 0.7f, 0.3f, 0.1f } };
	struct zr_op_attention a = { .size = sizeof a,
				     .dtype = dtype,
				     .batch = B,
				     .length = T,
				     .heads = HEADS,
				     .kv_heads = HEADS / 2,
				     .head_dim = C / HEADS,
				     .q_stride = 2 * C,
				     .k_stride = 2 * C,
				     .v_stride = 2 * C,
				     .out_stride = C,
				     .scale = 0.25f,
				     .q = slot(x, 80),
				     .out = slot(x, 81),
				     .lse = slot(x, 82),
				     .window = T / 2,
				     .softcap = 2 };
	struct zr_op_attention_bwd ab = {
		.size = sizeof ab, .dout = slot(x, 19), .dq = slot(x, 83), .work = slot(x, 87)
	};
	struct zr_op_swiglu g = { .size = sizeof g,
				  .dtype = dtype,
				  .n = N,
				  .gate = slot(x, 27),
				  .up = slot(x, 28),
				  .out = slot(x, 84) };
	struct zr_op_swiglu_bwd gb = { .size = sizeof gb,
				       .dtype = dtype,
				       .n = N,
				       .dy = slot(x, 29),
				       .gate = slot(x, 27),
				       .up = slot(x, 28),
				       .dgate = slot(x, 85),
				       .dup = slot(x, 86),
				       .act = slot(x, 60) };
	size_t k = C * width_of(dtype), v = (C + C / 2) * width_of(dtype);
	a.k = (char *)slot(x, 80) + k;
	a.v = (char *)slot(x, 16) + v; /* not turned */
	ab.fwd = a;
	ab.dk = (char *)slot(x, 83) + k;
	ab.dv = (char *)slot(x, 83) + v;
	assert_true(o->rmsnorm_bwd_work(o, &nb) <= SLOT * sizeof(float));
	assert_true(o->attention_bwd_work(o, &ab) <= (SLOTS - 87) * SLOT * sizeof(float));
	must(d, o->embedding(o, NULL, &e));
	must(d, o->embedding_bwd(o, NULL, &eb));
	must(d, o->rmsnorm(o, NULL, &n));
	must(d, o->rmsnorm_bwd(o, NULL, &nb));
	n.width = nb.width = C / HEADS; /* heads of k in place */
	n.rows = nb.rows = ROWS * HEADS / 2;
	n.per_row = nb.per_row = HEADS / 2;
	n.x_stride = n.y_stride = nb.x_stride = nb.dy_stride = nb.dx_stride = 2 * C;
	n.flags = ZR_RMSNORM_PLUS_ONE;
	nb.flags = ZR_RMSNORM_PLUS_ONE | ZR_RMSNORM_STORE | ZR_OP_ACCUMULATE;
	n.x = n.y = (char *)slot(x, 16) + k;
	nb.x = n.x;
	nb.dy = nb.dx = ab.dk;
	assert_true(o->rmsnorm_bwd_work(o, &nb) <= SLOT * sizeof(float));
	must(d, o->rmsnorm(o, NULL, &n));
	must(d, o->rotary(o, NULL, &r));
	must(d, o->attention(o, NULL, &a));
	must(d, o->attention_bwd(o, NULL, &ab));
	r.flags = ZR_ROTARY_BACK;
	r.x = r.out = slot(x, 83);
	must(d, o->rotary(o, NULL, &r));
	must(d, o->rmsnorm_bwd(o, NULL, &nb));
	g.activation = gb.activation = ZR_ACT_GELU_ERF;
	g.width = gb.width = N / 4;
	g.stride = gb.stride = N / 4 + 9;
	must(d, o->swiglu(o, NULL, &g));
	must(d, o->swiglu_bwd(o, NULL, &gb));
}

/* Operands are small positive numbers, of either type. */
static void fill(float *x, int32_t dtype)
{
	uint64_t seed = 77;
	int64_t i;
	for (i = 0; i < SLOTS * (int64_t)SLOT; i++)
		put(x, dtype, i * (dtype == ZR_F32 ? 1 : 2), (rnd(&seed) + 1.001) / 4);
	for (i = 0; i < SLOTS * (int64_t)SLOT && dtype != ZR_F32; i++)
		put(x, dtype, 2 * i + 1, (rnd(&seed) + 1.001) / 4);
	for (i = 0; i < ROWS; i++)
		tokens_of(x)[i] = (int32_t)((rnd(&seed) + 1) / 2 * V);
	*scalars_of(x) = (struct zr_scalars){ 3, 0.5f, 1e-3f };
}

static void every_op(const struct dev *d, float *x, int32_t dtype)
{
	rows_ops(d, x, dtype);
	attention_ops(d, x, dtype);
	head_op(d, x, dtype);
	element_ops(d, x, dtype);
	update_ops(d, x, dtype);
	norm_ops(d, x, dtype);
	llama_ops(d, x, dtype);
}

#endif
