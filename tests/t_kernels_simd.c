/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_simd.c - invariant I1 inside a kernel: no result depends on where its range was cut, in
 * any variant; and every vector variant agrees with the scalar oracle, in most operations bit for bit,
 * over odd sizes, with poisoned outputs between guards.
 */
#include "cpu/scalar.h"

#include <stdio.h>

#include "kernels_rig.h"

#define PARTS 8 /* partials of layernorm_bwd at most */

/* One operation on buffers of its own. */
struct job {
	int64_t span, grain; /* it may be cut at multiples of grain */
	union {
		struct zr_op_embedding embedding;
		struct zr_op_embedding_bwd embedding_bwd;
		struct zr_op_layernorm layernorm;
		struct zr_op_layernorm_bwd layernorm_bwd;
		struct zr_op_gelu_bwd gelu_bwd;
		struct zr_op_residual residual;
		struct zr_op_cast cast;
		struct zr_op_init init;
		struct zr_op_adamw adamw;
		struct zr_op_sgd sgd;
		struct zr_op_lion lion;
		struct zr_op_adagrad adagrad;
		struct zr_op_lamb lamb;
		struct zr_op_muon muon;
		struct zr_op_muon_factor muon_factor;
		struct zr_op_master master;
		struct zr_op_round_stochastic round_stochastic;
		struct zr_op_fold fold;
		struct zr_op_bias_bwd bias_bwd;
	} op;
	float *part;
	struct {
		void *p;
		int64_t n;
		int32_t dtype;
	} out[4];
	int outs;
};

/* Odd shapes: rows, width, and elements for what has no rows. */
static const struct shape {
	int64_t rows, width, n;
} shapes[] = { { 1, 1, 1 }, { 3, 7, 15 }, { 13, 97, 64 }, { 131, 33, 129 }, { 67, 160, 4099 }, { 5, 130, 6661 } };

#define SHAPES (int)(sizeof shapes / sizeof *shapes)

static uint64_t seed;

/* Numbers with full mantissas, so that a changed order of additions shows. */
static void *noise(int64_t n, int32_t dtype)
{
	void *p = rig_buffer(n, dtype);

	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		zr_put(p, i, dtype, (float)((double)(int32_t)(seed >> 32) * 0x1p-30));
	}
	return p;
}

/* The same for a buffer that the operation writes or, with fresh, only writes. */
static void *output(struct job *j, int64_t n, int32_t dtype, int fresh)
{
	void *p = fresh ? rig_buffer(n, dtype) : noise(n, dtype);

	j->out[j->outs].p = p;
	j->out[j->outs].n = n;
	j->out[j->outs++].dtype = dtype;
	return p;
}

static void *absolute(void *p, int64_t n, int32_t dtype)
{
	for (int64_t i = 0; i < n; i++)
		zr_put(p, i, dtype, fabsf(zr_get(p, i, dtype)));
	return p;
}

static const int32_t *draw_tokens(int64_t n, int32_t vocabulary)
{
	int32_t *t = rig_buffer(n, ZR_F32);

	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		t[i] = (int32_t)((seed >> 33) % (uint32_t)vocabulary);
	}
	return t;
}

/* ---- the operations --------------------------------------------------------------------------- */

static void make_embedding(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)variation;
	j->op.embedding = (struct zr_op_embedding){ .dtype = dtype, .batch = 2, .length = s->rows, .width = s->width,
						    .vocabulary = 5, .positions = s->rows + 1,
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
		.flags = variation ? ZR_OP_ACCUMULATE_WTE : ZR_OP_ACCUMULATE_WPE, .dtype = dtype, .batch = 2,
		.length = s->rows, .width = s->width, .vocabulary = 5, .positions = s->rows + 1,
		.tokens = draw_tokens(2 * s->rows, 5), .dout = noise(2 * s->rows * s->width, dtype),
		.dwte = output(j, 5 * s->width, ZR_F32, !variation),
		.dwpe = output(j, (s->rows + 1) * s->width, ZR_F32, variation) };
	j->span = s->width;
	j->grain = 1;
}

