/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_kernels.c - the CUDA kernels, run by the host (cuda_emulated.h), against the scalar
 * kernels: bits where the header promises bits, else closeness. Odd lengths, operands off their
 * alignment, poisoned results, guards around all.
 */
#include "tests/lib/testdevice.h"

#include <kernels_cuda.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* ---- twins ---- */

#define MOST 10

/* An operand of type `dtype` (0: that of the case). ZR_U8: moments in 8 bits, zeros. */
struct operand {
	int32_t dtype;
	int positive;
	double scale; /* 0: poison, the operation writes all of it */
};

static const struct zr_scalars scalars[] = { { 3, 0.5f, 1e-2f }, { 1, 1, 1e-3f } };
static int trial;   /* which of them, and other choices that a case makes */
static int aligned; /* all operands, else every other */

typedef void run_fn(struct buf *b, int64_t n, int32_t dtype, int device);

static struct buf draw(const struct operand *o, int64_t n, int32_t dtype, int off, uint64_t seed)
{
	int64_t bytes = (n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_MOMENT8_BYTES;
	if (o->dtype == ZR_U8) {
		struct buf zero = buf_new(bytes / 4, ZR_F32, off);
		memset(zero.p, 0, (size_t)bytes);
		return zero;
	}
	struct buf b = buf_new(n, o->dtype ? o->dtype : dtype, off);
	for (int64_t i = 0; o->scale != 0 && i < n; i++) {
		double x = rnd(&seed) * o->scale;
		put(b.p, b.dtype, i, o->positive ? fabs(x) : x);
	}
	return b;
}

static void compare(const char *what, const struct buf *a, const struct buf *b, int which,
		    int64_t n)
{
	if (!buf_guarded(b))
		fail_msg("%s of %lld: operand %d was written outside", what, (long long)n, which);
	for (int64_t i = 0; i < a->n; i++)
		if (memcmp(a->p + (size_t)i * width_of(a->dtype),
			   b->p + (size_t)i * width_of(a->dtype), width_of(a->dtype)))
			fail_msg("%s of %lld, type %d, trial %d: element %lld of operand %d is %a, "
				 "should be %a",
				 what, (long long)n, a->dtype, trial, (long long)i, which,
				 a->dtype == ZR_F64 ? 0 : get(b->p, b->dtype, i),
				 a->dtype == ZR_F64 ? 0 : get(a->p, a->dtype, i));
}

/* run on the same operands by either; all of them have the same bits after it. */
static void same_bits_of(const char *what, run_fn *run, const struct operand *o, int count,
			 int64_t n, int32_t dtype)
{
	struct buf a[MOST], b[MOST];
	for (int i = 0; i < count; i++) {
		a[i] = draw(&o[i], n, dtype, 0, (uint64_t)(n * 100 + i));
		b[i] = draw(&o[i], n, dtype, !aligned && (trial + i) & 1, (uint64_t)(n * 100 + i));
	}
	run(a, n, dtype, 0);
	run(b, n, dtype, 1);
	for (int i = 0; i < count; i++) {
		compare(what, &a[i], &b[i], i, n);
		buf_free(&a[i]);
		buf_free(&b[i]);
	}
}

static void same_bits(const char *what, run_fn *run, const struct operand *o, int count)
{
	static const int64_t sizes[] = { 1, 3, 4, 1027, 2 * ZR_BLOCK + 77 };
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (int t = 0; t < 2 * 3; t++)
			for (trial = 0; trial < 4; trial++) {
				aligned = t < 3;
				same_bits_of(what, run, o, count, sizes[s], dtypes[t % 3]);
			}
}

/* So many that threads of every kernel go round more than once. */
#define MANY 258

/* An elementwise operation of the scalar kernels, or of the device. */
#define BY(name, op, n)                                                                            \
	(device ? assert_int_equal(zr_cuda_##name(&op, NULL), cudaSuccess) :                       \
		  zr_cpu_scalar.name(&op, 0, n))
static int64_t blocks_of(int64_t n)
{
	return (n + ZR_BLOCK - 1) / ZR_BLOCK;
}

/* ---- elements ---- */

static void run_gelu_bwd(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_gelu_bwd op = { .size = sizeof op,
				     .dtype = dtype,
				     .n = n,
				     .dy = b[0].p,
				     .pre = b[1].p,
				     .dx = b[2].p,
				     .activation = trial & 2 ? ZR_ACT_GELU_ERF : 0,
				     .act = trial & 1 ? b[3].p : NULL };
	BY(gelu_bwd, op, n);
}

/* Three columns of rows of five. */
static void run_gelu(struct buf *b, int64_t n, int32_t dtype, int device)
{
	char *from = b[0].p, *to = trial & 1 ? from : b[1].p, dx[12];
	const struct zr_cuda_gelu_args gelu = {
		.rows = n / 5,
		.width = 3,
		.ld = 5,
		.dtype = dtype,
		.from = from,
		.to = to,
		.activation = trial & 2 ? ZR_ACT_GELU_ERF : ZR_ACT_GELU_TANH,
	};
	if (device)
		assert_int_equal(zr_cuda_gelu(&gelu, NULL), cudaSuccess);
	for (int64_t i = 0; !device && i + 5 <= n; i += 5) {
		char *at = from + (size_t)i * width_of(dtype);
		struct zr_op_gelu_bwd op = { .size = sizeof op,
					     .dtype = dtype,
					     .activation = gelu.activation,
					     .n = 3,
					     .dy = at,
					     .pre = at,
					     .dx = dx,
					     .act = to + (size_t)i * width_of(dtype) };
		zr_cpu_scalar.gelu_bwd(&op, 0, 3);
	}
}

static void run_swiglu(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = dtype,
				   .n = n,
				   .gate = b[0].p,
				   .up = b[1].p,
				   .out = b[2].p };
	struct zr_op_swiglu_bwd back = { .size = sizeof back,
					 .dtype = dtype,
					 .n = n,
					 .dy = b[3].p,
					 .gate = b[0].p,
					 .up = b[1].p,
					 .dgate = b[4].p,
					 .dup = trial & 2 ? b[1].p : b[5].p,
					 .act = trial & 1 ? b[6].p : NULL };
	op.activation = back.activation = trial;
	BY(swiglu, op, n);
	BY(swiglu_bwd, back, n);
}

/* Rows of 6 or of 8, 12 apart. */
static void run_glu_in_rows(struct buf *b, int64_t n, int32_t dtype, int device)
{
	int64_t width = trial & 1 ? 8 : 6, all = n / 12 * width;
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = dtype,
				   .activation = 3 - trial,
				   .n = all,
				   .gate = b[0].p,
				   .up = b[1].p,
				   .out = b[2].p,
				   .width = width,
				   .stride = 12 };
	struct zr_op_swiglu_bwd back = { .size = sizeof back,
					 .dtype = dtype,
					 .activation = 3 - trial,
					 .n = all,
					 .dy = b[3].p,
					 .gate = b[0].p,
					 .up = b[1].p,
					 .dgate = b[4].p,
					 .dup = trial & 2 ? b[1].p : b[5].p,
					 .width = width,
					 .stride = 12 };
	if (trial & 1)
		back.act = trial & 2 ? b[3].p : b[6].p;
	BY(swiglu, op, all);
	BY(swiglu_bwd, back, all);
}

