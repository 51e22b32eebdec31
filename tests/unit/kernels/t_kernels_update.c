/* SPDX-License-Identifier: Apache-2.0
 *
 * t_kernels_update.c - invariant I1 inside the kernels around a model, from its initial values to
 * its updates: see kernels_job.h.
 */
#include "cpu/moments8.h"
#include "kernels_job.h"

static void make_cast(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const int32_t types[] = { ZR_F32, ZR_BF16, ZR_F16 };
	int32_t to = types[variation];

	j->op.cast = (struct zr_op_cast){ .n = s->n,
					  .src = zr_array_at(dtype, noise(s->n, dtype)),
					  .dst = zr_array_at(to, output(j, s->n, to, 1)) };
}

/* Element 2^33 takes the first block whose counter carries into its high word. */
static void make_init(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const int64_t first[] = { 0, 37, (1LL << 33) - 37, 1 };

	(void)dtype;
	j->op.init = (struct zr_op_init){ .n = s->n,
					  .first = first[variation],
					  .mean = 0.5,
					  .flags = variation == 1 ? ZR_INIT_OP_UNIFORM : 0,
					  .std = variation < 3 ? 0.02 : 0,
					  .rng = { 1234, 0, 0, 3 },
					  .dst = output(j, s->n, ZR_F32, 1) };
}

/* A copy in 16 bits that starts a line, of an update of so many elements that it may go around the
 * caches, though few of them are here. */
static void *line_of_copy(struct job *j, int64_t n, int32_t dtype, int64_t *all)
{
	char *p = output(j, n + 32, dtype, 1);
	void *line = p + -(uintptr_t)p % 64;

	j->out[j->outs - 1].p = line;
	j->out[j->outs - 1].n = n;
	*all = 1 << 24;
	return line;
}

static void make_adamw(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };

	int32_t moments = variation & 4 ? ZR_BF16 : ZR_F32;

	j->op.adamw =
		(struct zr_op_adamw){ .lowp_dtype = dtype,
				      .l2 = variation & 1,
				      .bias_correction = 1,
				      .n = s->n,
				      .beta1 = 0.9,
				      .beta2 = 0.95,
				      .eps = 1e-8,
				      .weight_decay = 0.1,
				      .scalars = &scalars,
				      .grad = noise(s->n, ZR_F32),
				      .moment_dtype = moments,
				      .master = output(j, s->n, ZR_F32, 0),
				      .m = output(j, s->n, moments, 0),
				      .v = absolute(output(j, s->n, moments, 0), s->n, moments),
				      .lowp = variation & 2 ? output(j, s->n, dtype, 1) : NULL };
	if (variation & 8)
		j->op.adamw.lowp = line_of_copy(j, s->n, dtype, &j->op.adamw.n);
}

/* Drawn moments in 8 bits, that the operation updates. What is behind element n is no zero. */
static void *moments8(struct job *j, int64_t n, int root)
{
	float *x = noise(n, ZR_F32);
	void *p = output(j, (n + ZR_BLOCK - 1) / ZR_BLOCK * ZR_MOMENT8_BYTES / 4, ZR_F32, 0);

	for (int64_t i = 0; i < n; i += ZR_MOMENT8_GROUP) {
		int count = n - i < ZR_MOMENT8_GROUP ? (int)(n - i) : ZR_MOMENT8_GROUP;
		for (int k = 0; root && k < count; k++)
			x[i + k] = fabsf(x[i + k]);
		zr_put8(p, i, count, root, x + i);
	}
	return p;
}

/* Groups of zeros, of small numbers, of large ones, of some whose squares are infinite. */
static float *grouped_noise(int64_t n)
{
	static const float size[] = { 1, 0, 1e-9f, 1e7f, 1e30f };
	float *x = noise(n, ZR_F32);

	for (int64_t i = 0; i < n; i++)
		x[i] *= size[i / ZR_MOMENT8_GROUP % 5];
	return x;
}

static void make_adamw8(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	make_adamw(j, s, dtype, variation & 4 ? 8 | (variation & 1) : variation);
	j->op.adamw.grad = grouped_noise(s->n);
	j->op.adamw.m = moments8(j, s->n, 0);
	j->op.adamw.v = moments8(j, s->n, 1);
	j->op.adamw.moment_dtype = ZR_U8;
	j->grain = ZR_MOMENT8_GROUP;
}

/* Drawn, and what they lack of a master of that many bits more; NULL for the masters themselves. */
static void *split_masters(struct job *j, int64_t n, int32_t bits, void **lowp, float **master)
{
	uint8_t *rem = output(j, bits == 8 ? (n + 1) / 2 : n, ZR_BF16, 0);

	for (int64_t i = 0; i < n * bits / 8; i++) /* all bits */
		rem[i] = (uint8_t)(rem[i] * 211 + i);
	*lowp = output(j, n, ZR_BF16, 0);
	*master = NULL;
	return rem;
}

static void make_adamw_split(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	struct zr_op_adamw *op = &j->op.adamw;

	(variation & 1 ? make_adamw8 : make_adamw)(j, s, dtype, variation >> 1 & 1);
	op->rem_bits = variation & 4 ? 16 : 8;
	op->rem = split_masters(j, s->n, op->rem_bits, &op->lowp, &op->master);
}

