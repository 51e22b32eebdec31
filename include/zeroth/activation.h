/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/activation.h - DRAFT. Role "activation", interface "zr.activation/1": what happens to a layer's
 * activations between its forward and its backward: a policy on sizes.
 */
#ifndef ZEROTH_ACTIVATION_H
#define ZEROTH_ACTIVATION_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_ACT_KEEP 0      /* stays in device memory */
#define ZR_ACT_RECOMPUTE 1 /* dropped; the forward runs again, from the last output that was not dropped */
#define ZR_ACT_OFFLOAD 2   /* moved to the tier of [offload.activation] and fetched back ahead of its reader */

/* What is to be offloaded leaves beside the use after its last reader in forward and returns beside the use before its next
 * reader; between disk and memory that only copies reach each way takes one use more. If the reader comes at most this many
 * uses later, it stays: it would be away at none. */
#define ZR_ACT_NEAR 3

/* GROWABLE by stride. */
struct zr_act_layer {
	uint64_t out, saved; /* bytes, see struct zr_layer_bytes */
	uint32_t flags, rsv; /* ZR_LAYER_* */
};

/* What a layer leaves for backward: its output, which the next layer's backward reads, and what it saved for its own.
 * An output is dropped only together with what its layer saved, since one forward makes both. The loss layer leaves
 * nothing: its backward is its forward. FROZEN. */
struct zr_act_choice {
	int32_t out, saved; /* ZR_ACT_*; of 0 bytes: ZR_ACT_KEEP whatever is answered */
};

/* GROWABLE. */
struct zr_activation_v1 {
	uint32_t size, rsv;
	/* [pure], but always with an instance. choice[i] for each of n layers, `stride` bytes apart; on entry all is kept. */
	int (*choose)(struct zr_inst *, const struct zr_act_layer *layers, uint32_t n, uint32_t stride,
		      struct zr_act_choice *choice);
};

#ifdef __cplusplus
}
#endif
#endif
