/* SPDX-License-Identifier: Apache-2.0
 *
 * unscaled.c - precisions without a loss scale: a state machine with one state.
 */
#include "unscaled.h"

#include <stdlib.h>

enum { ON_STOP, ON_SKIP };
const char *const unscaled_choices[] = { "stop", "skip", NULL };

struct zr_inst {
	const struct unscaled_opts *o;
};

const void *unscaled_opts_of(const struct zr_inst *inst)
{
	return inst->o;
}

int unscaled_start(struct zr_inst *inst, struct zr_scale *s)
{
	(void)inst;
	*s = (struct zr_scale){ .scale = 1, .last_overflow = -1, .hysteresis = 1 };
	return ZR_OK;
}

int unscaled_next(struct zr_inst *inst, struct zr_scale *s, int32_t overflow, int32_t *action)
{
	*action = ZR_STEP_APPLY;
	if (overflow) {
		if (inst->o->on_nonfinite == ON_SKIP)
			*action = ZR_STEP_SKIP;
		else
			*action = ZR_STEP_STOP;
		s->last_overflow = s->step;
	}

	s->step++;
	return ZR_OK;
}

int unscaled_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

void unscaled_destroy(struct zr_inst *inst)
{
	free(inst);
}
