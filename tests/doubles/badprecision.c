/* SPDX-License-Identifier: Apache-2.0
 *
 * badprecision.c - a precision with the types that its options say, so also some that nobody knows.
 */
#include <stdlib.h>
#include <zeroth/precision.h>

struct opts {
	int64_t dtype, comm_dtype, master;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct opts, dtype, ZR_T_I64, 0, "1", ZR_LO, ZR_HI, "", "Of parameters."),
	ZR_OPT(struct opts, comm_dtype, ZR_T_I64, 0, "1", ZR_LO, ZR_HI, "", "Of the wire."),
	ZR_OPT(struct opts, master, ZR_T_I64, 0, "0", ZR_LO, ZR_HI, "", "How masters are kept."),
};

struct zr_inst {
	const struct opts *o;
};

static int info(struct zr_inst *inst, struct zr_precision_info *out)
{
	out->dtype = (int32_t)inst->o->dtype;
	out->comm_dtype = (int32_t)inst->o->comm_dtype;
	out->master = (int32_t)inst->o->master;
	return ZR_OK;
}

static int start(struct zr_inst *inst, struct zr_scale *s)
{
	(void)inst;
	*s = (struct zr_scale){ .scale = 1, .last_overflow = -1 };
	return ZR_OK;
}

static int next(struct zr_inst *inst, struct zr_scale *s, int32_t overflow, int32_t *action)
{
	(void)inst;
	s->step++;
	*action = overflow ? ZR_STEP_STOP : ZR_STEP_APPLY;
	return ZR_OK;
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	*out = malloc(sizeof **out);
	if (!*out)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	(*out)->o = opts;
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
	.id = "badprecision",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "For tests.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = 3,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