static void make_layernorm(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)variation;
	j->op.layernorm = (struct zr_op_layernorm){ .dtype = dtype, .rows = s->rows, .width = s->width, .eps = 1e-5f,
						    .x = noise(s->rows * s->width, dtype),
						    .gamma = noise(s->width, dtype), .beta = noise(s->width, dtype),
						    .y = output(j, s->rows * s->width, dtype, 1),
						    .mean = output(j, s->rows, ZR_F32, 1),
						    .rstd = output(j, s->rows, ZR_F32, 1) };
	j->span = s->rows;
	j->grain = 1;
}

static void make_layernorm_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)variation;
	j->op.layernorm_bwd = (struct zr_op_layernorm_bwd){ .dtype = dtype, .rows = s->rows, .width = s->width,
							    .dy = noise(s->rows * s->width, dtype),
							    .x = noise(s->rows * s->width, dtype),
							    .gamma = noise(s->width, dtype),
							    .mean = noise(s->rows, ZR_F32),
							    .rstd = absolute(noise(s->rows, ZR_F32), s->rows, ZR_F32),
							    .dx = output(j, s->rows * s->width, dtype, 0) };
	j->span = (s->rows + ZR_LN_TILE - 1) / ZR_LN_TILE;
	j->grain = 1;
	j->part = output(j, j->span * 2 * s->width, ZR_F32, 1);
}

static void make_layernorm_sum(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype;
	j->op.layernorm_bwd = (struct zr_op_layernorm_bwd){ .flags = variation ? ZR_OP_ACCUMULATE : 0, .rows = s->rows,
							    .width = s->width,
							    .dgamma = output(j, s->width, ZR_F32, !variation),
							    .dbeta = output(j, s->width, ZR_F32, !variation) };
	j->part = noise(PARTS * 2 * s->width, ZR_F32);
	j->span = s->width;
	j->grain = 1;
}

static void make_gelu_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.gelu_bwd = (struct zr_op_gelu_bwd){ .dtype = dtype, .n = s->n, .dy = noise(s->n, dtype),
						  .pre = noise(s->n, dtype), .dx = output(j, s->n, dtype, 1),
						  .act = variation ? output(j, s->n, dtype, 1) : NULL };
	for (int64_t i = 0; i < s->n; i++) /* both tails, too */
		zr_put((void *)(uintptr_t)j->op.gelu_bwd.pre, i, dtype, 6 * zr_get(j->op.gelu_bwd.pre, i, dtype));
}

static void make_residual(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.residual = (struct zr_op_residual){ .dtype = dtype, .dropout = variation < 2 ? 0.3f : 0, .n = s->n,
						  .rng = { 0x123456789abcdef0u, 77, 5, 17 },
						  .a = variation & 1 ? noise(s->n, dtype) : NULL,
						  .b = noise(s->n, dtype), .out = output(j, s->n, dtype, 1) };
}

static void make_cast(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const int32_t types[] = { ZR_F32, ZR_BF16, ZR_F16 };
	int32_t to = types[variation];

	j->op.cast = (struct zr_op_cast){ .dst_dtype = to, .src_dtype = dtype, .n = s->n, .src = noise(s->n, dtype),
					  .dst = output(j, s->n, to, 1) };
}

/* Element 2^33 takes the first block whose counter carries into its high word. */
static void make_init(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const int64_t first[] = { 0, 37, (1LL << 33) - 37, 1 };

	(void)dtype;
	j->op.init = (struct zr_op_init){ .n = s->n, .first = first[variation], .mean = 0.5,
					  .std = variation < 3 ? 0.02 : 0, .rng = { 1234, 0, 0, 3 },
					  .dst = output(j, s->n, ZR_F32, 1) };
}