static void run_logit_cap(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_logit_cap op = { .size = sizeof op,
				      .n = n,
				      .gain = trial & 1 ? 1.3f : 0,
				      .softcap = trial & 2 ? 0.8f : 0,
				      .x = (float *)(void *)b[0].p };
	(void)dtype;
	BY(logit_cap, op, n);
}

static void run_rotary(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_rotary op = { .size = sizeof op,
				   .flags = trial & 1 ? ZR_ROTARY_BACK : 0,
				   .dtype = dtype,
				   .batch = 2,
				   .length = n / 280,
				   .heads = 11,
				   .head_dim = 10,
				   .stride = 135,
				   .x = b[0].p,
				   .out = trial & 2 ? b[0].p : b[2].p };
	int32_t *position = calloc((size_t)(op.batch * op.length) + 1, sizeof *position);
	for (int64_t r = 0; r < op.batch * op.length; r++)
		position[r] = (int32_t)(r * 5 % 11);
	op.position = dtype == ZR_BF16 ? position : NULL;
	for (int i = 0; i < 5; i++)
		op.frequency[i] = 1.0f / (float)(1 + i * i);
	BY(rotary, op, op.batch * op.length);
	op.out = b[2].p; /* of heads that lie apart a part */
	op.rotary_dim = trial & 1 ? 6 : 0;
	op.head_stride = 12;
	op.gain = 0.7f;
	BY(rotary, op, op.batch * op.length);
	free(position);
}

