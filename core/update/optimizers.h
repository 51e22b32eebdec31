/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizers.h - who updates what: every tensor belongs to one parameter group, every group to
 * one optimizer. One instance serves all groups of its plugin; its state exists only for the
 * blocks of their tensors. [main]
 */
#ifndef ZR_CORE_OPTIMIZERS_H
#define ZR_CORE_OPTIMIZERS_H

#include <zeroth/model.h>
#include <zeroth/optimizer.h>

#include "core/plugin/host.h"

struct zr_setup;
struct zr_setup_roles;

/* One of the plugins that [optimizer] and its groups name. */
struct zr_optimizer {
	struct zr_instance it; /* of the first section that names it */
	const struct zr_state *states;
	uint32_t n_states;
	uint32_t first_state; /* number of its first among the states of all optimizers */
};

/* [optimizer], then each [optimizer.NAME] in the order of the file. */
struct zr_param_group {
	const struct zr_section *section;
	int32_t optimizer; /* number of it */
	double lr;         /* its own, before the schedule */
};

static inline const struct zr_optimizer_v1 *zr_optimizer_calls(const struct zr_optimizer *o)
{
	return o->it.vtbl;
}

static inline const struct zr_state *zr_optimizer_state(const struct zr_optimizer *o, uint32_t i)
{
	size_t at = (size_t)i * zr_optimizer_calls(o)->state_stride;
	return (const struct zr_state *)((const char *)o->states + at);
}

/* ZR_STATE_* of one. */
static inline uint32_t zr_state_flags(const struct zr_optimizer *o, uint32_t i)
{
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	if (ZR_HAS(v, struct zr_optimizer_v1, state_flags) && v->state_flags)
		return v->state_flags(o->it.inst, i);
	return 0;
}

/* Of its states that which has the weights for evaluation; -1: none has. */
static inline int32_t zr_eval_state(const struct zr_optimizer *o)
{
	for (uint32_t i = 0; i < o->n_states; i++)
		if (zr_state_flags(o, i) & ZR_STATE_FOR_EVAL)
			return (int32_t)i;
	return -1;
}

/* Whether evaluations have weights of their own, as [train] eval_weights says. */
int zr_has_eval_weights(const struct zr_setup *s);

/* state tensors of all optimizers together: with the other data of a sub-group they are bits of
 * 32 */
#define ZR_STATES_MAX 28

/* Whether its bytes per block follow from the parameter's shape. */
static inline int zr_is_by_shape(const struct zr_state *st)
{
	return !st->dtype && !st->bytes_per_block;
}

/* states.c: bytes of a block of one, 0 where it is by shape; of state i of a parameter of that
 * shape. Whether its states can be kept, and read back from a checkpoint. */
#define ZR_STATE_BLOCK_MOST (1u << 20)
uint32_t zr_state_bytes(const struct zr_state *st);
uint32_t zr_state_bytes_of(const struct zr_optimizer *o, uint32_t i, const struct zr_tensor *t);
int zr_is_state_name(const char *name);

/* run.c: how many scalars of the run one has. */
uint32_t zr_run_scalars(const struct zr_optimizer *o);
int zr_states_check(const struct zr_optimizer *o, struct zr_error *err);

/* Its tensors are updated as whole matrices. whole.c: work memory for one of them. */
static inline int zr_is_whole(const struct zr_optimizer *o)
{
	return (zr_optimizer_calls(o)->caps & ZR_OPT_WHOLE) != 0;
}
/* It updates split masters as they are kept. */
static inline int zr_takes_split(const struct zr_optimizer *o)
{
	const struct zr_optimizer_v1 *v = zr_optimizer_calls(o);
	return ZR_HAS(v, struct zr_optimizer_v1, split_masters) && v->split_masters;
}
uint64_t zr_whole_work(const struct zr_optimizer *o, const struct zr_tensor *t);

/* core/model/freeze.c: gives the tensors that each pattern of a list fits to `take`, those that one
 * behind a ! fits to `take_out`; NULL: no pattern begins so. The sum of what they return, or an
 * error: the key has a pattern that fits none, or a ! that takes none out. */
typedef int zr_match_fn(struct zr_setup *s, int32_t tensor);
int32_t zr_match_tensors(struct zr_setup *s, const char *section, const char *key, const char *list,
			 zr_match_fn *take, zr_match_fn *take_out, struct zr_error *err);
/* Fills frozen, as [train] freeze says, and makes units of one kind, in a layout of their own. */
int zr_frozen_find(struct zr_setup *s, struct zr_error *err);
/* Elements of all parameters that are trained. */
int64_t zr_trained_elements(const struct zr_setup *s);

/* Whether no unit can be updated before all gradients of a step are known; then `why` says so to
 * people. 0: each as soon as its own is. */
int zr_update_waits(const struct zr_setup *s, char *why, size_t size);

/* Fills optimizer, param_group, group_of and n_states of a setup with layout and device. */
int zr_optimizers_start(struct zr_setup *s, struct zr_error *err);
void zr_optimizers_close(struct zr_setup_roles *r);

#endif
