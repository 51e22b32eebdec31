/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizers_start.c - see optimizers.h.
 */
#include "core/update/optimizers.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/config/options.h"
#include "core/setup.h"

static const char *id_of(const struct zr_optimizer *o)
{
	return o->it.section->plugin->desc->id;
}

/* ---- which tensor belongs to which group ---- */

/* For the last group so far, if none before it has the tensor. */
static int claim(struct zr_setup *s, int32_t tensor)
{
	if (s->roles.group_of[tensor])
		return 0;

	s->roles.group_of[tensor] = s->roles.n_param_groups - 1;
	return 1;
}

static int claim_all(struct zr_setup *s, const struct zr_section *sec, struct zr_error *err)
{
	int32_t taken = zr_match_tensors(s, sec->name, "match", sec->match, claim, NULL, err);
	if (taken > 0)
		return 0;
	if (taken < 0)
		return taken;
	return zr_config_blame(s->cfg, sec->name, ZR_EINVAL, err,
			       "match: groups before this one have all of its tensors; take it "
			       "out or put it before them");
}

/* ---- groups and their optimizers ---- */

static int learning_rate(const struct zr_section *sec, double *lr, struct zr_error *err)
{
	const struct zr_opt *o = zr_table_find(&sec->table, "lr");
	if (!o || o->type != ZR_T_F64)
		return zr_err(err, ZR_EINVAL,
			      "optimizer %s declares no option lr of type number, "
			      "which the scheduler drives",
			      sec->plugin->desc->id);
	*lr = *(const double *)((const char *)sec->opts + o->offset);
	return 0;
}

static int32_t optimizer_of(const struct zr_setup_roles *r, const struct zr_section *sec)
{
	int32_t k = 0;
	while (k < r->n_optimizers && r->optimizer[k].it.section->plugin != sec->plugin)
		k++;
	return k;
}

static int check_memory(const struct zr_setup_facts *f, const struct zr_optimizer *o,
			struct zr_error *err)
{
	int on_device = !zr_offloaded(f, ZR_STORE_OPTIMIZER) && !f->device_info.host_access;
	if (zr_optimizer_calls(o)->mem_ok & (on_device ? ZR_MEM_DEVICE : ZR_MEM_HOST))
		return 0;
	if (on_device)
		return zr_err(err, ZR_EINVAL,
			      "optimizer %s runs on host memory only: add [offload.optimizer]",
			      id_of(o));
	return zr_err(
		err, ZR_EINVAL,
		"optimizer %s does not run on host memory, where %s keeps the state", id_of(o),
		zr_offloaded(f, ZR_STORE_OPTIMIZER) ? "[offload.optimizer]" : f->device_info.name);
}

static int add_states(struct zr_setup_roles *r, struct zr_optimizer *o, struct zr_error *err)
{
	o->states = zr_optimizer_calls(o)->states(o->it.inst, &o->n_states);
	o->first_state = r->n_states;
	if (o->n_states > ZR_STATES_MAX - r->n_states)
		return zr_err(err, ZR_EINVAL,
			      "the optimizers have %llu state tensors; at most %d together",
			      (unsigned long long)r->n_states + o->n_states, ZR_STATES_MAX);
	r->n_states += o->n_states;
	return zr_states_check(o, err);
}

/* Whether scalars of the run have names, and a function that makes them. */
static int check_run(const struct zr_optimizer *o, struct zr_error *err)
{
	const struct zr_optimizer_v1 *v = o->it.vtbl;
	if (!ZR_HAS(v, struct zr_optimizer_v1, n_run) || (!v->n_run && !v->advance))
		return 0;
	if (!v->advance || !v->run_names || !v->n_run || v->n_run > ZR_OPT_RUN)
		return zr_err(err, ZR_EINVAL,
			      "optimizer %s declares %u scalars of the run, %s advance() and %s "
			      "names; 1 to %d need both",
			      id_of(o), v->n_run, v->advance ? "with" : "without",
			      v->run_names ? "with" : "without", ZR_OPT_RUN);

	for (uint32_t i = 0; i < v->n_run; i++) {
		int known = 0;
		for (uint32_t k = 0; k < i; k++)
			known |= !strcmp(v->run_names[k], v->run_names[i]);
		if (known || !zr_is_state_name(v->run_names[i]))
			return zr_err(err, ZR_EINVAL,
				      "optimizer %s: scalar %u of the run: \"%s\" is the name of "
				      "another, or no name of letters, digits, _ - or .",
				      id_of(o), i + 1, v->run_names[i] ? v->run_names[i] : "");
	}
	return 0;
}

