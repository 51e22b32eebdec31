/* SPDX-License-Identifier: Apache-2.0
 *
 * muon.c - Muon (Jordan 2024) as torch.optim.Muon, in fp32: the momentum of a matrix is made nearly
 * orthogonal by Newton-Schulz iterations X <- (a I + b X X' + c (X X')^2) X, and that is the step.
 * Products and sweeps by the device that holds the memory; see struct zr_op_muon. State: one fp32
 * buffer.
 *
 * Shapes: X is [rows, cols] as the parameter, or as one head of it; with k = min(rows, cols) the
 * products are X X' or X' X, [k, k], whichever is smaller, and then factor * X or X * factor: so a
 * tall matrix needs no transposed copy.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <math.h>
#include <stdlib.h>

#include "piece.h"
#include "plugins/descriptor.h"

#define EPS 1e-7

enum { NEWTON_SCHULZ, POLAR_EXPRESS };
static const char *const polynomials[] = { "newton_schulz", "polar_express", NULL };

enum { DIRECT, GRAM };
static const char *const methods[] = { "direct", "gram", NULL };

enum { ORIGINAL, MATCH_RMS_ADAMW, SPECTRAL_UNCLAMPED };
static const char *const adjustments[] = { "original", "match_rms_adamw", "spectral_unclamped",
					   NULL };

struct muon_opts {
	double lr;
	double momentum;
	double weight_decay;
	int64_t ns_steps;
	int64_t head_rows;
	int32_t coefficients;
	int32_t method;
	int32_t adjust_lr_fn;
	uint8_t nesterov;
};

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct muon_opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "2e-2", 0, ZR_HI, "",
	       "Learning rate."),
	ZR_OPT(struct muon_opts, momentum, ZR_T_F64, CHANGES | ZR_O_MAX_OPEN, "0.95", 0, 1, "",
	       "Decay per step of the average of the gradient."),
	ZR_OPT(struct muon_opts, nesterov, ZR_T_BOOL, CHANGES, "yes", 0, 0, "",
	       "Look ahead: mix the gradient into its average once more."),
	ZR_OPT(struct muon_opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter, times the learning rate, that a step takes away."),
	ZR_OPT(struct muon_opts, ns_steps, ZR_T_I64, CHANGES, "5", 1, 100, "",
	       "Newton-Schulz iterations that make a step orthogonal."),
	ZR_OPT_ENUM(struct muon_opts, coefficients, CHANGES, "newton_schulz", polynomials,
		    "Polynomials of the iterations: newton_schulz, Jordan's one for all of them; "
		    "polar_express, one for each of at most 5 (Amsel and others 2025), after a "
		    "division by 1.02 that keeps singular values where they hold."),
	ZR_OPT_ENUM(
		struct muon_opts, method, CHANGES, "direct", methods,
		"direct multiplies the matrix in each iteration; gram iterates on the product of "
		"the matrix and its transpose, begins anew after iterations 2, 5, 8 and so on, and "
		"costs less. It acts where one side is at least twice the other; results are the "
		"same but for rounding."),
	ZR_OPT(struct muon_opts, head_rows, ZR_T_I64, CHANGES, "0", 0, ZR_HI, "",
	       "Rows of an attention head: every so many rows of a matrix become orthogonal by "
	       "themselves, scaled by their own shape. It fits query, key and value matrices "
	       "stored as [heads x size, width]. 0: the matrix as a whole."),
	ZR_OPT_ENUM(struct muon_opts, adjust_lr_fn, CHANGES, "original", adjustments,
		    "Scale of a step by the shape of its matrix: original, sqrt(max(1, rows / "
		    "columns)), also DeepSpeed's; match_rms_adamw, 0.2 sqrt(max(rows, columns)), "
		    "so that AdamW's learning rates fit; spectral_unclamped, sqrt(rows / "
		    "columns)."),
};

static const struct zr_state states[] = { { "momentum_buffer", ZR_F32, 0, 0 } };

struct zr_inst {
	const struct zr_host *h;
};

/* One matrix, or one head of it, and its work memory. */
struct work {
	int64_t rows, cols, k; /* k: the lesser side */
	float *x, *next;       /* [rows, cols] */
	float *gram, *square;  /* [k, k] */
	double *sumsq;         /* per block */
	uint64_t bytes;        /* of all */
};

static const struct zr_state *muon_states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = 1;
	return states;
}

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* `bytes` at *at, which moves past them to the next cache line. */
static void *take(uintptr_t *at, int64_t bytes)
{
	uintptr_t p = *at;
	*at += ((uintptr_t)bytes + 63) / 64 * 64;
	return (void *)p;
}