static void make_adamw(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };

	int32_t moments = variation & 4 ? ZR_BF16 : ZR_F32;

	j->op.adamw = (struct zr_op_adamw){ .lowp_dtype = dtype, .l2 = variation & 1, .bias_correction = 1, .n = s->n,
					    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
					    .scalars = &scalars, .grad = noise(s->n, ZR_F32), .moment_dtype = moments,
					    .master = output(j, s->n, ZR_F32, 0), .m = output(j, s->n, moments, 0),
					    .v = absolute(output(j, s->n, moments, 0), s->n, moments),
					    .lowp = variation & 2 ? output(j, s->n, dtype, 1) : NULL };
}

static void make_sgd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars first = { 1, 0.37f, 1e-3f }, later = { 2, 0.37f, 1e-3f };

	j->op.sgd = (struct zr_op_sgd){ .lowp_dtype = dtype, .nesterov = variation & 1, .n = s->n, .momentum = 0.9,
					.dampening = 0.1, .weight_decay = 0.1,
					.scalars = variation == 3 ? &first : &later, .grad = noise(s->n, ZR_F32),
					.master = output(j, s->n, ZR_F32, 0), .lowp = output(j, s->n, dtype, 1),
					.buf = variation ? output(j, s->n, ZR_F32, variation == 3) : NULL };
}

static void make_lion(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };
	float *grad = noise(s->n, ZR_F32), *m;

	j->op.lion = (struct zr_op_lion){ .lowp_dtype = dtype, .n = s->n, .beta1 = 0.9, .beta2 = 0.95,
					  .weight_decay = 0.1, .scalars = &scalars, .grad = grad,
					  .master = output(j, s->n, ZR_F32, 0), .m = m = output(j, s->n, ZR_F32, 0),
					  .lowp = variation ? output(j, s->n, dtype, 1) : NULL };
	for (int64_t i = 0; i < s->n; i += 3) /* all three signs */
		grad[i] = m[i] = i % 2 ? -0.0f : 0;
}

static void make_adagrad(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };

	j->op.adagrad = (struct zr_op_adagrad){ .lowp_dtype = dtype, .n = s->n, .lr_decay = 0.1, .eps = 1e-10,
						.weight_decay = 0.1, .scalars = &scalars, .grad = noise(s->n, ZR_F32),
						.master = output(j, s->n, ZR_F32, 0),
						.sum = absolute(output(j, s->n, ZR_F32, 0), s->n, ZR_F32),
						.lowp = variation ? output(j, s->n, dtype, 1) : NULL };
}

static void make_lamb(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };
	static const double norms[2] = { 3, 2 };

	j->op.lamb = (struct zr_op_lamb){ .lowp_dtype = dtype, .bias_correction = 1, .n = s->n, .beta1 = 0.9,
					  .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .min_coeff = 0.01,
					  .max_coeff = 10, .scalars = &scalars, .grad = noise(s->n, ZR_F32),
					  .master = output(j, s->n, ZR_F32, 0), .m = output(j, s->n, ZR_F32, 0),
					  .v = absolute(output(j, s->n, ZR_F32, 0), s->n, ZR_F32),
					  .lowp = variation ? output(j, s->n, dtype, 1) : NULL, .norms = norms };
}

/* eps = 0 leaves 0/0 in lanes past the end */
static void make_lamb_norms(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	make_lamb(j, s, dtype, 0);
	j->op.lamb.eps = variation ? 0 : 1e-8;
	j->span = (s->n + ZR_BLOCK - 1) / ZR_BLOCK;
	j->grain = 1;
	j->op.lamb.block_norms = output(j, 2 * j->span, ZR_F64, 1);
}

static void make_muon(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };

	j->op.muon = (struct zr_op_muon){ .lowp_dtype = dtype, .n = s->n, .momentum = 0.95, .weight_decay = 0.1,
					  .eps = 1e-7, .ratio = 0.7, .scalars = &scalars,
					  .master = output(j, s->n, ZR_F32, 0), .x = output(j, s->n, ZR_F32, 0),
					  .lowp = variation ? output(j, s->n, dtype, 1) : NULL };
}

