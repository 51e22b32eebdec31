/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/activation.h - DRAFT. Role "activation", interface "zr.activation/1": a policy that
 * decides, from sizes alone, what happens to a layer's activations between its forward and its
 * backward.
 */
#ifndef ZEROTH_ACTIVATION_H
#define ZEROTH_ACTIVATION_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION
#undef ZR_USES_ACTIVATION
#define ZR_USES_ACTIVATION ZR_DRAFT_ACTIVATION

#ifdef __cplusplus
extern "C" {
#endif

/* It stays in device memory. */
#define ZR_ACT_KEEP 0
/* It is dropped. The forward runs again from the last output that was not dropped. */
#define ZR_ACT_RECOMPUTE 1
/* It moves to the tier of [offload.activation] and is fetched back before a layer reads it. */
#define ZR_ACT_OFFLOAD 2

/* An offloaded buffer leaves while the node after its last reader in forward runs, and it returns
 * while the node before its next reader runs. Between a disk and a device that is not
 * host-addressable, each direction takes one node more. If the next reader comes at most this many
 * nodes after the last one, the buffer stays, because it would free memory for no node at all. */
#define ZR_ACT_NEAR 3

/* GROWABLE by stride. */
struct zr_act_layer {
	uint64_t out, saved; /* in bytes: see struct zr_layer_bytes */
	uint32_t flags, rsv; /* ZR_LAYER_* */
};

/* A layer leaves two buffers for backward: its output, which the next layer's backward reads, and
 * what it saved for its own backward. An output is dropped only together with what its layer saved,
 * since one forward computes both. The loss layer leaves nothing: its backward computes the forward
 * too. FROZEN. */
struct zr_act_choice {
	int32_t out, saved; /* ZR_ACT_*; the host keeps buffers of 0 bytes whatever the answer is */
};

/* GROWABLE. */
struct zr_activation_v1 {
	uint32_t size, rsv;
	/* [pure], but always called with an instance. Fills choice[i] for each of the n layers,
	 * which are `stride` bytes apart. On entry every choice is ZR_ACT_KEEP. */
	int (*choose)(struct zr_inst *, const struct zr_act_layer *layers, uint32_t n,
		      uint32_t stride, struct zr_act_choice *choice);
};

#ifdef __cplusplus
}
#endif
#endif