static void make_sgd(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars first = { 1, 0.37f, 1e-3f }, later = { 2, 0.37f, 1e-3f };

	j->op.sgd = (struct zr_op_sgd){ .lowp_dtype = dtype,
					.nesterov = variation & 1,
					.n = s->n,
					.momentum = 0.9,
					.dampening = 0.1,
					.weight_decay = 0.1,
					.scalars = variation == 3 ? &first : &later,
					.grad = noise(s->n, ZR_F32),
					.master = output(j, s->n, ZR_F32, 0),
					.lowp = output(j, s->n, dtype, 1),
					.buf = variation ? output(j, s->n, ZR_F32, variation == 3) :
							   NULL };
}

static void make_lion(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };
	float *grad = noise(s->n, ZR_F32), *m;

	j->op.lion = (struct zr_op_lion){ .lowp_dtype = dtype,
					  .n = s->n,
					  .beta1 = 0.9,
					  .beta2 = 0.95,
					  .weight_decay = 0.1,
					  .scalars = &scalars,
					  .grad = grad,
					  .master = output(j, s->n, ZR_F32, 0),
					  .m = m = output(j, s->n, ZR_F32, 0),
					  .lowp = variation ? output(j, s->n, dtype, 1) : NULL };
	for (int64_t i = 0; i < s->n; i += 3) /* all three signs */
		grad[i] = m[i] = i % 2 ? -0.0f : 0;
}

static void make_lion8(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	make_lion(j, s, dtype, variation);
	j->op.lion.grad = grouped_noise(s->n);
	j->op.lion.m = moments8(j, s->n, 0);
	j->op.lion.moment_dtype = ZR_U8;
	j->grain = ZR_MOMENT8_GROUP;
}

static void make_lion_split(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	struct zr_op_lion *op = &j->op.lion;

	(variation & 1 ? make_lion8 : make_lion)(j, s, dtype, 0);
	op->rem_bits = variation & 2 ? 16 : 8;
	op->rem = split_masters(j, s->n, op->rem_bits, &op->lowp, &op->master);
}

static void make_adagrad(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };

	j->op.adagrad =
		(struct zr_op_adagrad){ .lowp_dtype = dtype,
					.n = s->n,
					.lr_decay = 0.1,
					.eps = 1e-10,
					.weight_decay = 0.1,
					.scalars = &scalars,
					.grad = noise(s->n, ZR_F32),
					.master = output(j, s->n, ZR_F32, 0),
					.sum = absolute(output(j, s->n, ZR_F32, 0), s->n, ZR_F32),
					.lowp = variation ? output(j, s->n, dtype, 1) : NULL };
}