/* Whether an optimizer has the functions that its caps and sums need. */
static int check_calls(const struct zr_optimizer *o, struct zr_error *err)
{
	const struct zr_optimizer_v1 *v = o->it.vtbl;
	const uint32_t caps = ZR_OPT_ELEMENTWISE | ZR_OPT_WHOLE,
		       kinds = ZR_MEM_HOST | ZR_MEM_PINNED | ZR_MEM_DEVICE;
	if ((v->caps & ~caps) || (v->mem_ok & ~kinds))
		return zr_err(err, ZR_EINVAL,
			      "optimizer %s has caps 0x%x and mem_ok 0x%x, this "
			      "zeroth knows 0x%x and 0x%x; install a newer one",
			      id_of(o), v->caps, v->mem_ok, caps, kinds);
	if (v->n_partial && !(ZR_HAS(v, struct zr_optimizer_v1, partial) && v->partial))
		return zr_err(err, ZR_EINVAL,
			      "optimizer %s declares %u sums over parameters, but no partial()",
			      id_of(o), v->n_partial);
	if (zr_is_whole(o) &&
	    (!ZR_HAS(v, struct zr_optimizer_v1, step_whole) || !v->step_whole || v->n_partial))
		return zr_err(err, ZR_EINVAL,
			      "optimizer %s takes whole parameters, so it needs "
			      "step_whole() and no partial sums",
			      id_of(o));
	return check_run(o, err);
}

static int start_instance(struct zr_setup *s, const struct zr_section *sec, struct zr_error *err)
{
	struct zr_optimizer *o = &s->roles.optimizer[s->roles.n_optimizers];
	int rc = zr_setup_start(s, &o->it, sec->name, "zr.optimizer/1", err);
	if (rc)
		return rc;

	const struct zr_optimizer_v1 *v = o->it.vtbl;
	s->roles.n_optimizers++;
	rc = check_calls(o, err);
	if (rc)
		return rc;

	if (!v->caps && !s->facts.process.rank)
		zr_logf(ZR_LOG_WARN, sec->name,
			"optimizer %s has caps 0: results may depend on how parameters are cut",
			id_of(o));
	if (s->facts.types.master == ZR_MASTER_AUTO && !zr_takes_split(o))
		s->facts.types.master = ZR_MASTER_FP32;

	rc = check_memory(&s->facts, o, err);
	if (rc)
		return rc;
	return add_states(&s->roles, o, err);
}

/* The first section of each plugin makes the instance; the values of the others are resolved and
 * checked all the same. */
static int add_group(struct zr_setup *s, const struct zr_section *sec, struct zr_error *err)
{
	struct zr_param_group *g = &s->roles.param_group[s->roles.n_param_groups];
	*g = (struct zr_param_group){ .section = sec, .optimizer = optimizer_of(&s->roles, sec) };
	int rc;
	if (g->optimizer < s->roles.n_optimizers)
		rc = zr_setup_resolve(s, sec->name, err);
	else
		rc = start_instance(s, sec, err);
	if (!rc)
		rc = learning_rate(sec, &g->lr, err);
	s->roles.n_param_groups++;
	if (rc || !sec->match)
		return rc;
	return claim_all(s, sec, err);
}

static int allocate(struct zr_setup *s, int32_t groups, struct zr_error *err)
{
	struct zr_setup_roles *r = &s->roles;
	r->optimizer = calloc((size_t)groups, sizeof *r->optimizer);
	r->param_group = calloc((size_t)groups, sizeof *r->param_group);
	r->group_of = calloc((size_t)s->facts.layout.n_tensors + 1, sizeof *r->group_of);
	if (r->optimizer && r->param_group && r->group_of)
		return 0;
	return zr_err(err, ZR_ENOMEM, "out of memory for %d parameter groups", groups);
}

/* why: what is wrong with a tensor's shape. */
static int refuse_shape(const struct zr_setup *s, int32_t tensor, const char *why,
			struct zr_error *err)
{
	const struct zr_tensor *t = s->facts.layout.tensor[tensor].decl;
	const struct zr_param_group *g = &s->roles.param_group[s->roles.group_of[tensor]];
	char shape[4 * 24] = "";
	for (int d = 0; d < t->ndim; d++)
		snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%lld",
			 d ? " x " : "", (long long)t->dims[d]);
	const char *key = "plugin", *other = "an [optimizer.NAME]";
	if (g->section->match) {
		key = "match";
		other = "[optimizer] or a group before this one";
	}
	return zr_config_blame(s->cfg, g->section->name, ZR_EINVAL, err,
			       "%s: tensor %s has a shape that %s, %s: give it to %s with "
			       "another plugin",
			       key, t->name, why, shape, other);
}

