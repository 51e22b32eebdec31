/* @ID@ - a ZeRO stage for zeroth: who holds what, and when it moves. See zeroth-plugin(7) and
 * zeroth/zero.h.
 *
 * As it is written here: parameters, gradients and the optimizer's state are split over all ranks
 * (stage 3); parameters are gathered just before a layer and dropped just after it. A stage names
 * what happens; zeroth moves the bytes, and proves before the run that nothing was forgotten. */
#include <zeroth/zero.h>

#include <stdlib.h>

/* What a user may set in [zero]. */
struct opts {
	uint64_t small;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, small, ZR_T_COUNT, 0, "4096", 0, 1e12, "elements",
	       "Units of at most this many elements stay whole on each rank."),
};

struct zr_inst {
	const struct opts *o;
};

static int is_small(const struct zr_inst *inst, int64_t elements)
{
	return (uint64_t)elements <= inst->o->small;
}

/* For each unit of parameters: over which ranks it is split. */
static int groups(struct zr_inst *inst, const struct zr_groups_of *of, struct zr_groups *out)
{
	out->param = is_small(inst, of->elements) ? ZR_GROUP_SELF : ZR_GROUP_WORLD;
	out->grad = ZR_GROUP_WORLD;
	out->state = ZR_GROUP_WORLD;
	return ZR_OK;
}

/* One verb for each unit that is split; those that are not are whole already. */
static int each_split(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s,
		      int (*verb)(const struct zr_stage *, const int32_t *units, int32_t n))
{
	int rc = ZR_OK;
	for (uint32_t i = 0; i < p->n_units && !rc; i++)
		if (!is_small(inst, s->elements(s, p->units[i])))
			rc = verb(s, &p->units[i], 1);
	return rc;
}

/* Called at each point of a step, before the run, once for each kind of step: what it answers is
 * what runs. It may depend on the points of this program so far and on nothing else. */
static int at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int rc = ZR_OK;

	switch (p->at) {
	case ZR_AT_BEFORE: /* a layer needs its parameters whole */
		return each_split(inst, p, s, s->gather);
	case ZR_AT_AFTER: /* and no longer needs them */
		return each_split(inst, p, s, s->drop);
	case ZR_AT_GRAD: /* gradients are complete: they go to their owners */
		return s->reduce(s, p->units, (int32_t)p->n_units);
	case ZR_AT_UPDATE: /* owners update; what is whole elsewhere gets the new values */
		rc = s->update(s, p->units, (int32_t)p->n_units, 0);
		for (uint32_t i = 0; i < p->n_units && !rc; i++)
			rc = s->publish(s, &p->units[i], 1);
		return rc;
	default: /* points of a later zeroth */
		return ZR_OK;
	}
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

static const struct zr_zero_v1 vtbl = { .size = sizeof vtbl, .groups = groups, .at = at };
static const struct zr_iface ifaces[] = { { "zr.zero/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "zero",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Splits everything; gathers parameters layer by layer.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