static void run_residual(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = dtype,
				     .dropout = trial & 1 ? 0.3f : 0,
				     .n = n,
				     .rng = { 5, 6, 7, 8 },
				     .a = trial & 2 ? b[0].p : NULL,
				     .b = b[1].p,
				     .out = b[2].p,
				     .gain = trial & 2 ? 1.7f : 0,
				     .first = trial == 3 ? (1ll << 34) + n : 0 };
	BY(residual, op, n);
}

static void run_cast(struct buf *b, int64_t n, int32_t dtype, int device)
{
	static const int32_t to[] = { ZR_F32, ZR_BF16, ZR_F16, ZR_F32 };
	struct zr_op_cast op = { .size = sizeof op,
				 .n = n,
				 .src = zr_array_at(dtype, b[0].p),
				 .dst = zr_array_at(to[trial], b[to[trial] == ZR_F32 ? 1 : 2].p) };
	BY(cast, op, n);
}

/* Whole blocks into types of blocks, and out of them. */
static void run_codes(struct buf *b, int64_t n, int32_t dtype, int device)
{
	int32_t type = trial & 1 ? ZR_NF4 : ZR_INT8;
	int64_t blocks = n / ZR_BLOCK;
	struct zr_op_cast in = { .size = sizeof in,
				 .n = blocks * ZR_BLOCK,
				 .src = zr_array_at(ZR_F32, b[0].p),
				 .dst = zr_array_at(type, b[1].p) };
	struct zr_op_cast out = { .size = sizeof out,
				  .n = blocks * ZR_BLOCK,
				  .src = zr_array_at(type, b[1].p),
				  .dst = zr_array_at(dtype, b[2].p) };
	BY(encode, in, blocks);
	BY(decode, out, blocks);
}

/* Any number of elements into MXINT8, from where they are decoded, and added twice. */
static void run_mx(struct buf *b, int64_t n, int32_t dtype, int device)
{
	const size_t bytes = (size_t)blocks_of(n) * 2112, shown = (size_t)n * 4;
	char *codes = aligned_alloc(64, bytes);
	struct zr_op_cast in = { .size = sizeof in,
				 .n = n,
				 .src = zr_array_at(dtype, b[0].p),
				 .dst = zr_array_at(ZR_MXINT8, codes) };
	struct zr_op_cast out = { .size = sizeof out,
				  .n = n,
				  .src = zr_array_at(ZR_MXINT8, codes),
				  .dst = zr_array_at(dtype, b[1].p) };
	struct zr_op_fold fold = { .size = sizeof fold,
				   .comm_dtype = ZR_F32,
				   .n = n,
				   .g = (const float *)(const void *)codes,
				   .acc = (float *)(void *)b[2].p,
				   .number = 2,
				   .from = ZR_MXINT8 };
	if (trial & 1)
		put(b[0].p, dtype, n / 2, INFINITY);
	if (trial & 2)
		put(b[0].p, dtype, 0, 0x1p-126);
	BY(mx_encode, in, blocks_of(n));
	BY(mx_decode, out, blocks_of(n));
	BY(fold, fold, blocks_of(n));
	memcpy(b[3].p, codes, bytes < shown ? bytes : shown);
	for (size_t at = shown; at < bytes && n > 1; at++) /* the rest, folded */
		b[3].p[at % shown] ^= codes[at];
	free(codes);
}

static void run_init(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_init op = { .size = sizeof op,
				 .n = n,
				 .first = trial ? 12345 : (1ll << 33) + 2,
				 .mean = 1,
				 .std = trial == 2 ? 0 : 2,
				 .rng = { 9, 10, 11, 12 },
				 .dst = (float *)(void *)b[0].p,
				 .flags = trial == 1 ? ZR_INIT_OP_UNIFORM : 0 };
	(void)dtype;
	BY(init, op, n);
}

static void run_master(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_master op = { .size = sizeof op,
				   .n = n,
				   .master = (float *)(void *)b[0].p,
				   .lowp = (uint16_t *)(void *)b[1].p,
				   .rem = b[2].p,
				   .rem_bits = trial & 1 ? 8 : 16 };
	(void)dtype;
	BY(master_split, op, n);
	op.master = (float *)(void *)b[3].p;
	BY(master_join, op, n);
}