static struct work lay_out(void *memory, int64_t rows, int64_t cols)
{
	int64_t n = rows * cols, k = lesser(rows, cols);
	uintptr_t at = (uintptr_t)memory;
	struct work w = { .rows = rows, .cols = cols, .k = k };

	w.x = take(&at, n * 4);
	w.next = take(&at, n * 4);
	w.gram = take(&at, k * k * 4);
	w.square = take(&at, k * k * 4);
	w.sumsq = take(&at, (n + ZR_BLOCK - 1) / ZR_BLOCK * 8);
	w.bytes = at - (uintptr_t)memory;
	return w;
}

static uint64_t muon_whole_work(struct zr_inst *inst, const int64_t *dims, int32_t ndim)
{
	(void)inst;
	if (ndim != 2)
		return ZR_WORK_REFUSED;
	return lay_out(NULL, dims[0], dims[1]).bytes;
}

/* D[m, n] = op(a) op(b) of contiguous fp32 matrices. */
static int product(const struct zr_opt_step *s, uint32_t flags, int64_t m, int64_t n, int64_t k,
		   const float *a, const float *b, float *d)
{
	struct zr_op_matmul op = {
		.size = sizeof op,
		.flags = flags,
		.m = m,
		.n = n,
		.k = k,
		.lda = flags & ZR_MM_TRANS_A ? m : k,
		.ldb = flags & ZR_MM_TRANS_B ? k : n,
		.ldd = n,
		.a = zr_array_at(ZR_F32, a),
		.b = zr_array_at(ZR_F32, b),
		.d = zr_array_at(ZR_F32, d),
	};
	return s->ops->matmul(s->ops, s->stream, &op);
}

/* ---- polynomials ---- */

/* Of the iterations of Polar Express (Amsel et al. 2025): the numbers of Dion and modded-nanogpt.
 * Each but the last is damped by a safety factor of 1.02, so that rounding drives no singular value
 * out of the interval of the next one. */
#define MARGIN      1.02 /* a matrix is divided by it, too, before the first one */
#define POLAR_STEPS 5
static const double polar[POLAR_STEPS][3] = {
	{ 8.156554524902461, -22.48329292557795, 15.878769915207462 },
	{ 4.042929935166739, -2.808917465908714, 0.5000178451051316 },
	{ 3.8916678022926607, -2.772484153217685, 0.5060648178503393 },
	{ 3.285753657755655, -2.3681294933425376, 0.46449024233003106 },
	{ 2.3465413258596377, -1.7097828382687081, 0.42323551169305323 },
};

/* Of iteration `t`, without memory. The first one of Polar Express makes the division. */
static struct zr_op_muon_factor coefficients(const struct muon_opts *o, int64_t t)
{
	const double *p = polar[t % POLAR_STEPS];
	const double by = t ? 1 : MARGIN;
	struct zr_op_muon_factor f = { .size = sizeof f, .a = 3.4445f, .b = -4.775f, .c = 2.0315f };

	if (o->coefficients != POLAR_EXPRESS)
		return f;
	f.a = (float)(p[0] / by);
	f.b = (float)(p[1] / (by * by * by));
	f.c = (float)(p[2] / (by * by * by * by * by));
	return f;
}

/* ---- iterations ---- */

/* X X' or X' X, in w->gram. */
static int gram_of(const struct zr_opt_step *s, const struct work *w)
{
	if (w->rows > w->cols)
		return product(s, ZR_MM_TRANS_A, w->k, w->k, w->rows, w->x, w->x, w->gram);
	return product(s, ZR_MM_TRANS_B, w->k, w->k, w->cols, w->x, w->x, w->gram);
}

static int squared(const struct zr_opt_step *s, const struct work *w, const float *a,
		   const float *b, float *d)
{
	return product(s, 0, w->k, w->k, w->k, a, b, d);
}

/* w->x times a factor of the lesser side. */
static int apply(const struct zr_opt_step *s, struct work *w, const float *factor)
{
	float *x = w->x;
	int rc;

	if (w->rows > w->cols)
		rc = product(s, 0, w->rows, w->k, w->k, x, factor, w->next);
	else
		rc = product(s, 0, w->k, w->cols, w->k, factor, x, w->next);
	w->x = w->next;
	w->next = x;
	return rc;
}

