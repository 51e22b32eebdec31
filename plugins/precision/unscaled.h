/* SPDX-License-Identifier: Apache-2.0
 *
 * unscaled.h - what the precisions without a loss scale share: the scale is 1, and a step whose gradients
 * hold non-finite values ends the run or is skipped, as the option says. Everything but info().
 */
#ifndef ZR_PRECISION_UNSCALED_H
#define ZR_PRECISION_UNSCALED_H

#include <zeroth/precision.h>

struct unscaled_opts {
	int32_t on_nonfinite;
};

#define UNSCALED_OPTIONS 1
extern const struct zr_opt unscaled_options[UNSCALED_OPTIONS];

int unscaled_start(struct zr_inst *inst, struct zr_scale *s);
int unscaled_next(struct zr_inst *inst, struct zr_scale *s, int32_t overflow, int32_t *action);
int unscaled_create(const struct zr_host *h, const void *opts, struct zr_inst **out);
void unscaled_destroy(struct zr_inst *inst);

#endif
