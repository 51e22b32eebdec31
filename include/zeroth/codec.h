/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/codec.h - DRAFT. Role "codec", interface "zr.codec/1": how values look on the wire, per block of
 * ZR_BLOCK elements, so that any cut at blocks encodes to the same bits.
 */
#ifndef ZEROTH_CODEC_H
#define ZEROTH_CODEC_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

/* GROWABLE. */
struct zr_codec_v1 {
	uint32_t size;
	uint32_t bytes_per_block; /* encoded, scales included */
	/* [step] n_blocks of fp32 to the wire, in host memory. Every rank encodes its own share too. */
	int (*encode)(struct zr_inst *, const float *src, void *dst, int64_t n_blocks);
	int (*decode)(struct zr_inst *, const void *src, float *dst, int64_t n_blocks);
};

#ifdef __cplusplus
}
#endif
#endif