static void run_round_stochastic(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_round_stochastic op = { .size = sizeof op,
					     .n = n,
					     .first = 4096 + trial,
					     .rng = { 9, 10, 11, 12 },
					     .src = (float *)(void *)b[0].p,
					     .dst = (uint16_t *)(void *)b[1].p };
	(void)dtype;
	BY(round_stochastic, op, n);
}

static void run_muon_factor(struct buf *b, int64_t n, int32_t dtype, int device)
{
	int64_t side = (int64_t)sqrt((double)n);
	struct zr_op_muon_factor op = { .size = sizeof op,
					.n = side,
					.a = 3,
					.b = -4,
					.c = 2,
					.gram = (float *)(void *)b[0].p,
					.square = (float *)(void *)b[1].p };
	(void)dtype;
	BY(muon_factor, op, side);
}

/* Heads of 5 lines, 7 apart, from line 3 on; the last one is cut off by the rows. */
static void run_scale_heads(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_scale_heads op = { .size = sizeof op,
					.flags = trial & 1 ? ZR_SCALE_COLUMNS : 0,
					.n = n,
					.first = 11 * trial,
					.width = 29,
					.begin = 3,
					.apart = 7,
					.lines = 5,
					.heads = n < 4 ? n : 4,
					.factor = (float *)(void *)b[1].p,
					.x = (float *)(void *)b[0].p };
	(void)dtype;
	BY(scale_heads, op, n);
}

/* Rows of three heads become heads of rows, or rows with gaps; of heads of whole fours or not. */
static void run_cast_heads(struct buf *b, int64_t n, int32_t dtype, int device)
{
	const int64_t dim = trial & 1 ? 7 : 8, rows = n / (3 * dim + 4);
	struct zr_op_cast_heads op = { .size = sizeof op,
				       .rows = rows,
				       .heads = 3,
				       .head_dim = dim,
				       .src_stride = 3 * dim + 4,
				       .src_head = dim,
				       .dst_stride = dim,
				       .dst_head = rows * dim,
				       .src = zr_array_at(dtype, b[0].p),
				       .dst = zr_array_at(b[1 + trial % 3].dtype,
							  b[1 + trial % 3].p) };
	if (trial & 2) {
		op.dst_stride = op.src_stride;
		op.dst_head = dim + 1 - dim % 2;
	}
	BY(cast_heads, op, rows);
}

static void elements_have_the_bits_of_the_scalar_kernels(void **state)
{
	static const struct operand four[] = { { 0, 0, 4 }, { 0, 0, 4 }, { 0, 0, 0 }, { 0, 0, 0 } };
	static const struct operand seven[] = { { 0, 0, 9 }, { 0, 0, 4 }, { 0, 0, 0 }, { 0, 0, 2 },
						{ 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } };
	static const struct operand casts[] = { { 0, 0, 9 }, { ZR_F32, 0, 0 }, { ZR_F16, 0, 0 } };
	static const struct operand codes[] = { { ZR_F32, 0, 9 }, { ZR_F32, 0, 0 }, { 0, 0, 0 } };
	static const struct operand mx[] = {
		{ 0, 0, 9 }, { 0, 0, 0 }, { ZR_F32, 0, 0 }, { ZR_F32, 0, 0 }
	};
	static const struct operand wide[] = {
		{ ZR_F32, 0, 1 }, { ZR_BF16, 0, 0 }, { ZR_BF16, 0, 0 }, { ZR_F32, 0, 0 }
	};
	static const struct operand two[] = { { ZR_F32, 0, 1 }, { ZR_F32, 0, 1 } };
	static const struct operand pair[] = { { 0, 0, 4 }, { 0, 0, 1 } };
	static const struct operand heads[] = {
		{ 0, 0, 9 }, { ZR_F32, 0, 0 }, { ZR_BF16, 0, 0 }, { ZR_F16, 0, 0 }
	};
	(void)state;
	same_bits("gelu_bwd", run_gelu_bwd, four, 4);
	same_bits("swiglu", run_swiglu, seven, 7);
	same_bits("glu in rows", run_glu_in_rows, seven, 7);
	same_bits("rotary", run_rotary, four, 3);
	same_bits("residual", run_residual, four, 3);
	same_bits("cast", run_cast, casts, 3);
	same_bits("codes", run_codes, codes, 3);
	same_bits("mx", run_mx, mx, 4);
	same_bits("init", run_init, wide, 1);
	same_bits("master", run_master, wide, 4);
	same_bits("round_stochastic", run_round_stochastic, wide, 2);
	same_bits("muon_factor", run_muon_factor, two, 2);
	same_bits("gelu", run_gelu, pair, 2);
	same_bits("logit_cap", run_logit_cap, two, 1);
	same_bits("scale_heads", run_scale_heads, two, 2);
	same_bits("cast_heads", run_cast_heads, heads, 4);
}

