/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/codec.h - DRAFT. Role "codec", interface "zr.codec/1": how values are encoded for
 * transfers between ranks. Each block of ZR_BLOCK elements is encoded alone, so that data split at
 * any block encode to the same bits.
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
	uint32_t bytes_per_block; /* of an encoded block, scales included */
	/* [step] Encodes and decodes n_blocks blocks of fp32 in host memory. A rank also encodes
	 * and decodes its own share, so that all ranks compute with the same values. */
	int (*encode)(struct zr_inst *, const float *src, void *dst, int64_t n_blocks);
	int (*decode)(struct zr_inst *, const void *src, float *dst, int64_t n_blocks);
};

#ifdef __cplusplus
}
#endif
#endif
