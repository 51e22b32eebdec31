/* SPDX-License-Identifier: Apache-2.0
 *
 * t_twin.c - every operation of a device beside the scalar kernels of device/cpu, on the same
 * operands: bits where the device has the scalar kernels' own functions, else closeness. Odd shapes
 * and those that tensor cores take, operands off their alignment, poisoned results; nothing outside
 * the operands may change. The device is device/cpu with its best kernels, or the one that
 * ZR_TEST_DEVICE names: so an accelerator proves itself with this program.
 *
 *   t_twin [PATTERN]     all tests, or those whose names fit. A test goes on after a difference and
 *                        says all of them.
 */
#include "tests/lib/sanitize.h"
#include "twin.h"

static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
static int32_t arg[8]; /* sizes of the case at hand */

/* Units of the last place that a result of sums in another order, rounded once, may be off. */
static double rounded(int32_t dtype)
{
	return dtype == ZR_F32 ? 64 : 2.01;
}

/* Whether case `i` is to be left out: under sanitizers one of five shows as much. */
static int left_out(uint32_t i)
{
	return sanitized() && i % 5;
}

#define OPS s->d.ops, NULL
#include "twin_attention.h"
#include "twin_experts.h"

/* ---- matrix products ---- */

static int matmul(const struct side *s, int32_t dtype, int variant)
{
	const uint32_t flags = (uint32_t)arg[3];
	const int32_t pad = arg[4];
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = flags,
				   .m = arg[0],
				   .n = arg[1],
				   .k = arg[2],
				   .lda = (flags & ZR_MM_TRANS_A ? arg[0] : arg[2]) + pad,
				   .ldb = (flags & ZR_MM_TRANS_B ? arg[2] : arg[1]) + pad,
				   .ldd = arg[1] + pad,
				   .a = zr_array_at(dtype, at(s, 0)),
				   .b = zr_array_at(dtype, at(s, 1)),
				   .d = zr_array_at(operands[3].dtype, at(s, 3)),
				   .bias = variant & 1 ? at(s, 2) : NULL,
				   .pre = flags & ZR_MM_GELU && variant & 2 ? at(s, 4) : NULL,
				   .activation = variant & 4 ? ZR_ACT_GELU_ERF : 0 };
	return s->d.ops->matmul(OPS, &op);
}

static void product(int32_t m, int32_t n, int32_t k, uint32_t flags, int32_t pad, int32_t dtype,
		    int32_t to, int variant)
{
	const int32_t set[] = { m, n, k, (int32_t)flags, pad };
	int off = pad % 8 != 0;
	memcpy(arg, set, sizeof set);
	begin((uint64_t)m);
	operand((flags & ZR_MM_TRANS_A ? k : m) * (int64_t)((flags & ZR_MM_TRANS_A ? m : k) + pad),
		dtype, 1, off, 0);
	operand((flags & ZR_MM_TRANS_B ? n : k) * (int64_t)((flags & ZR_MM_TRANS_B ? k : n) + pad),
		dtype, 1, off, 0);
	operand(n, dtype, 1, off, 0);
	operand(m * (int64_t)(n + pad), to, 1, off, to == ZR_F32 ? 256 : 2.01);
	operand(m * (int64_t)(n + pad), to, 1, off, to == ZR_F32 ? 256 : 2.01);
	twins("matmul", matmul, dtype, variant);
}

static void matrix_products_are_close(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++)
		for (uint32_t trans = 0; trans < 4; trans++) {
			if (left_out((uint32_t)t + trans))
				continue;
			product(128, 192, 64, trans, 0, dtypes[t], ZR_F32, 0);
			product(128, 192, 64, trans | ZR_MM_ACCUMULATE, 0, dtypes[t], ZR_F32, 0);
			product(256, 128, 96, trans, 8, dtypes[t], dtypes[t], 1);
			product(64, 256, 128, trans | ZR_MM_GELU, 0, dtypes[t], dtypes[t], 3);
			product(64, 256, 128, trans | ZR_MM_GELU, 0, dtypes[t], dtypes[t], 1);
			product(64, 256, 128, trans | ZR_MM_GELU, 0, dtypes[t], dtypes[t], 5);
			product(7, 33, 70, trans | ZR_MM_GELU, 3, dtypes[t], dtypes[t], 3);
			product(7, 33, 70, trans | ZR_MM_GELU, 3, dtypes[t], dtypes[t], 7);
			product(1, 5, 3, trans, 1, dtypes[t], dtypes[t], 1);
			/* a long sum into a small result */
			product(96, 64, 2048, trans, 0, dtypes[t], ZR_F32, 0);
		}
	all_agreed();
}

