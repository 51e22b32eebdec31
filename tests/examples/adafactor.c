/* SPDX-License-Identifier: Apache-2.0
 *
 * adafactor.c - Adafactor (Shazeer and Stern 2018) without momentum: the average of squared
 * gradients of a matrix is kept as that of its rows and that of its columns. It takes whole
 * matrices in host memory; the sums of row r and of column c lie one after the other in a state of
 * SUMS bytes per block of ZR_BLOCK elements, which matrices have room for from about 64 x 64 on.
 * The user gives others to another optimizer, as muon's.
 */
#include <zeroth/optimizer.h>

#include <math.h>
#include <stdlib.h>

#define SUMS 256

struct opts {
	double lr, decay, clip, eps, weight_decay;
};

#define CHANGES ZR_O_NUMERIC | ZR_O_GROUP
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, lr, ZR_T_F64, CHANGES | ZR_O_SCHED, "1e-2", 0, ZR_HI, "",
	       "Learning rate, times the root mean square of the parameter."),
	ZR_OPT(struct opts, decay, ZR_T_F64, CHANGES, "-0.8", -1, 0, "",
	       "The averages forget by 1 - t to the power of this."),
	ZR_OPT(struct opts, clip, ZR_T_F64, CHANGES | ZR_O_MIN_OPEN, "1", 0, ZR_HI, "",
	       "Root mean square of a step at most, before the learning rate."),
	ZR_OPT(struct opts, eps, ZR_T_F64, CHANGES, "1e-3", 0, ZR_HI, "",
	       "Root mean square of a parameter at least, where it scales the step."),
	ZR_OPT(struct opts, weight_decay, ZR_T_F64, CHANGES, "0", 0, ZR_HI, "",
	       "Share of each parameter, times the learning rate, that a step takes away."),
};

static const struct zr_state state[] = { { "sums", 0, SUMS, 0 } };

struct zr_inst {
	const struct zr_host *h;
};

static const struct zr_state *states(struct zr_inst *inst, uint32_t *n)
{
	(void)inst;
	*n = 1;
	return state;
}

static uint64_t work(struct zr_inst *inst, const int64_t *dims, int32_t ndim)
{
	int64_t n = ndim == 2 ? dims[0] * dims[1] : 0;
	(void)inst;
	if (ndim != 2 || (dims[0] + dims[1]) * 4 > (n + ZR_BLOCK - 1) / ZR_BLOCK * SUMS)
		return ZR_WORK_REFUSED;
	return (uint64_t)(n * 4 + dims[1] * 8);
}

/* Squares of the gradient, by rows and by columns, into their averages; their sum over rows. */
static double average(const struct zr_opt_step *s, int64_t rows, int64_t cols, double keep)
{
	const float *grad = s->grad.data;
	float *row = s->state[0].data, *col = row + rows;
	double *sum = (double *)s->work, all = 0;
	for (int64_t c = 0; c < cols; c++)
		sum[c] = 0;
	for (int64_t r = 0; r < rows; r++) {
		double of_row = 0;
		for (int64_t c = 0; c < cols; c++) {
			double g = (double)grad[r * cols + c] * s->grad_mult;
			of_row += g * g + 1e-30;
			sum[c] += g * g + 1e-30;
		}
		row[r] = (float)(keep * (double)row[r] + (1 - keep) * of_row / (double)cols);
		all += (double)row[r];
	}
	for (int64_t c = 0; c < cols; c++)
		col[c] = (float)(keep * (double)col[c] + (1 - keep) * sum[c] / (double)rows);
	return all / (double)rows;
}

static int step_whole(struct zr_inst *inst, const struct zr_opt_step *s)
{
	const struct opts *o = s->opts;
	const int64_t rows = s->seg->dims[0], cols = s->seg->dims[1], n = rows * cols;
	const double mean = average(s, rows, cols, 1 - pow((double)s->step, o->decay));
	const float *grad = s->grad.data, *row = s->state[0].data, *col = row + rows;
	float *p = s->master.data, *u = (float *)((double *)s->work + cols);
	double sizes = 0, squares = 0;
	if (s->work_bytes < work(inst, s->seg->dims, 2))
		return zr_fail(inst->h, ZR_EINVAL, "no work memory");
	for (int64_t i = 0; i < n; i++) {
		double v = (double)row[i / cols] * (double)col[i % cols] / mean;
		u[i] = (float)((double)grad[i] * s->grad_mult / sqrt(v));
		sizes += (double)u[i] * (double)u[i];
		squares += (double)p[i] * (double)p[i];
	}
	const double most = sqrt(sizes / (double)n) / o->clip, size = sqrt(squares / (double)n);
	const double rate = s->lr * (size > o->eps ? size : o->eps) / (most > 1 ? most : 1);
	for (int64_t i = 0; i < n; i++)
		p[i] = (float)((double)p[i] * (1 - s->lr * o->weight_decay) - rate * (double)u[i]);
	return ZR_OK;
}

/* With ZR_OPT_WHOLE the host does not call it. */
static int step(struct zr_inst *inst, const struct zr_opt_step *s)
{
	(void)s;
	return zr_fail(inst->h, ZR_ESTATE, "adafactor takes whole matrices");
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_optimizer_v1 vtbl = {
	.size = sizeof vtbl,
	.caps = ZR_OPT_WHOLE,
	.mem_ok = ZR_MEM_HOST | ZR_MEM_PINNED,
	.state_version = 1,
	.state_stride = sizeof(struct zr_state),
	.states = states,
	.step = step,
	.step_whole = step_whole,
	.whole_work = work,
};
static const struct zr_iface ifaces[] = { { "zr.optimizer/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "optimizer",
	.id = "adafactor",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Adafactor: averages of squares by rows and columns.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN_NEED(1, &desc); /* zr_opt_step.work */