/* Every number of 16 bits, and so infinities and all limits of formulas. */
static void activations_of_every_number_have_the_bits_of_the_scalar_kernels(void **state)
{
	enum { N = 65536 };
	static uint16_t pre[N], one[N], got[2][5][N];
	(void)state;
	for (int i = 0; i < 6; i++) {
		const int32_t dtype = i % 2 ? ZR_BF16 : ZR_F16, activation = 1 + i / 2;
		for (int k = 0; k < N; k++) {
			pre[k] = (uint16_t)k;
			put(one, dtype, k, 1);
		}
		for (int device = 0; device < 2; device++) {
			void *dx = got[device][0], *act = got[device][1];
			struct zr_op_gelu_bwd op = { .size = sizeof op,
						     .dtype = dtype,
						     .n = N,
						     .activation = activation,
						     .dy = one,
						     .pre = pre,
						     .dx = dx,
						     .act = act };
			struct zr_op_swiglu glu = { .size = sizeof glu,
						    .dtype = dtype,
						    .n = N,
						    .activation = activation,
						    .gate = pre,
						    .up = one,
						    .out = got[device][2] };
			struct zr_op_swiglu_bwd back = { .size = sizeof back,
							 .dtype = dtype,
							 .activation = activation,
							 .n = N,
							 .dy = one,
							 .gate = pre,
							 .up = one,
							 .dgate = got[device][3],
							 .dup = got[device][4] };
			BY(gelu_bwd, op, N);
			BY(swiglu, glu, N);
			BY(swiglu_bwd, back, N);
		}
		for (int k = 0; k < 5 * N; k++) {
			const double a = get(got[0], dtype, k), b = get(got[1], dtype, k);
			if (memcmp(got[0][0] + k, got[1][0] + k, 2) && !(isnan(a) && isnan(b)))
				fail_msg("type %d, activation %d: result %d of %a is %a, should "
					 "be %a",
					 dtype, activation, k / N, get(pre, dtype, k % N), b, a);
		}
	}
}

/* ---- updates ---- */

#define F(i) ((float *)(void *)b[i].p)

static void run_adamw(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_adamw op = { .size = sizeof op,
				  .lowp_dtype = dtype,
				  .l2 = trial == 1,
				  .bias_correction = trial != 2,
				  .n = n,
				  .beta1 = 0.9,
				  .beta2 = 0.99,
				  .eps = 1e-8,
				  .weight_decay = 0.1,
				  .scalars = &scalars[trial & 1],
				  .grad = F(0),
				  .master = F(1),
				  .m = F(2),
				  .v = F(3),
				  .lowp = trial == 3 ? NULL : b[6].p };
	BY(adamw, op, n);
	op.m = b[4].p;
	op.v = b[5].p;
	op.moment_dtype = ZR_BF16;
	BY(adamw, op, n);
	op.m = b[7].p;
	op.v = b[8].p;
	op.moment_dtype = ZR_U8;
	BY(adamw, op, n);
	for (int64_t i = 0; i < n; i++) /* again, with groups of zeros and of large numbers */
		F(0)[i] *= i % 96 < 32 ? 0 : i % 96 < 64 ? 1e7f : 1;
	BY(adamw, op, n);
}

static void run_sgd(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_sgd op = { .size = sizeof op,
				.lowp_dtype = dtype,
				.nesterov = trial == 1,
				.n = n,
				.momentum = 0.9,
				.dampening = 0.1,
				.weight_decay = 0.1,
				.scalars = &scalars[trial & 1],
				.grad = F(0),
				.master = F(1),
				.buf = trial == 2 ? NULL : F(2),
				.lowp = b[6].p };
	BY(sgd, op, n);
}

static void run_lion(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_lion op = { .size = sizeof op,
				 .lowp_dtype = dtype,
				 .n = n,
				 .beta1 = 0.9,
				 .beta2 = 0.99,
				 .weight_decay = 0.1,
				 .scalars = &scalars[trial & 1],
				 .grad = F(0),
				 .master = F(1),
				 .m = F(2),
				 .lowp = b[6].p };
	BY(lion, op, n);
	op.m = b[7].p;
	op.moment_dtype = ZR_U8;
	BY(lion, op, n);
	BY(lion, op, n);
}