/* ---- low-rank updates ---- */

/* arg: m, n, k, r, flags; variant: 1 bias, 2 V transposed, 4 dropout */
static int low_rank(const struct side *s, int32_t dtype, int variant)
{
	const uint32_t flags = (uint32_t)arg[4];
	struct zr_op_matmul_low_rank op = { .size = sizeof op,
					    .flags = variant & 2 ? ZR_LR_TRANS_V : 0,
					    .r = arg[3],
					    .gain = 0.5f,
					    .dropout = variant & 4 ? 0.2f : 0,
					    .rng = { 1, 2, 3, 4 },
					    .first = variant & 4 ? arg[2] + 1 : 0,
					    .u = at(s, 5),
					    .v = at(s, 6) };
	op.product = (struct zr_op_matmul){ .size = sizeof op.product,
					    .flags = flags,
					    .m = arg[0],
					    .n = arg[1],
					    .k = arg[2],
					    .lda = arg[2],
					    .ldb = flags & ZR_MM_TRANS_B ? arg[2] : arg[1],
					    .ldd = arg[1],
					    .a = zr_array_at(dtype, at(s, 0)),
					    .b = zr_array_at(dtype, at(s, 1)),
					    .d = zr_array_at(operands[3].dtype, at(s, 3)),
					    .bias = variant & 1 ? at(s, 2) : NULL,
					    .pre = flags & ZR_MM_GELU ? at(s, 4) : NULL,
					    .activation = variant & 2 ? ZR_ACT_GELU_ERF : 0 };
	return s->d.ops->matmul_low_rank(OPS, &op);
}

static void updated_product(int32_t m, int32_t n, int32_t k, int32_t r, uint32_t flags,
			    int32_t dtype, int32_t to, int variant)
{
	const int32_t set[] = { m, n, k, r, (int32_t)flags };
	memcpy(arg, set, sizeof set);
	begin((uint64_t)m);
	operand(m * (int64_t)k, dtype, 1, 0, 0);
	operand(n * (int64_t)k, dtype, 1, 0, 0);
	operand(n, dtype, 1, 0, 0);
	operand(m * (int64_t)n, to, 1, 0, to == ZR_F32 ? 256 : 2.01);
	operand(m * (int64_t)n, to, 1, 0, to == ZR_F32 ? 256 : 2.01);
	operand(m * (int64_t)r, dtype, 1, 0, 0);
	operand(n * (int64_t)r, dtype, 1, 0, 0);
	twins("matmul_low_rank", low_rank, dtype, variant);
}

static void low_rank_updates_are_close(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++)
		for (int v = 0; v < 8; v++) {
			const uint32_t trans = v & 1 ? ZR_MM_TRANS_B : 0;
			if (left_out((uint32_t)(t + v)))
				continue;
			updated_product(128, 192, 64, 16, trans, dtypes[t], dtypes[t], v);
			updated_product(64, 256, 128, 8, trans | ZR_MM_GELU, dtypes[t], dtypes[t],
					v);
			updated_product(96, 64, 2048, 64, trans | ZR_MM_ACCUMULATE, dtypes[t],
					ZR_F32, v & 6);
			updated_product(7, 33, 70, 3, trans | ZR_MM_GELU, dtypes[t], dtypes[t], v);
			updated_product(5, 3, 1, 1, trans, dtypes[t], dtypes[t], v);
		}
	all_agreed();
}

/* ---- the head ---- */