static void make_muon_momentum(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	make_muon(j, s, dtype, 0);
	j->op.muon.nesterov = (uint8_t)variation;
	j->op.muon.grad = noise(s->n, ZR_F32);
	j->op.muon.buf = output(j, s->n, ZR_F32, 0);
	j->span = (s->n + ZR_BLOCK - 1) / ZR_BLOCK;
	j->grain = 1;
	j->op.muon.sumsq = output(j, j->span, ZR_F64, 1);
}

static void make_muon_factor(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype, (void)variation;
	j->op.muon_factor = (struct zr_op_muon_factor){ .n = s->width, .a = 3.4445f, .b = -4.775f, .c = 2.0315f,
							.gram = output(j, s->width * s->width, ZR_F32, 0),
							.square = noise(s->width * s->width, ZR_F32) };
	j->span = s->width;
	j->grain = 1;
}

static void make_split(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype, (void)variation;
	j->op.master = (struct zr_op_master){ .n = s->n, .master = noise(s->n, ZR_F32),
					      .lowp = output(j, s->n, ZR_BF16, 1), .rem = output(j, s->n, ZR_BF16, 1) };
}

static void make_join(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype, (void)variation;
	j->op.master = (struct zr_op_master){ .n = s->n, .master = output(j, s->n, ZR_F32, 1),
					      .lowp = noise(s->n, ZR_BF16), .rem = noise(s->n, ZR_BF16) };
	for (int64_t i = 0; i < s->n; i++) /* all 16 bits */
		j->op.master.rem[i] = (uint16_t)(j->op.master.rem[i] * 40503);
}

/* As with init: element 2^34 takes the first block whose counter carries into its high word. */
static void make_round_stochastic(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const int64_t first[] = { 0, 37, (1LL << 34) - 37, 2 };

	(void)dtype;
	j->op.round_stochastic = (struct zr_op_round_stochastic){ .n = s->n, .first = first[variation],
								  .rng = { 1234, 5, 6, 7 },
								  .src = noise(s->n, ZR_F32),
								  .dst = output(j, s->n, ZR_BF16, 1) };
}

static void make_fold(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	int64_t blocks = (s->n + ZR_BLOCK - 1) / ZR_BLOCK;
	int add = variation & 1, measure = variation & 2;

	j->op.fold = (struct zr_op_fold){ .flags = add ? ZR_OP_ACCUMULATE : 0, .comm_dtype = dtype, .n = s->n,
					  .g = noise(s->n, ZR_F32), .acc = output(j, s->n, ZR_F32, !add),
					  .sumsq = measure ? output(j, blocks, ZR_F64, 1) : NULL,
					  .nonfinite = measure ? output(j, blocks, ZR_F32, 1) : NULL };
	j->span = blocks;
	j->grain = 1;
}

static void make_bias_bwd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	j->op.bias_bwd = (struct zr_op_bias_bwd){ .flags = variation ? ZR_OP_ACCUMULATE : 0, .dtype = dtype,
						  .rows = s->rows, .width = s->width,
						  .dy = noise(s->rows * s->width, dtype),
						  .db = output(j, s->width, ZR_F32, !variation) };
	j->span = s->width;
	j->grain = 1;
}

#define RUN(name)                                                                                          \
	static void run_##name(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)      \
	{                                                                                                  \
		k->name(&j->op.name, lo, hi);                                                              \
	}
RUN(embedding)
RUN(embedding_bwd)
RUN(layernorm)
RUN(gelu_bwd)
RUN(residual)
RUN(cast)
RUN(init)
RUN(adamw)
RUN(sgd)
RUN(lion)
RUN(adagrad)
RUN(lamb)
RUN(muon_factor)
RUN(round_stochastic)
RUN(fold)
RUN(bias_bwd)

