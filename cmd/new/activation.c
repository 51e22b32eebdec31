/* @ID@ - a policy of activations for zeroth: what becomes of each layer's activations between its
 * forward and its backward. See zeroth-plugin(7) and zeroth/activation.h, a DRAFT: a plugin
 * of this role loads in the release whose headers it was built with.
 *
 * As it is written here: every nth layer keeps its output; all else is computed again. */
#include <zeroth/activation.h>
#include <zeroth/model.h>

#include <stdlib.h>

/* What a user may set in [activation]. */
struct opts {
	int64_t every;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, every, ZR_T_I64, 0, "2", 1, 1000000, "layers",
	       "The output of each such layer is kept."),
};

struct zr_inst {
	const struct opts *o;
};

/* Called before the run, with the bytes that each layer would keep. A choice says what becomes of
 * a layer's output, which the next layer's backward reads, and of what its forward saved for its
 * own backward. An output may be dropped only together with what its layer saved. Other policies
 * would look at layers' sizes, or move some away with ZR_ACT_OFFLOAD. */
static int choose(struct zr_inst *inst, const struct zr_act_layer *layers, uint32_t n,
		  uint32_t stride, struct zr_act_choice *choice)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct zr_act_layer *l = (const void *)((const char *)layers + i * stride);
		int keeps = (i + 1) % inst->o->every == 0;
		if (l->flags & ZR_LAYER_LOSS)
			continue; /* it leaves nothing: all begins as ZR_ACT_KEEP */
		choice[i].out = keeps ? ZR_ACT_KEEP : ZR_ACT_RECOMPUTE;
		choice[i].saved = ZR_ACT_RECOMPUTE;
	}

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

static const struct zr_activation_v1 vtbl = { .size = sizeof vtbl, .choose = choose };
static const struct zr_iface ifaces[] = { { "zr.activation/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "activation",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Keeps the output of every nth layer and computes the rest again.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