static int head_loss(const struct side *s, int32_t dtype, int variant)
{
	struct zr_op_head_loss op = { .size = sizeof op,
				      .flags = variant & 1 ? ZR_OP_ACCUMULATE : 0,
				      .dtype = dtype,
				      .scale = 1.0f / 64,
				      .rows = arg[0],
				      .width = arg[1],
				      .vocabulary = arg[2],
				      .x = at(s, 0),
				      .w = at(s, 1),
				      .targets = at(s, 2),
				      .loss = f32(s, 3),
				      .loss_sum = at(s, 4),
				      .dx = variant & 2 ? NULL : at(s, 5),
				      .dw = f32(s, 6),
				      .work = at(s, 7) };
	if (s->d.ops->head_loss_work(s->d.ops, &op) > (uint64_t)operands[7].n * 4)
		return ZR_EFIT;
	return s->d.ops->head_loss(OPS, &op);
}

static void heads_are_close(void **state)
{
	static const int32_t sizes[][3] = { { 130, 64, 1000 }, { 64, 72, 301 }, { 5, 8, 3 } };
	(void)state;
	for (int k = 0; k < 3 * 3 * 4; k++) {
		const int32_t *z = sizes[k % 3], t = dtypes[k / 3 % 3];
		memcpy(arg, z, sizeof *sizes);
		begin((uint64_t)k);
		operand((int64_t)z[0] * z[1], t, 1, 0, 0);
		operand((int64_t)z[2] * z[1], t, 0.3, 0, 0);
		operand(z[0], ZR_F32, 1, 0, 0);
		for (int32_t i = 0; i < z[0]; i++)
			((int32_t *)(void *)(start + operands[2].at))[i] = i * 7 % z[2];
		operand(z[0], ZR_F32, 0, 0, 64);
		operand(1, ZR_F64, 0, 0, 0x1p35);
		operand((int64_t)z[0] * z[1], t, 1, 0, t == ZR_F32 ? 256 : 4);
		operand((int64_t)z[2] * z[1], ZR_F32, 1, 0,
			t == ZR_F32  ? 256 :
			t == ZR_BF16 ? 0x1p17 :
				       0x1p14);
		operand(400000, ZR_F32, 1, 0, 1e30); /* work */
		twins("head_loss", head_loss, t, k / 9);
	}
	all_agreed();
}

/* ---- norms ---- */

static int layernorm(const struct side *s, int32_t dtype, int variant)
{
	struct zr_op_layernorm op = { .size = sizeof op,
				      .dtype = dtype,
				      .rows = arg[0],
				      .width = arg[1],
				      .eps = 1e-5f,
				      .x = at(s, 0),
				      .gamma = at(s, 1),
				      .beta = variant & 2 ? NULL : at(s, 2),
				      .y = at(s, 3),
				      .mean = f32(s, 4),
				      .rstd = f32(s, 5) };
	struct zr_op_layernorm_bwd b = { .size = sizeof b,
					 .flags = variant & 1 ? ZR_OP_ACCUMULATE : 0,
					 .dtype = dtype,
					 .rows = arg[0],
					 .width = arg[1],
					 .dy = at(s, 6),
					 .x = at(s, 0),
					 .gamma = at(s, 1),
					 .mean = f32(s, 4),
					 .rstd = f32(s, 5),
					 .dx = at(s, 7),
					 .dgamma = variant == 2 ? NULL : f32(s, 8),
					 .dbeta = variant & 2 ? NULL : f32(s, 9),
					 .work = at(s, 10) };
	int rc = s->d.ops->layernorm(OPS, &op);
	if (rc)
		return rc;
	return s->d.ops->layernorm_bwd(OPS, &b);
}