static void run_lamb_norms(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->lamb_norms(&j->op.lamb, lo, hi);
}

static void run_muon_momentum(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->muon_momentum(&j->op.muon, lo, hi);
}

static void run_muon_normalize(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->muon_normalize(&j->op.muon, 0.37f, lo, hi);
}

static void run_muon_update(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->muon_update(&j->op.muon, lo, hi);
}

static void run_split(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->master_split(&j->op.master, lo, hi);
}

static void run_join(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->master_join(&j->op.master, lo, hi);
}

/* spans tiles: a caller may not cut them */
static void run_layernorm_bwd(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	const struct zr_op_layernorm_bwd *op = &j->op.layernorm_bwd;

	for (int64_t t = lo; t < hi; t++) {
		int64_t from = t * ZR_LN_TILE, to = from + ZR_LN_TILE < op->rows ? from + ZR_LN_TILE : op->rows;
		k->layernorm_bwd(op, from, to, j->part + t * 2 * op->width);
	}
}

static void run_layernorm_sum(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->layernorm_bwd_sum(&j->op.layernorm_bwd, j->part, PARTS, lo, hi);
}

static const struct kernel {
	const char *name;
	void (*make)(struct job *, const struct shape *, int32_t dtype, int variation);
	void (*run)(const struct zr_cpu_kernels *, struct job *, int64_t lo, int64_t hi);
	int variations;
	double tolerance; /* against the oracle, relative to 1 + |value|; 0: the same bits */
} kernels[] = {
	{ "embedding", make_embedding, run_embedding, 1, 0 },
	{ "embedding_bwd", make_embedding_bwd, run_embedding_bwd, 2, 0 },
	{ "layernorm", make_layernorm, run_layernorm, 1, 4e-6 },
	{ "layernorm_bwd", make_layernorm_bwd, run_layernorm_bwd, 1, 2e-5 },
	{ "layernorm_bwd_sum", make_layernorm_sum, run_layernorm_sum, 2, 0 },
	{ "gelu_bwd", make_gelu_bwd, run_gelu_bwd, 2, 0 },
	{ "residual", make_residual, run_residual, 4, 0 },
	{ "cast", make_cast, run_cast, 3, 0 },
	{ "init", make_init, run_init, 4, 0 },
	{ "adamw", make_adamw, run_adamw, 8, 0 },
	{ "sgd", make_sgd, run_sgd, 4, 0 },
	{ "lion", make_lion, run_lion, 2, 0 },
	{ "adagrad", make_adagrad, run_adagrad, 2, 0 },
	{ "lamb", make_lamb, run_lamb, 2, 0 },
	{ "lamb_norms", make_lamb_norms, run_lamb_norms, 2, 0 },
	{ "muon_momentum", make_muon_momentum, run_muon_momentum, 2, 0 },
	{ "muon_normalize", make_muon, run_muon_normalize, 1, 0 },
	{ "muon_factor", make_muon_factor, run_muon_factor, 1, 0 },
	{ "muon_update", make_muon, run_muon_update, 2, 0 },
	{ "master_split", make_split, run_split, 1, 0 },
	{ "master_join", make_join, run_join, 1, 0 },
	{ "round_stochastic", make_round_stochastic, run_round_stochastic, 4, 0 },
	{ "fold", make_fold, run_fold, 4, 0 },
	{ "bias_bwd", make_bias_bwd, run_bias_bwd, 2, 0 },
};

#define KERNELS (int)(sizeof kernels / sizeof *kernels)

/* ---- the tests -------------------------------------------------------------------------------- */

static struct job make(const struct kernel *kernel, const struct shape *s, int32_t dtype, int variation)
{
	struct job j = { .span = s->n, .grain = 64 };

	seed = 99; /* every job of these arguments has the same inputs */
	kernel->make(&j, s, dtype, variation);
	return j;
}