/* Iteration `t` on w->x. */
static int direct(const struct zr_opt_step *s, const struct muon_opts *o, struct work *w, int64_t t)
{
	struct zr_op_muon_factor f = coefficients(o, t);
	int rc = gram_of(s, w);

	if (!rc)
		rc = squared(s, w, w->gram, w->gram, w->square);
	f.n = w->k;
	f.gram = w->gram;
	f.square = w->square;
	if (!rc)
		rc = s->ops->muon_factor(s->ops, s->stream, &f);
	if (!rc)
		rc = apply(s, w, w->gram);
	return rc;
}

/* ---- Gram Newton-Schulz ---- */

/* Iterations on R = X X' alone (Zhang, Amsel, Chen and Dao 2026): with F = a I + b R + c R^2, X
 * becomes F X and R becomes F R F; Q, the product of all F, is applied to X once. All are [k, k],
 * and polynomials of one symmetric matrix, so that they commute. Rounding leaves R eigenvalues
 * below zero, which each iteration multiplies by up to a^2: so R is made anew from X after
 * iteration 2, as the authors do with 5 iterations, and then after every third one. */
struct gram {
	float *r, *q;
	float *f, *spare, *other; /* free between iterations; the third one after the first alone */
};

static int64_t restart_after(int64_t t)
{
	return t < 2 ? 2 : t + 3;
}

/* g->f = F of iteration `t`. The roles of R and R^2 are exchanged, so that R stays. */
static int factor_of(const struct zr_opt_step *s, const struct muon_opts *o, const struct work *w,
		     const struct gram *g, int64_t t)
{
	struct zr_op_muon_factor f = coefficients(o, t);
	const float b = f.b;
	int rc = squared(s, w, g->r, g->r, g->f);

	f.n = w->k;
	f.b = f.c;
	f.c = b;
	f.gram = g->f;
	f.square = g->r;
	if (!rc)
		rc = s->ops->muon_factor(s->ops, s->stream, &f);
	return rc;
}

/* g->q = Q F, where R is no longer needed if this is the last F. */
static int accumulate(const struct zr_opt_step *s, const struct work *w, struct gram *g, int last)
{
	float *q = g->q, *to = last ? g->r : g->spare;
	int rc;

	if (!q) {
		g->q = g->f;
		return 0;
	}

	rc = squared(s, w, q, g->f, to);
	g->q = to;
	if (!last)
		g->spare = q;
	return rc;
}

/* R = F R F */
static int next_gram(const struct zr_opt_step *s, const struct work *w, struct gram *g)
{
	int rc = squared(s, w, g->f, g->r, g->spare);
	if (!rc)
		rc = squared(s, w, g->spare, g->f, g->r);
	if (g->q == g->f)
		g->f = g->other;
	return rc;
}

/* Iterations [from, to). w->next is free meanwhile and has room for two: see has_gram(). */
static int gram_part(const struct zr_opt_step *s, const struct muon_opts *o, struct work *w,
		     int64_t from, int64_t to)
{
	struct gram g = {
		.r = w->gram, .f = w->square, .spare = w->next, .other = w->next + w->k * w->k
	};
	int rc = gram_of(s, w);

	for (int64_t t = from; t < to && !rc; t++) {
		const int last = t == to - 1;
		rc = factor_of(s, o, w, &g, t);
		if (!rc)
			rc = accumulate(s, w, &g, last);
		if (!rc && !last)
			rc = next_gram(s, w, &g);
	}

	if (!rc)
		rc = apply(s, w, g.q);
	return rc;
}

static int has_gram(const struct muon_opts *o, const struct work *w)
{
	return o->method == GRAM && (w->rows >= 2 * w->cols || w->cols >= 2 * w->rows);
}

static int orthogonalize(const struct zr_opt_step *s, const struct muon_opts *o, struct work *w)
{
	int64_t t = 0, to;
	int rc = 0;

	while (t < o->ns_steps && !rc && has_gram(o, w)) {
		to = lesser(restart_after(t), o->ns_steps);
		rc = gram_part(s, o, w, t, to);
		t = to;
	}
	for (; t < o->ns_steps && !rc; t++)
		rc = direct(s, o, w, t);
	return rc;
}

/* ---- a step ---- */

static double scale(const struct muon_opts *o, double rows, double cols)
{
	if (o->adjust_lr_fn == MATCH_RMS_ADAMW)
		return 0.2 * sqrt(rows > cols ? rows : cols);
	if (rows > cols || o->adjust_lr_fn == SPECTRAL_UNCLAMPED)
		return sqrt(rows / cols);
	return 1;
}