/* variant: 1 the gradient is added to; 2 heads of half the width, 1 + gamma, dx is dy */
static int rmsnorm(const struct side *s, int32_t dtype, int variant)
{
	const int heads = variant & 2 && arg[1] > 8;
	const int64_t width = heads ? arg[1] / 2 - 1 : arg[1], rows = heads ? 2 * arg[0] : arg[0];
	const uint32_t flags = heads ? ZR_RMSNORM_PLUS_ONE : 0;
	struct zr_op_rmsnorm op = { .size = sizeof op,
				    .flags = flags,
				    .dtype = dtype,
				    .rows = rows,
				    .width = width,
				    .eps = 1e-5f,
				    .x = at(s, 0),
				    .gamma = at(s, 1),
				    .y = at(s, 3),
				    .rstd = f32(s, 11),
				    .per_row = heads ? 2 : 0,
				    .x_stride = heads ? arg[1] : 0,
				    .y_stride = heads ? arg[1] : 0 };
	struct zr_op_rmsnorm_bwd b = { .size = sizeof b,
				       .flags = flags | (variant & 1 ? ZR_OP_ACCUMULATE : 0),
				       .dtype = dtype,
				       .rows = rows,
				       .width = width,
				       .dy = at(s, 6),
				       .x = at(s, 0),
				       .gamma = at(s, 1),
				       .rstd = f32(s, 11),
				       .dx = at(s, 7),
				       .dgamma = f32(s, 8),
				       .work = at(s, 10),
				       .per_row = op.per_row,
				       .dy_stride = op.x_stride,
				       .x_stride = op.x_stride,
				       .dx_stride = op.x_stride };
	if (heads) {
		b.flags |= ZR_RMSNORM_STORE;
		b.dy = b.dx;
	}
	int rc = s->d.ops->rmsnorm(OPS, &op);
	if (rc)
		return rc;
	return s->d.ops->rmsnorm_bwd(OPS, &b);
}

static void norms(op_fn *op, const char *name)
{
	static const int32_t sizes[][2] = { { 130, 768 }, { 67, 129 }, { 1, 5 } };
	for (int k = 0; k < 3 * 3 * 4; k++) {
		int32_t rows = sizes[k % 3][0], c = sizes[k % 3][1], t = dtypes[k / 3 % 3];
		int64_t n = (int64_t)rows * c;
		int off = k / 9 & 1;
		arg[0] = rows;
		arg[1] = c;
		begin((uint64_t)k);
		operand(n, t, 2, off, 0);
		operand(c, t, 1, off, 0);
		operand(c, t, 1, off, 0);
		operand(n, t, 1, off, rounded(t));
		operand(rows, ZR_F32, 1, 0, 64);
		operand(rows, ZR_F32, 1, 0, 64);
		operand(n, t, 1, off, 0);
		operand(n, t, 1, off, rounded(t));
		operand(c, ZR_F32, 1, 0, 256);
		operand(c, ZR_F32, 1, 0, 256);
		operand(n / 32 * 2 + 2 * c, ZR_F32, 1, 0, 1e30); /* work */
		operand(2 * rows, ZR_F32, 1, 0, 64);
		twins(name, op, t, k / 9);
	}
	all_agreed();
}

static void norms_of_layers_are_close(void **state)
{
	(void)state;
	norms(layernorm, "layernorm");
}

static void norms_of_squares_are_close(void **state)
{
	(void)state;
	norms(rmsnorm, "rmsnorm");
}

/* ---- what has the bits of the scalar kernels ---- */

#define N (3 * ZR_BLOCK + 501)