static void run_adagrad(struct buf *b, int64_t n, int32_t dtype, int device)
{
	struct zr_op_adagrad op = { .size = sizeof op,
				    .lowp_dtype = dtype,
				    .n = n,
				    .lr_decay = 0.1,
				    .eps = 1e-10,
				    .weight_decay = 0.1,
				    .scalars = &scalars[trial & 1],
				    .grad = F(0),
				    .master = F(1),
				    .sum = F(3),
				    .lowp = b[6].p };
	BY(adagrad, op, n);
}

static void run_lamb(struct buf *b, int64_t n, int32_t dtype, int device)
{
	double norms[3 * 2];
	struct zr_op_lamb op = { .size = sizeof op,
				 .lowp_dtype = dtype,
				 .bias_correction = trial != 2,
				 .n = n,
				 .beta1 = 0.9,
				 .beta2 = 0.99,
				 .eps = 1e-8,
				 .weight_decay = 0.1,
				 .max_coeff = 10,
				 .scalars = &scalars[trial & 1],
				 .grad = F(0),
				 .master = F(1),
				 .m = F(2),
				 .v = F(3),
				 .lowp = b[6].p,
				 .block_norms = norms,
				 .norms = norms };
	BY(lamb_norms, op, blocks_of(n));
	memcpy(b[7].p, norms, 8); /* a sum differs in its bits where the order did */
	memcpy(b[8].p, norms + 2 * blocks_of(n) - 1, 8);
	BY(lamb, op, n);
}

static void run_muon(struct buf *b, int64_t n, int32_t dtype, int device)
{
	double sumsq[MANY], sum = 0;
	struct zr_op_muon op = { .size = sizeof op,
				 .lowp_dtype = dtype,
				 .nesterov = trial & 1,
				 .n = n,
				 .momentum = 0.9,
				 .weight_decay = 0.1,
				 .eps = 1e-7,
				 .ratio = 2,
				 .scalars = &scalars[trial & 1],
				 .grad = F(0),
				 .master = F(1),
				 .buf = F(2),
				 .x = F(3),
				 .sumsq = sumsq,
				 .lowp = b[6].p };
	BY(muon_momentum, op, blocks_of(n));
	for (int64_t i = 0; i < blocks_of(n); i++)
		sum += sumsq[i];
	memcpy(b[7].p, &sum, 8);
	if (device)
		assert_int_equal(zr_cuda_muon_normalize(&op, NULL), cudaSuccess);
	else
		zr_cpu_scalar.muon_normalize(
			&op, (float)(1 / (sqrt(sum) > op.eps ? sqrt(sum) : op.eps)), 0, n);
	BY(muon_update, op, n);
}

static void updates_have_the_bits_of_the_scalar_kernels(void **state)
{
	static const struct operand o[] = { { ZR_F32, 0, 1 }, { ZR_F32, 0, 1 },  { ZR_F32, 0, 1 },
					    { ZR_F32, 1, 1 }, { ZR_BF16, 0, 1 }, { ZR_BF16, 1, 1 },
					    { 0, 0, 0 } };
	static const struct operand sums[] = { { ZR_F32, 0, 1 },  { ZR_F32, 0, 1 },
					       { ZR_F32, 0, 1 },  { ZR_F32, 1, 1 },
					       { ZR_BF16, 0, 1 }, { ZR_BF16, 1, 1 },
					       { 0, 0, 0 },       { ZR_F64, 0, 0 },
					       { ZR_F64, 0, 0 } };
	static const struct operand in_8_bits[] = { { ZR_F32, 0, 1 },  { ZR_F32, 0, 1 },
						    { ZR_F32, 0, 1 },  { ZR_F32, 1, 1 },
						    { ZR_BF16, 0, 1 }, { ZR_BF16, 1, 1 },
						    { 0, 0, 0 },       { ZR_U8, 0, 0 },
						    { ZR_U8, 0, 0 } };
	(void)state;
	same_bits("adamw", run_adamw, in_8_bits, 9);
	same_bits("sgd", run_sgd, o, 7);
	same_bits("lion", run_lion, in_8_bits, 8);
	same_bits("adagrad", run_adagrad, o, 7);
	same_bits("lamb", run_lamb, sums, 9);
	same_bits("muon", run_muon, sums, 8);
	trial = 0;
	same_bits_of("muon", run_muon, sums, 8, MANY * ZR_BLOCK - 5, ZR_BF16);
}

