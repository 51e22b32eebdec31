/* SPDX-License-Identifier: Apache-2.0
 *
 * muon.c - Muon (Jordan 2024) as torch.optim.Muon, in fp32: the momentum of a matrix is made nearly
 * orthogonal by Newton-Schulz iterations X <- (a I + b X X' + c (X X')^2) X with the coefficients
 * of its author, and that is the step. Products and sweeps by the device that holds the memory; see
 * struct zr_op_muon. State: one fp32 buffer.
 *
 * Shapes: X is [rows, cols] as the parameter; with k = min(rows, cols) the products are X X' or X'
 * X, [k, k], whichever is smaller, and then factor * X or X * factor: so a tall matrix needs no
 * transposed copy.
 */
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

#include <math.h>
#include <stdlib.h>

#include "piece.h"
#include "plugins/descriptor.h"

#define NS_A 3.4445f
#define NS_B -4.775f
#define NS_C 2.0315f
#define EPS  1e-7

enum { ORIGINAL, MATCH_RMS_ADAMW };
static const char *const adjustments[] = { "original", "match_rms_adamw", NULL };

struct muon_opts {
	double lr;
	double momentum;
	double weight_decay;
	int64_t ns_steps;
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
	ZR_OPT_ENUM(struct muon_opts, adjust_lr_fn, CHANGES, "original", adjustments,
		    "Scale of a step by the shape of its matrix: original, sqrt(max(1, rows / "
		    "columns)); match_rms_adamw, 0.2 sqrt(max(rows, columns)), so that AdamW's "
		    "learning rates fit."),
};

static const struct zr_state states[] = { { "momentum_buffer", ZR_F32, 0, 0 } };

struct zr_inst {
	const struct zr_host *h;
};

/* The work memory of one matrix. */
struct work {
	float *x, *next;      /* [rows, cols] */
	float *gram, *square; /* [k, k] */
	double *sumsq;        /* per block */
	uint64_t bytes;       /* of all */
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

static struct work lay_out(void *memory, const int64_t *dims)
{
	int64_t n = dims[0] * dims[1], k = lesser(dims[0], dims[1]);
	uintptr_t at = (uintptr_t)memory;
	struct work w;
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
	return lay_out(NULL, dims).bytes;
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

/* One iteration on w->x, which it swaps with w->next. */
static int newton_schulz(const struct zr_opt_step *s, struct work *w, int64_t rows, int64_t cols)
{
	int tall = rows > cols;
	int64_t k = lesser(rows, cols);
	struct zr_op_muon_factor f = { .size = sizeof f,
				       .n = k,
				       .a = NS_A,
				       .b = NS_B,
				       .c = NS_C,
				       .gram = w->gram,
				       .square = w->square };
	float *x = w->x;
	int rc;
	if (tall)
		rc = product(s, ZR_MM_TRANS_A, k, k, rows, x, x, w->gram);
	else
		rc = product(s, ZR_MM_TRANS_B, k, k, cols, x, x, w->gram);
	if (!rc)
		rc = product(s, 0, k, k, k, w->gram, w->gram, w->square);
	if (!rc)
		rc = s->ops->muon_factor(s->ops, s->stream, &f);
	if (!rc && tall)
		rc = product(s, 0, rows, k, k, x, w->gram, w->next);
	else if (!rc)
		rc = product(s, 0, k, cols, k, w->gram, x, w->next);
	w->x = w->next;
	w->next = x;
	return rc;
}

static double scale(const struct muon_opts *o, double rows, double cols)
{
	if (o->adjust_lr_fn == MATCH_RMS_ADAMW)
		return 0.2 * sqrt(rows > cols ? rows : cols);
	if (rows > cols)
		return sqrt(rows / cols);
	return 1;
}

static int update(const struct zr_opt_step *s, const struct muon_opts *o, struct work *w)
{
	const struct zr_seg *seg = ZR_SEG(s, 0);
	int64_t rows = seg->dims[0], cols = seg->dims[1], i;
	struct zr_op_muon op = {
		.size = sizeof op,
		.lowp_dtype = s->lowp.dtype,
		.nesterov = o->nesterov,
		.n = seg->n,
		.momentum = o->momentum,
		.weight_decay = o->weight_decay,
		.eps = EPS,
		.ratio = scale(o, (double)rows, (double)cols),
		.scalars = s->scalars,
		.grad = piece_f32(&s->grad, seg->off),
		.master = piece_f32(&s->master, seg->off),
		.buf = piece_f32(&s->state[0], seg->off),
		.x = w->x,
		.sumsq = w->sumsq,
		.lowp = piece_at(&s->lowp, seg->off),
	};

	int rc = s->ops->muon_momentum(s->ops, s->stream, &op);
	if (!rc)
		rc = s->ops->muon_normalize(s->ops, s->stream, &op);
	for (i = 0; i < o->ns_steps && !rc; i++)
		rc = newton_schulz(s, w, rows, cols);
	if (rc)
		return rc;

	op.x = w->x;
	return s->ops->muon_update(s->ops, s->stream, &op);
}

static int muon_step_whole(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct zr_seg *seg = ZR_SEG(s, 0);
	uint64_t need;
	struct work w;
	if (!ZR_HAS(s->ops, struct zr_ops, muon_update) || !s->ops->matmul ||
	    !s->ops->muon_momentum || !s->ops->muon_normalize || !s->ops->muon_factor ||
	    !s->ops->muon_update)
		return zr_fail(inst->h, ZR_ENOTSUP, "this device has no muon operations");
	if (s->n_seg != 1 || seg->ndim != 2 || seg->n != seg->dims[0] * seg->dims[1])
		return zr_fail(inst->h, ZR_EINVAL,
			       "%s is not a whole matrix; give it to another optimizer in a group",
			       s->n_seg ? seg->name : "an empty sub-group");

	need = lay_out(NULL, seg->dims).bytes;
	if (!ZR_HAS(s, struct zr_opt_step, work_bytes) || s->work_bytes < need)
		return zr_fail(inst->h, ZR_EINVAL, "%s needs %llu bytes of work memory", seg->name,
			       (unsigned long long)need);

	w = lay_out(s->work, seg->dims);
	return update(s, s->opts, &w);
}

static int muon_step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	(void)s;
	return zr_fail(inst->h, ZR_ENOTSUP, "muon takes whole matrices, not sub-groups");
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
	    PLUGIN_OPTIONS(struct muon_opts, options), .create = muon_create,
	    .destroy = muon_destroy);
