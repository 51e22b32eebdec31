/* SPDX-License-Identifier: Apache-2.0
 *
 * waits.c - whether an update needs more than its own gradient. What all gradients together decide
 * comes too late for an update in the backward: how far they are clipped, whether their step
 * counts, sums over whole parameters.
 */
#include <stdio.h>

#include "core/setup.h"

/* A state machine that may answer otherwise than to end the run has a loss scale, or says so at its
 * first step. */
static int may_skip(const struct zr_setup_roles *r)
{
	const struct zr_precision_v1 *precision = r->precision.vtbl;
	struct zr_scale scale;
	int32_t action;
	return precision->start(r->precision.inst, &scale) ||
	       precision->next(r->precision.inst, &scale, 1, &action) || action != ZR_STEP_STOP;
}

int zr_update_waits(const struct zr_setup *s, char *why, size_t size)
{
	if (s->facts.train->gradient_clipping > 0)
		return snprintf(why, size,
				"[train] gradient_clipping needs the norm of all "
				"gradients first: set it to 0");
	if (s->facts.train->qk_clip)
		return snprintf(why, size,
				"[train] qk_clip needs the largest scores of all "
				"ranks first: set it to no");
	if (s->facts.types.scaled)
		return snprintf(why, size,
				"the loss scale of [precision] %s needs to know first "
				"whether any gradient overflows: choose another plugin",
				s->roles.precision.section->plugin->desc->id);
	if (may_skip(&s->roles))
		return snprintf(why, size,
				"[precision] would skip a step with non-finite "
				"gradients, and has to see all of them first: set on_nonfinite = "
				"stop");

	for (int32_t i = 0; i < s->roles.n_optimizers; i++) {
		const struct zr_optimizer *o = &s->roles.optimizer[i];
		const struct zr_section *section = o->it.section;
		if (zr_is_whole(o))
			return snprintf(why, size,
					"[%s] %s takes whole parameters: choose another plugin",
					section->name, section->plugin->desc->id);
		if (zr_optimizer_calls(o)->n_partial)
			return snprintf(why, size,
					"[%s] %s needs sums over whole parameters "
					"first: choose another plugin",
					section->name, section->plugin->desc->id);
	}
	return 0;
}