/* ---- fold ---- */

static void run_fold(struct buf *b, int64_t n, int32_t dtype, int device)
{
	double sumsq[MANY] = { 0 };
	uint32_t bad[MANY] = { 0 };
	struct zr_op_fold op = { .size = sizeof op,
				 .flags = trial & 1 ? ZR_OP_ACCUMULATE : 0,
				 .comm_dtype = dtype,
				 .n = n,
				 .g = F(0),
				 .acc = F(1),
				 .sumsq = trial & 2 ? sumsq : NULL,
				 .nonfinite = bad };
	F(0)[n / 2] = trial == 3 ? INFINITY : -0.0f;
	BY(fold, op, blocks_of(n));
	memcpy(b[2].p, sumsq, 8);
	b[3].p[0] = (char)(bad[0] + 16 * bad[1] + 32 * bad[2] + 64 * bad[blocks_of(n) / 2]);
}

/* Trials: each contribution for itself; trees; a part of a tree after others, at its last turn and
 * before it. */
static void run_fold_many(struct buf *b, int64_t n, int32_t dtype, int device)
{
	static const int32_t group[] = { 1, 2, 16, 16 }, turn[] = { 0, 0, 3, 1 };
	double sumsq[MANY] = { 0 };
	uint32_t bad[MANY] = { 0 };
	const char *leaves[4];
	struct zr_op_fold op = { .size = sizeof op,
				 .flags = trial & 1 ? ZR_OP_ACCUMULATE : 0,
				 .comm_dtype = dtype,
				 .n = n,
				 .acc = F(4),
				 .sumsq = trial < 3 ? sumsq : NULL,
				 .nonfinite = bad,
				 .number = 4,
				 .from = b[0].dtype,
				 .apart = n * (int64_t)width_of(b[0].dtype),
				 .group = group[trial],
				 .turn = turn[trial],
				 .waiting = F(5),
				 .waiting_apart = 0 };
	char *together = malloc((size_t)(4 * op.apart));
	for (int k = 0; k < 4; k++)
		leaves[k] = memcpy(together + k * op.apart, b[k].p, (size_t)op.apart);
	op.g = (const float *)(const void *)leaves[0];
	BY(fold, op, blocks_of(n));

	/* trees of two, stored in the leaves' type where the first two leaves were */
	op.flags = 0;
	op.sumsq = NULL;
	op.group = 2;
	op.turn = 0;
	op.to = op.from;
	op.to_apart = n;
	op.acc = (float *)(void *)together;
	op.g = (const float *)(const void *)(together + 2 * op.apart);
	op.number = 2;
	BY(fold, op, blocks_of(n));
	memcpy(b[0].p, together, (size_t)op.apart);
	memcpy(b[6].p, sumsq, 8);
	free(together);
}

static void folds_of_several_have_the_bits_of_the_scalar_kernel(void **state)
{
	static const struct operand o[] = { { 0, 0, 1 },     { 0, 0, 1 },      { 0, 0, 1 },
					    { 0, 0, 1 },     { ZR_F32, 0, 1 }, { ZR_F32, 0, 1 },
					    { ZR_F64, 0, 0 } };
	(void)state;
	same_bits("fold of several", run_fold_many, o, 7);
}

static void fold_has_the_bits_of_the_scalar_kernel(void **state)
{
	static const struct operand o[] = {
		{ ZR_F32, 0, 1 }, { ZR_F32, 0, 1 }, { ZR_F64, 0, 0 }, { ZR_F32, 0, 0 }
	};
	(void)state;
	same_bits("fold", run_fold, o, 4);
	trial = 3;
	same_bits_of("fold", run_fold, o, 4, MANY * ZR_BLOCK - 5, ZR_BF16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_have_the_bits_of_the_scalar_kernels),
		cmocka_unit_test(activations_of_every_number_have_the_bits_of_the_scalar_kernels),
		cmocka_unit_test(updates_have_the_bits_of_the_scalar_kernels),
		cmocka_unit_test(fold_has_the_bits_of_the_scalar_kernel),
		cmocka_unit_test(folds_of_several_have_the_bits_of_the_scalar_kernel),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