static void make_lamb(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	static const struct zr_scalars scalars = { 17, 0.37f, 1e-3f };
	static const double norms[2] = { 3, 2 };

	j->op.lamb = (struct zr_op_lamb){ .lowp_dtype = dtype,
					  .bias_correction = 1,
					  .n = s->n,
					  .beta1 = 0.9,
					  .beta2 = 0.95,
					  .eps = 1e-8,
					  .weight_decay = 0.1,
					  .min_coeff = 0.01,
					  .max_coeff = 10,
					  .scalars = &scalars,
					  .grad = noise(s->n, ZR_F32),
					  .master = output(j, s->n, ZR_F32, 0),
					  .m = output(j, s->n, ZR_F32, 0),
					  .v = absolute(output(j, s->n, ZR_F32, 0), s->n, ZR_F32),
					  .lowp = variation ? output(j, s->n, dtype, 1) : NULL,
					  .norms = norms };
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

	j->op.muon = (struct zr_op_muon){ .lowp_dtype = dtype,
					  .n = s->n,
					  .momentum = 0.95,
					  .weight_decay = 0.1,
					  .eps = 1e-7,
					  .ratio = 0.7,
					  .scalars = &scalars,
					  .master = output(j, s->n, ZR_F32, 0),
					  .x = output(j, s->n, ZR_F32, 0),
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
	j->op.muon_factor =
		(struct zr_op_muon_factor){ .n = s->width,
					    .a = 3.4445f,
					    .b = -4.775f,
					    .c = 2.0315f,
					    .gram = output(j, s->width * s->width, ZR_F32, 0),
					    .square = noise(s->width * s->width, ZR_F32) };
	j->span = s->width;
	j->grain = 1;
}

static void make_split(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	(void)dtype;
	j->op.master = (struct zr_op_master){ .n = s->n,
					      .master = noise(s->n, ZR_F32),
					      .rem_bits = variation ? 8 : 0,
					      .lowp = output(j, s->n, ZR_BF16, 1),
					      .rem = variation ?
							     output(j, (s->n + 1) / 2, ZR_BF16, 0) :
							     output(j, s->n, ZR_BF16, 1) };
}

static void make_join(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	uint16_t *rem = noise(s->n, ZR_BF16);

	(void)dtype;
	j->op.master = (struct zr_op_master){ .n = s->n,
					      .master = output(j, s->n, ZR_F32, 1),
					      .lowp = noise(s->n, ZR_BF16),
					      .rem = rem,
					      .rem_bits = variation ? 8 : 16 };
	for (int64_t i = 0; i < s->n; i++) /* all 16 bits */
		rem[i] = (uint16_t)(rem[i] * 40503);
}

/* As with init: element 2^34 takes the first block whose counter carries into its high word. */
static void make_round_stochastic(struct job *j, const struct shape *s, int32_t dtype,
				  int variation)
{
	static const int64_t first[] = { 0, 37, (1LL << 34) - 37, 2 };

	(void)dtype;
	j->op.round_stochastic =
		(struct zr_op_round_stochastic){ .n = s->n,
						 .first = first[variation],
						 .rng = { 1234, 5, 6, 7 },
						 .src = noise(s->n, ZR_F32),
						 .dst = output(j, s->n, ZR_BF16, 1) };
}

static void make_fold(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	int64_t blocks = (s->n + ZR_BLOCK - 1) / ZR_BLOCK;
	int add = variation & 1, measure = variation & 2;

	j->op.fold =
		(struct zr_op_fold){ .flags = add ? ZR_OP_ACCUMULATE : 0,
				     .comm_dtype = dtype,
				     .n = s->n,
				     .g = noise(s->n, ZR_F32),
				     .acc = output(j, s->n, ZR_F32, !add),
				     .sumsq = measure ? output(j, blocks, ZR_F64, 1) : NULL,
				     .nonfinite = measure ? output(j, blocks, ZR_F32, 1) : NULL };
	j->span = blocks;
	j->grain = 1;
}

/* Variations: as trees, or each for itself; a part of a tree after others; what comes is bf16. */
static void make_fold_many(struct job *j, const struct shape *s, int32_t dtype, int variation)
{
	int32_t from = variation & 4 ? ZR_BF16 : ZR_F32;
	int64_t n = s->n, width = from == ZR_BF16 ? 2 : 4;
	make_fold(j, s, dtype, variation & 2 ? 1 : 3);
	j->op.fold.size = sizeof j->op.fold;
	j->op.fold.number = variation & 2 ? 4 : 6;
	j->op.fold.from = from;
	j->op.fold.g = noise(6 * n, from);
	j->op.fold.apart = n * width;
	j->op.fold.group = variation & 1 ? 2 : 1;
	if (!(variation & 2))
		return;
	j->op.fold.group = 16;
	j->op.fold.turn = variation & 1 ? 3 : 1;
	j->op.fold.waiting = output(j, 2 * n, ZR_F32, 0);
	j->op.fold.waiting_apart = n;
}

#define RUN(name)                                                                                  \
	static void run_##name(const struct zr_cpu_kernels *k, struct job *j, int64_t lo,          \
			       int64_t hi)                                                         \
	{                                                                                          \
		k->name(&j->op.name, lo, hi);                                                      \
	}
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

static void run_lamb_norms(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->lamb_norms(&j->op.lamb, lo, hi);
}

static void run_muon_momentum(const struct zr_cpu_kernels *k, struct job *j, int64_t lo, int64_t hi)
{
	k->muon_momentum(&j->op.muon, lo, hi);
}

static void run_muon_normalize(const struct zr_cpu_kernels *k, struct job *j, int64_t lo,
			       int64_t hi)
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

static const struct kernel kernels[] = {
	{ "cast", make_cast, run_cast, 3, 0 },
	{ "init", make_init, run_init, 4, 0 },
	{ "adamw", make_adamw, run_adamw, 10, 0 },
	{ "adamw in 8 bits", make_adamw8, run_adamw, 6, 0 },
	{ "adamw of split masters", make_adamw_split, run_adamw, 8, 0 },
	{ "sgd", make_sgd, run_sgd, 4, 0 },
	{ "lion", make_lion, run_lion, 2, 0 },
	{ "lion in 8 bits", make_lion8, run_lion, 2, 0 },
	{ "lion of split masters", make_lion_split, run_lion, 4, 0 },
	{ "adagrad", make_adagrad, run_adagrad, 2, 0 },
	{ "lamb", make_lamb, run_lamb, 2, 0 },
	{ "lamb_norms", make_lamb_norms, run_lamb_norms, 2, 0 },
	{ "muon_momentum", make_muon_momentum, run_muon_momentum, 2, 0 },
	{ "muon_normalize", make_muon, run_muon_normalize, 1, 0 },
	{ "muon_factor", make_muon_factor, run_muon_factor, 1, 0 },
	{ "muon_update", make_muon, run_muon_update, 2, 0 },
	{ "master_split", make_split, run_split, 2, 0 },
	{ "master_join", make_join, run_join, 2, 0 },
	{ "round_stochastic", make_round_stochastic, run_round_stochastic, 4, 0 },
	{ "fold", make_fold, run_fold, 4, 0 },
	{ "fold of several", make_fold_many, run_fold, 8, 0 },
};

int main(void)
{
	return job_main("kernels_update", kernels, (int)(sizeof kernels / sizeof *kernels));
}