static int elements(const struct side *s, int32_t dtype, int variant)
{
	const struct zr_ops *o = s->d.ops;
	struct zr_op_gelu_bwd g = { .size = sizeof g,
				    .dtype = dtype,
				    .n = N,
				    .dy = at(s, 0),
				    .pre = at(s, 1),
				    .dx = at(s, 2),
				    .activation = variant > 1 ? variant : 0,
				    .act = at(s, 3) };
	struct zr_op_residual r = { .size = sizeof r,
				    .dtype = dtype,
				    .dropout = variant ? 0.3f : 0,
				    .n = N,
				    .rng = { 5, 6, 7, 8 },
				    .a = at(s, 0),
				    .b = at(s, 1),
				    .out = at(s, 4),
				    .first = 77 * variant };
	struct zr_op_swiglu w = { .size = sizeof w,
				  .dtype = dtype,
				  .n = N,
				  .gate = at(s, 0),
				  .up = at(s, 1),
				  .out = at(s, 5) };
	struct zr_op_swiglu_bwd wb = { .size = sizeof wb,
				       .dtype = dtype,
				       .n = N,
				       .dy = at(s, 5),
				       .gate = at(s, 0),
				       .up = at(s, 1),
				       .dgate = at(s, 6),
				       .dup = at(s, 7),
				       .act = at(s, 8) };
	w.activation = wb.activation = variant;
	if (variant > 1) { /* rows with gaps */
		w.width = wb.width = variant == 2 ? 15 : 16;
		w.stride = wb.stride = 20;
		w.n = wb.n = N / 20 * w.width;
	}
	struct zr_op_cast c = { .size = sizeof c,
				.n = N,
				.src = zr_array_at(dtype, at(s, 0)),
				.dst = zr_array_at(ZR_F32, at(s, 9)) };
	struct zr_op_cast_heads h = { .size = sizeof h,
				      .rows = N / 40,
				      .heads = 3,
				      .head_dim = variant > 1 ? 12 : 11,
				      .src_stride = 40,
				      .src_head = 12,
				      .dst_stride = 12,
				      .dst_head = N / 40 * 12,
				      .src = zr_array_at(dtype, at(s, 0)),
				      .dst = zr_array_at(variant & 1 ? dtype : ZR_F32, at(s, 11)) };
	struct zr_op_rotary t = { .size = sizeof t,
				  .flags = variant & 1 ? ZR_ROTARY_BACK : 0,
				  .dtype = dtype,
				  .batch = 2,
				  .length = N / 70,
				  .heads = 3,
				  .head_dim = 10,
				  .stride = 35,
				  .x = at(s, 0),
				  .out = at(s, 10),
				  .frequency = { 1, 0.5f, 0.2f, 0.1f, 0.01f } };
	if (variant > 1) { /* a part of heads that lie apart */
		t.rotary_dim = 2 * variant;
		t.head_stride = 12;
		t.gain = 1.25f;
	}
	int rc = o->gelu_bwd(OPS, &g);
	if (!rc)
		rc = o->residual(OPS, &r);
	if (!rc)
		rc = o->swiglu(OPS, &w);
	if (!rc)
		rc = o->swiglu_bwd(OPS, &wb);
	if (!rc)
		rc = o->cast(OPS, &c);
	if (!rc)
		rc = o->cast_heads(OPS, &h);
	if (rc)
		return rc;
	return o->rotary(OPS, &t);
}