/* Runs the job in pieces of `grains` grains, the last piece first. */
static void run_cut(const struct kernel *kernel, const struct zr_cpu_kernels *k, struct job *j, int64_t grains)
{
	int64_t piece = grains * j->grain, pieces = (j->span + piece - 1) / piece;

	for (int64_t i = pieces - 1; i >= 0; i--)
		kernel->run(k, j, i * piece, (i + 1) * piece < j->span ? (i + 1) * piece : j->span);
}

static void compare(const struct job *got, const struct job *want, double tolerance)
{
	for (int o = 0; o < want->outs; o++) {
		int32_t dtype = want->out[o].dtype;
		int64_t n = want->out[o].n;
		if (tolerance == 0) {
			assert_memory_equal(got->out[o].p, want->out[o].p, (size_t)(n * rig_size(dtype)));
			continue;
		}
		for (int64_t i = 0; i < n; i++) {
			double w = rig_get(want->out[o].p, i, dtype);
			double t = dtype == ZR_BF16 ? 0x1p-7 : dtype == ZR_F16 ? 0x1p-10 : tolerance;
			rig_near(rig_get(got->out[o].p, i, dtype), w, t * (1 + (w < 0 ? -w : w)));
		}
	}
}

struct state {
	const struct zr_cpu_kernels *k;
	const struct kernel *kernel;
	char name[96];
};

/* check(state, shape, dtype, variation) for all of them */
static void for_all(const struct state *s, void (*check)(const struct state *, const struct shape *, int32_t, int))
{
	if (!rig_runs(s->k))
		skip();
	for (int i = 0; i < SHAPES; i++)
		for (int32_t dtype = ZR_F32; dtype <= ZR_F16; dtype++)
			for (int v = 0; v < s->kernel->variations; v++) {
				check(s, shapes + i, dtype, v);
				rig_release();
			}
}

static void check_cuts(const struct state *s, const struct shape *shape, int32_t dtype, int variation)
{
	struct job whole = make(s->kernel, shape, dtype, variation);

	s->kernel->run(s->k, &whole, 0, whole.span);
	for (int64_t grains = 1; grains <= 3; grains += 2) {
		struct job cut = make(s->kernel, shape, dtype, variation);
		run_cut(s->kernel, s->k, &cut, grains);
		compare(&cut, &whole, 0);
	}
}

static void check_oracle(const struct state *s, const struct shape *shape, int32_t dtype, int variation)
{
	struct job oracle = make(s->kernel, shape, dtype, variation), j = make(s->kernel, shape, dtype, variation);

	s->kernel->run(&zr_cpu_scalar, &oracle, 0, oracle.span);
	s->kernel->run(s->k, &j, 0, j.span);
	compare(&j, &oracle, s->kernel->tolerance);
}

static void test_cuts(void **state)
{
	for_all(*state, check_cuts);
}

static void test_oracle(void **state)
{
	for_all(*state, check_oracle);
}

int main(void)
{
	static struct state states[2 * 3 * KERNELS];
	static struct CMUnitTest tests[2 * 3 * KERNELS];
	const struct zr_cpu_kernels *k;
	int n = 0;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	for (int i = 0; (k = rig_kernels(i)); i++)
		for (int op = 0; op < KERNELS; op++)
			for (int cuts = k == &zr_cpu_scalar; cuts <= 1; cuts++) {
				struct state *s = states + n;
				*s = (struct state){ .k = k, .kernel = kernels + op };
				snprintf(s->name, sizeof s->name, "%s %s %s", k->name, kernels[op].name,
					 cuts ? "has the same bits however it is cut (I1)" :
					 kernels[op].tolerance > 0 ? "agrees with the oracle" : "has the oracle's bits");
				tests[n++] = (struct CMUnitTest){ .name = s->name, .initial_state = s,
								  .test_func = cuts ? test_cuts : test_oracle };
			}
	return _cmocka_run_group_tests("kernels_simd", tests, (size_t)n, NULL, NULL);
}
