/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/activation.h - DRAFT. Role "activation", interface "zr.activation/1": what happens to a layer's
 * saved activations between its forward and its backward: a policy on sizes.
 */
#ifndef ZEROTH_ACTIVATION_H
#define ZEROTH_ACTIVATION_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_ACT_KEEP 0      /* stay in device memory */
#define ZR_ACT_RECOMPUTE 1 /* dropped; forward runs again before backward */
#define ZR_ACT_OFFLOAD 2   /* moved to another tier and fetched back */

/* GROWABLE by stride. */
struct zr_act_layer {
	uint64_t out, saved; /* bytes, see struct zr_layer_bytes */
	uint32_t flags, rsv; /* ZR_LAYER_* */
};

/* GROWABLE. */
struct zr_activation_v1 {
	uint32_t size, rsv;
	/* [pure] choice[i] = ZR_ACT_* for each of n layers, `stride` bytes apart. */
	int (*choose)(struct zr_inst *, const struct zr_act_layer *layers, uint32_t n, uint32_t stride, int32_t *choice);
};

#ifdef __cplusplus
}
#endif
#endif