static int updates(const struct side *s, int32_t dtype, int variant)
{
	const struct zr_ops *o = s->d.ops;
	const struct zr_scalars *scalars = at(s, 0);
	struct zr_op_fold f = { .size = sizeof f,
				.flags = variant ? ZR_OP_ACCUMULATE : 0,
				.comm_dtype = dtype,
				.n = N,
				.g = f32(s, 1),
				.acc = f32(s, 2),
				.sumsq = at(s, 3),
				.nonfinite = at(s, 4) };
	struct zr_op_adamw a = { .size = sizeof a,
				 .lowp_dtype = dtype,
				 .l2 = variant & 1,
				 .bias_correction = 1,
				 .n = N,
				 .beta1 = 0.9,
				 .beta2 = 0.99,
				 .eps = 1e-8,
				 .weight_decay = 0.1,
				 .scalars = scalars,
				 .grad = f32(s, 1),
				 .master = f32(s, 5),
				 .m = at(s, 6),
				 .v = at(s, 7),
				 .lowp = at(s, 8) };
	struct zr_op_sgd g = { .size = sizeof g,
			       .lowp_dtype = dtype,
			       .nesterov = 1,
			       .n = N,
			       .momentum = 0.9,
			       .weight_decay = 0.1,
			       .scalars = scalars,
			       .grad = f32(s, 1),
			       .master = f32(s, 5),
			       .buf = f32(s, 6),
			       .lowp = at(s, 8) };
	struct zr_op_lion l = { .size = sizeof l,
				.lowp_dtype = dtype,
				.n = N,
				.beta1 = 0.9,
				.beta2 = 0.99,
				.weight_decay = 0.1,
				.scalars = scalars,
				.grad = f32(s, 1),
				.master = f32(s, 5),
				.m = f32(s, 6),
				.lowp = at(s, 8) };
	struct zr_op_adagrad d = { .size = sizeof d,
				   .lowp_dtype = dtype,
				   .n = N,
				   .lr_decay = 0.1,
				   .eps = 1e-10,
				   .weight_decay = 0.1,
				   .scalars = scalars,
				   .grad = f32(s, 1),
				   .master = f32(s, 5),
				   .sum = f32(s, 7),
				   .lowp = at(s, 8) };
	struct zr_op_lamb b = { .size = sizeof b,
				.lowp_dtype = dtype,
				.bias_correction = 1,
				.n = N,
				.beta1 = 0.9,
				.beta2 = 0.99,
				.eps = 1e-8,
				.weight_decay = 0.1,
				.max_coeff = 10,
				.scalars = scalars,
				.grad = f32(s, 1),
				.master = f32(s, 5),
				.m = f32(s, 6),
				.v = f32(s, 7),
				.lowp = at(s, 8),
				.block_norms = at(s, 9),
				.norms = at(s, 9) };
	struct zr_op_muon u = { .size = sizeof u,
				.lowp_dtype = dtype,
				.nesterov = 1,
				.n = N,
				.momentum = 0.9,
				.weight_decay = 0.1,
				.eps = 1e-7,
				.ratio = 2,
				.scalars = scalars,
				.grad = f32(s, 1),
				.master = f32(s, 5),
				.buf = f32(s, 6),
				.x = f32(s, 10),
				.sumsq = at(s, 11),
				.lowp = at(s, 8) };
	struct zr_op_init i = { .size = sizeof i,
				.n = N,
				.first = 12345,
				.mean = 1,
				.std = 2,
				.rng = { 9, 10, 11, 12 },
				.dst = f32(s, 12) };
	struct zr_op_master m = {
		.size = sizeof m, .n = N, .master = f32(s, 5), .lowp = at(s, 13), .rem = at(s, 14)
	};
	struct zr_op_round_stochastic q = { .size = sizeof q,
					    .n = N,
					    .first = 77,
					    .rng = { 9, 10, 11, 12 },
					    .src = f32(s, 5),
					    .dst = at(s, 15) };
	int rc = o->fold(OPS, &f);
	if (!rc)
		rc = o->adamw(OPS, &a);
	if (!rc)
		rc = o->sgd(OPS, &g);
	if (!rc)
		rc = o->lion(OPS, &l);
	if (!rc)
		rc = o->adagrad(OPS, &d);
	if (!rc)
		rc = o->lamb_norms(OPS, &b);
	if (!rc)
		rc = o->lamb(OPS, &b);
	if (!rc)
		rc = o->muon_momentum(OPS, &u);
	if (!rc)
		rc = o->muon_normalize(OPS, &u);
	if (!rc)
		rc = o->muon_update(OPS, &u);
	if (!rc)
		rc = o->init(OPS, &i);
	a.master = l.master = NULL;
	a.lowp = l.lowp = m.lowp;
	a.rem = l.rem = m.rem;
	if (!rc)
		rc = o->master_split(OPS, &m);
	if (!rc)
		rc = o->adamw(OPS, &a);
	if (!rc)
		rc = o->master_join(OPS, &m);
	m.rem_bits = l.rem_bits = 8;
	if (!rc)
		rc = o->master_split(OPS, &m);
	if (!rc)
		rc = o->lion(OPS, &l);
	if (!rc)
		rc = o->master_join(OPS, &m);
	if (rc)
		return rc;
	return o->round_stochastic(OPS, &q);
}

/* Between all types, of numbers of every size: subnormal, past the range, rounded. */
static int casts(const struct side *s, int32_t dtype, int variant)
{
	int rc = ZR_OK;
	(void)variant;
	for (int i = 0; !rc && i < 3; i++) {
		struct zr_op_cast c = { .size = sizeof c,
					.n = N,
					.src = zr_array_at(dtype, at(s, 0)),
					.dst = zr_array_at(dtypes[i], at(s, 1 + i)) };
		rc = s->d.ops->cast(OPS, &c);
	}
	return rc;
}

