/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - the uses of a program in order: which layer runs which phase and needs which units,
 * and after which use each unit's gradient is complete. Made once from the model's declaration.
 */
#ifndef ZR_CORE_SCHEDULE_H
#define ZR_CORE_SCHEDULE_H

#include <zeroth/activation.h>
#include <zeroth/model.h>
#include <zeroth/zero.h>

#include "core/base/error.h"

struct zr_schedule {
	int32_t n;
	struct zr_use *use;
	/* after use i the gradients of units grad_unit[grad_first[i] .. grad_first[i+1]) are
	 * complete */
	int32_t *grad_first; /* [n + 1] */
	int32_t *grad_unit;
	/* [n_units] use with the first contribution to the unit's gradient; -1: none */
	int32_t *first_grad;
	/* uses that need unit u, in order: needed[need_first[u] .. need_first[u + 1]) */
	int32_t *needed;
	int32_t *need_first; /* [n_units + 1] */
};

/* training: forward of every layer but the loss layer, then backward down to the lowest that has a
 * unit to train; before a backward whose input or saved activations were dropped, the forward of
 * every layer since the last output that is there. Else forward of all. frozen: [n_units] has no
 * gradient, NULL: all have one. act: [n_layers], NULL: everything is kept. */
int zr_schedule_make(const struct zr_model_decl *m, int training, const uint8_t *frozen,
		     const struct zr_act_choice *act, struct zr_schedule *out,
		     struct zr_error *err);
void zr_schedule_free(struct zr_schedule *s);

const struct zr_layer *zr_layer_at(const struct zr_model_decl *m, int32_t i);
int zr_has_experts(const struct zr_model_decl *m); /* whether a layer says that it has some */

/* Number of the first use of `unit` after use `after` (-1: from the start), -1 if there is none. */
int32_t zr_schedule_next(const struct zr_schedule *s, int32_t unit, int32_t after);

#endif