/* Optimizers of whole parameters say which shapes they update, and what they keep of them. */
static int check_shape(const struct zr_setup *s, int32_t tensor, struct zr_error *err)
{
	const struct zr_tensor *t = s->facts.layout.tensor[tensor].decl;
	const struct zr_optimizer *o = &s->roles.optimizer[zr_optimizer_of(&s->roles, tensor)];
	char why[256];
	if (s->facts.frozen[tensor] || !zr_is_whole(o))
		return 0;

	if (zr_whole_work(o, t) == ZR_WORK_REFUSED) {
		snprintf(why, sizeof why, "%s does not update", id_of(o));
		return refuse_shape(s, tensor, why, err);
	}
	for (uint32_t i = 0; i < o->n_states; i++) {
		const uint32_t bytes = zr_state_bytes_of(o, i, t);
		const struct zr_state *st = zr_optimizer_state(o, i);
		if (!zr_is_by_shape(st) || (bytes <= ZR_STATE_BLOCK_MOST && bytes % 64 == 0))
			continue;
		snprintf(why, sizeof why,
			 "state %s of %s needs %u bytes per block for, where multiples of 64 up to "
			 "%u can be",
			 st->name, id_of(o), bytes, ZR_STATE_BLOCK_MOST);
		return refuse_shape(s, tensor, why, err);
	}
	return 0;
}

static int check_shapes(const struct zr_setup *s, struct zr_error *err)
{
	int rc = 0;
	for (int32_t i = 0; !rc && i < s->facts.layout.n_tensors; i++)
		rc = check_shape(s, i, err);
	return rc;
}

int zr_has_eval_weights(const struct zr_setup *s)
{
	if (s->facts.mode != ZR_MODE_TRAIN || !s->facts.train->eval_weights)
		return 0;

	for (int32_t k = 0; k < s->roles.n_optimizers; k++)
		if (zr_eval_state(&s->roles.optimizer[k]) >= 0)
			return 1;
	return 0;
}

/* Weights for evaluation change places with the parameters, and back: both keep all their bits. */
static int check_eval_weights(const struct zr_setup *s, struct zr_error *err)
{
	const int32_t master = s->facts.types.master;

	if (!zr_has_eval_weights(s))
		return 0;
	if (s->facts.train->qk_clip)
		return zr_config_blame(s->cfg, "train", ZR_EINVAL, err,
				       "eval_weights: qk_clip scales parameters, and not the "
				       "optimizer's weights for evaluation: set one of them to no");
	if (master != ZR_MASTER_NONE && master != ZR_MASTER_SPLIT24)
		return 0;
	return zr_config_blame(
		s->cfg, "train", ZR_EINVAL, err,
		"eval_weights: [precision] keeps less than 32 bits of a parameter, "
		"which the optimizer's weights for evaluation have: set it to no, or "
		"[precision] master = split");
}

int zr_optimizers_start(struct zr_setup *s, struct zr_error *err)
{
	int rc = allocate(s, zr_config_count(s->cfg), err);
	for (int i = 0; !rc && i < zr_config_count(s->cfg); i++) {
		const struct zr_section *sec = zr_config_at(s->cfg, i);
		if (sec->role && !strcmp(sec->role, "optimizer"))
			rc = add_group(s, sec, err);
	}
	/* an update in host memory would need the copies that a device has */
	int back = zr_store_tier(&s->facts, ZR_STORE_OPTIMIZER) == ZR_TIER_HOST &&
		   zr_store_tier(&s->facts, ZR_STORE_PARAM) != ZR_TIER_HOST;
	if (s->facts.types.master == ZR_MASTER_AUTO)
		s->facts.types.master = back ? ZR_MASTER_FP32 : ZR_MASTER_SPLIT;
	if (!rc)
		rc = check_eval_weights(s, err);
	if (rc)
		return rc;
	return check_shapes(s, err);
}

void zr_optimizers_close(struct zr_setup_roles *r)
{
	for (int32_t k = 0; k < r->n_optimizers; k++)
		zr_instance_destroy(&r->optimizer[k].it);
	free(r->optimizer);
	free(r->param_group);
	free(r->group_of);
}