/* AdamW with moments in bf16, heads that are scaled, and Muon's factor of 64 x 64. */
static int other_updates(const struct side *s, int32_t dtype, int variant)
{
	struct zr_op_adamw a = { .size = sizeof a,
				 .lowp_dtype = dtype,
				 .l2 = variant & 1,
				 .bias_correction = 1,
				 .n = N,
				 .beta1 = 0.9,
				 .beta2 = 0.99,
				 .eps = 1e-8,
				 .weight_decay = 0.1,
				 .scalars = at(s, 0),
				 .grad = f32(s, 1),
				 .master = f32(s, 2),
				 .m = at(s, 3),
				 .v = at(s, 4),
				 .lowp = at(s, 5),
				 .moment_dtype = ZR_BF16 };
	struct zr_op_muon_factor f = { .size = sizeof f,
				       .n = 64,
				       .a = 3.4445f,
				       .b = -4.7750f,
				       .c = 2.0315f,
				       .gram = f32(s, 6),
				       .square = f32(s, 7) };
	struct zr_op_scale_heads h = { .size = sizeof h,
				       .flags = variant ? ZR_SCALE_COLUMNS : 0,
				       .n = N,
				       .first = 100,
				       .width = 48,
				       .begin = 4,
				       .apart = 10,
				       .lines = 7,
				       .heads = 4,
				       .factor = f32(s, 6),
				       .x = f32(s, 2) };
	int rc = s->d.ops->adamw(OPS, &a);
	if (!rc)
		rc = s->d.ops->scale_heads(OPS, &h);
	if (rc)
		return rc;
	return s->d.ops->muon_factor(OPS, &f);
}

static void other_operands(int32_t dtype, const struct zr_scalars *scalars, int off)
{
	static const int32_t type[] = {
		ZR_F32, ZR_F32, ZR_F32, ZR_BF16, ZR_BF16, 0, ZR_F32, ZR_F32
	};
	operand(sizeof *scalars / 4, ZR_F32, 0, 0, 0);
	memcpy(start + operands[0].at, scalars, sizeof *scalars);
	for (int i = 1; i < 8; i++)
		operand(i < 6 ? N : 64 * 64, type[i] ? type[i] : dtype, 1, off * (i & 1), 0);
	for (int64_t i = 0; i < N; i++)
		put(start + operands[4].at, ZR_BF16, i, fabs(rnd(&seed)));
}

static void elements_have_the_same_bits(void **state)
{
	(void)state;
	for (int k = 0; k < 3 * 8; k++) {
		int32_t t = dtypes[k % 3];
		begin((uint64_t)k);
		for (int i = 0; i < 12; i++) {
			int32_t kept = i == 9 || (i == 11 && k / 6 % 2 == 0) ? ZR_F32 : t;
			operand(N, kept, i < 2 ? 3 : 1, (k / 3 & 1) * (i & 1), 0);
		}
		twins("elements", elements, t, k / 6);
	}
	all_agreed();
}

static const struct zr_scalars scalars = { 3, 0.5f, 1e-2f };

static void updates_have_the_same_bits(void **state)
{
	static const int32_t type[] = { ZR_F32, ZR_F32,  ZR_F32,  ZR_F64, ZR_F32, ZR_F32,
					ZR_F32, ZR_F32,  0,       ZR_F64, ZR_F32, ZR_F64,
					ZR_F32, ZR_BF16, ZR_BF16, ZR_BF16 };
	(void)state;
	for (int k = 0; k < 3 * 4; k++) {
		int32_t t = dtypes[k % 3];
		int off = k / 3 & 1;
		begin((uint64_t)k);
		operand(sizeof scalars / 4, ZR_F32, 0, 0, 0);
		memcpy(start + operands[0].at, &scalars, sizeof scalars);
		for (int i = 1; i < 16; i++)
			operand(type[i] == ZR_F64 ? 8 : N, type[i] ? type[i] : t, i == 7 ? 0 : 1,
				type[i] == ZR_F64 ? 0 : off * (i & 1), 0);
		for (int64_t i = 0; i < N; i++)
			put(start + operands[7].at, ZR_F32, i, fabs(rnd(&seed)));
		twins("updates", updates, t, k / 6);
	}
	all_agreed();
}