/* The matrix or head that starts at element `off` of the sub-group. */
static int update(const struct zr_opt_step *s, const struct muon_opts *o, struct work w,
		  int64_t off)
{
	struct zr_op_muon op = {
		.size = sizeof op,
		.lowp_dtype = s->lowp.dtype,
		.nesterov = o->nesterov,
		.n = w.rows * w.cols,
		.momentum = o->momentum,
		.weight_decay = o->weight_decay,
		.eps = EPS,
		.ratio = scale(o, (double)w.rows, (double)w.cols),
		.scalars = s->scalars,
		.grad = piece_f32(&s->grad, off),
		.master = piece_f32(&s->master, off),
		.buf = piece_f32(&s->state[0], off),
		.x = w.x,
		.sumsq = w.sumsq,
		.lowp = piece_at(&s->lowp, off),
	};

	int rc = s->ops->muon_momentum(s->ops, s->stream, &op);
	if (!rc)
		rc = s->ops->muon_normalize(s->ops, s->stream, &op);
	if (!rc)
		rc = orthogonalize(s, o, &w);
	if (rc)
		return rc;

	op.x = w.x;
	return s->ops->muon_update(s->ops, s->stream, &op);
}

/* One after the other, in the same work memory. */
static int update_heads(const struct zr_opt_step *s, const struct muon_opts *o, int64_t rows)
{
	const struct zr_seg *seg = ZR_SEG(s, 0);
	const struct work w = lay_out(s->work, rows, seg->dims[1]);
	int rc = 0;

	for (int64_t at = 0; at < seg->n && !rc; at += rows * seg->dims[1])
		rc = update(s, o, w, seg->off + at);
	return rc;
}

static int check_step(const struct zr_host *h, const struct zr_opt_step *s)
{
	const struct zr_seg *seg = ZR_SEG(s, 0);
	uint64_t need;

	if (!ZR_HAS(s->ops, struct zr_ops, muon_update) || !s->ops->matmul ||
	    !s->ops->muon_momentum || !s->ops->muon_normalize || !s->ops->muon_factor ||
	    !s->ops->muon_update)
		return zr_fail(h, ZR_ENOTSUP, "this device has no muon operations");
	if (s->n_seg != 1 || seg->ndim != 2 || seg->n != seg->dims[0] * seg->dims[1])
		return zr_fail(h, ZR_EINVAL,
			       "%s is not a whole matrix; give it to another optimizer in a group",
			       s->n_seg ? seg->name : "an empty sub-group");

	need = lay_out(NULL, seg->dims[0], seg->dims[1]).bytes;
	if (!ZR_HAS(s, struct zr_opt_step, work_bytes) || s->work_bytes < need)
		return zr_fail(h, ZR_EINVAL, "%s needs %llu bytes of work memory", seg->name,
			       (unsigned long long)need);
	return ZR_OK;
}

static int muon_step_whole(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct muon_opts *o = s->opts;
	const struct zr_seg *seg = ZR_SEG(s, 0);
	int rc = check_step(inst->h, s);

	if (rc)
		return rc;
	if (!o->head_rows)
		return update_heads(s, o, seg->dims[0]);
	if (seg->dims[0] % o->head_rows)
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s has %lld rows, which head_rows = %lld does not divide; give it "
			       "to a group without head_rows",
			       seg->name, (long long)seg->dims[0], (long long)o->head_rows);
	return update_heads(s, o, o->head_rows);
}

static int muon_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	(void)s;
	return zr_fail(inst->h, ZR_ENOTSUP, "muon takes whole matrices, not sub-groups");
}

static int muon_check(const struct zr_host *h, const void *opts)
{
	const struct muon_opts *o = opts;
	if (o->coefficients != POLAR_EXPRESS || o->ns_steps <= POLAR_STEPS)
		return ZR_OK;
	return zr_fail(h, ZR_EINVAL,
		       "ns_steps = %lld is above the %d iterations that polar_express has "
		       "coefficients for",
		       (long long)o->ns_steps, POLAR_STEPS);
}

static int muon_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts; /* every matrix brings those of its group */
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void muon_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_WHOLE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = muon_states,
	.step = muon_step,
	.step_whole = muon_step_whole,
	.whole_work = muon_whole_work,
};

/* It needs step_whole(), with memory to work in. */
PLUGIN_NEED(1, optimizer, "muon", &vtbl, .version = "1",
	    .summary = "Muon: orthogonal steps for matrices, in a group beside another optimizer.",
	    PLUGIN_OPTIONS(struct muon_opts, options), .check = muon_check, .create = muon_create,
	    .destroy = muon_destroy);
