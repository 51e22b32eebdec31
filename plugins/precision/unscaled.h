/* SPDX-License-Identifier: Apache-2.0
 *
 * unscaled.h - what the precisions without a loss scale share: the scale is 1, and a step whose
 * gradients hold non-finite values ends the run or is skipped, as the option says. Everything but
 * info().
 */
#ifndef ZR_PRECISION_UNSCALED_H
#define ZR_PRECISION_UNSCALED_H

#include <zeroth/precision.h>

struct unscaled_opts {
	int32_t on_nonfinite;
};

/* The row of an option table whose struct starts with a struct unscaled_opts. */
extern const char *const unscaled_choices[];
#define UNSCALED_ON_NONFINITE                                                                      \
	ZR_OPT_ENUM(struct unscaled_opts, on_nonfinite, ZR_O_NUMERIC, "stop", unscaled_choices,    \
		    "What a step with an infinite or NaN gradient does: end the run, or leave "    \
		    "everything as it is.")

/* The options the instance was made with: the plugin's own struct. */
const void *unscaled_opts_of(const struct zr_inst *inst);

int unscaled_start(struct zr_inst *inst, struct zr_scale *s);
int unscaled_next(struct zr_inst *inst, struct zr_scale *s, int32_t overflow, int32_t *action);
int unscaled_create(const struct zr_host *h, const void *opts, struct zr_inst **out);
void unscaled_destroy(struct zr_inst *inst);

#endif