static void updates_of_other_kinds_have_the_same_bits(void **state)
{
	(void)state;
	for (int k = 0; k < 3 * 4; k++) {
		begin((uint64_t)k);
		other_operands(dtypes[k % 3], &scalars, k / 3 & 1);
		twins("other updates", other_updates, dtypes[k % 3], k / 6);
	}
	all_agreed();
}

static void casts_have_the_same_bits(void **state)
{
	(void)state;
	for (int k = 0; k < 3 * 2; k++) {
		int32_t t = dtypes[k % 3];
		begin((uint64_t)k);
		operand(N, t, 0, k / 3 & 1, 0);
		for (int64_t i = 0; i < N; i++)
			put(start + operands[0].at, t, i, ldexp(rnd(&seed), (int)(i % 64) - 40));
		for (int i = 0; i < 3; i++)
			operand(N, dtypes[i], 0, 0, 0);
		twins("casts", casts, t, 0);
	}
	all_agreed();
}

/* ---- columns ---- */

static int columns(const struct side *s, int32_t dtype, int variant)
{
	const struct zr_ops *o = s->d.ops;
	struct zr_op_embedding e = { .size = sizeof e,
				     .dtype = dtype,
				     .batch = 3,
				     .length = 50,
				     .width = arg[0],
				     .vocabulary = 37,
				     .positions = 52,
				     .tokens = at(s, 0),
				     .wte = at(s, 1),
				     .wpe = at(s, 2),
				     .out = at(s, 3) };
	struct zr_op_embedding_bwd eb = { .size = sizeof eb,
					  .flags = (uint32_t)variant,
					  .dtype = dtype,
					  .batch = 3,
					  .length = 50,
					  .width = arg[0],
					  .vocabulary = 37,
					  .positions = 52,
					  .tokens = at(s, 0),
					  .dout = at(s, 3),
					  .dwte = f32(s, 4),
					  .dwpe = f32(s, 5) };
	struct zr_op_bias_bwd b = { .size = sizeof b,
				    .flags = (uint32_t)variant & 1,
				    .dtype = dtype,
				    .rows = 150,
				    .width = arg[0],
				    .dy = at(s, 3),
				    .db = f32(s, 6) };
	int rc = o->embedding(OPS, &e);
	if (!rc)
		rc = o->embedding_bwd(OPS, &eb);
	if (rc)
		return rc;
	return o->bias_bwd(OPS, &b);
}

static void columns_have_the_same_bits(void **state)
{
	(void)state;
	for (int k = 0; k < 3 * 4; k++) {
		int32_t t = dtypes[k % 3], c = k & 1 ? 768 : 71;
		arg[0] = c;
		begin((uint64_t)k);
		operand(150, ZR_F32, 1, 0, 0);
		for (int32_t i = 0; i < 150; i++)
			((int32_t *)(void *)(start + operands[0].at))[i] = i % 3 ? i * 5 % 37 : 4;
		operand(37 * c, t, 1, k & 1, 0);
		operand(52 * c, t, 1, 0, 0);
		operand(150 * c, t, 0, k & 1, 0);
		operand(37 * c, ZR_F32, 1, 0, 0);
		operand(52 * c, ZR_F32, 1, 1, 0);
		operand(c, ZR_F32, 1, 1, 0);
		twins("columns", columns, t, k / 3);
	}
	all_agreed();
}

#define TEST(f) cmocka_unit_test_setup(f, clear_differences)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { TEST(elements_have_the_same_bits),
					    TEST(updates_have_the_same_bits),
					    TEST(updates_of_other_kinds_have_the_same_bits),
					    TEST(casts_have_the_same_bits),
					    TEST(columns_have_the_same_bits),
					    TEST(experts_are_close),
					    TEST(norms_of_layers_are_close),
					    TEST(norms_of_squares_are_close),
					    TEST(matrix_products_are_close),
					    TEST(low_rank_updates_are_close),
					    TEST(heads_are_close),
					    TEST(attentions_of_any_width_are_close),
					    TEST(attentions_of_any_width_backward_are_close),
					    TEST(attentions_in_16_bits_are_close),
					    TEST(attentions_in_16_bits_backward_are_close) };
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, open_both, close_both);
}
