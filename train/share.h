/* SPDX-License-Identifier: Apache-2.0
 *
 * share.h - a few bytes of each rank for all ranks.
 */
#ifndef ZR_TRAIN_SHARE_H
#define ZR_TRAIN_SHARE_H

#include "core/session.h"

/* all: [world][bytes], in rank order; bytes is a multiple of 8. Collective; not in a step. */
int zr_gather_bytes(struct zr_session *s, const void *mine, void *all, size_t bytes,
		    struct zr_error *err);

#endif
