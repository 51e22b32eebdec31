/* @ID@ - a precision for zeroth: element types, and a loss scale. See zeroth-plugin(7) and
 * zeroth/precision.h.
 *
 * As it is written here: fp16 with a loss scale that is halved when gradients overflow, and doubled
 * after `window` steps without. */
#include <zeroth/precision.h>

#include <stdlib.h>

/* What a user may set in [precision]. */
struct opts {
	double first;
	uint64_t window;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, first, ZR_T_F64, ZR_O_NUMERIC, "65536", 1, 0x1p30, "",
	       "The loss scale at the beginning."),
	ZR_OPT(struct opts, window, ZR_T_COUNT, ZR_O_NUMERIC, "1000", 1, 1e12, "steps",
	       "Steps without an overflow after which the scale is doubled."),
};

struct zr_inst {
	const struct opts *o;
};

static int info(struct zr_inst *inst, struct zr_precision_info *out)
{
	(void)inst;
	out->dtype = ZR_F16;      /* parameters and activations */
	out->comm_dtype = ZR_F32; /* gradients on their way */
	out->master = ZR_MASTER_FP32;
	out->scaled = 1;
	return ZR_OK;
}

/* All that next() remembers is in the record, which checkpoints save. */
static int start(struct zr_inst *inst, struct zr_scale *s)
{
	s->scale = inst->o->first;
	s->step = 0;
	s->last_overflow = -1;
	s->hysteresis = 1;
	return ZR_OK;
}

/* After each step. overflow: some gradient was not finite. */
static int next(struct zr_inst *inst, struct zr_scale *s, int32_t overflow, int32_t *action)
{
	*action = overflow ? ZR_STEP_SKIP : ZR_STEP_APPLY;
	if (overflow) {
		s->last_overflow = s->step;
		s->scale = s->scale > 2 ? s->scale / 2 : 1;
	} else if ((s->step - s->last_overflow) % (int64_t)inst->o->window == 0) {
		s->scale = s->scale < 0x1p30 ? s->scale * 2 : s->scale;
	}
	s->step++;
	return ZR_OK;
}

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_precision_v1 vtbl = {
	.size = sizeof vtbl,
	.info = info,
	.start = start,
	.next = next,
};
static const struct zr_iface ifaces[] = { { "zr.precision/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "precision",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "fp16 with a loss scale that follows overflows.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
