/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.h - a model with its adapters as a model of its own. A few rows of a tensor at a time are
 * in memory. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_MERGE_H
#define ZR_TRAIN_WEIGHTS_MERGE_H

#include "core/session.h"
#include "train/weights/export.h"

/* Puts the tensors of `layout` to x; fn gives their values. s: of what declares an adapter, which
 * merges them with those behind the layout's; NULL: as they are. */
int zr_merge_put(struct zr_setup *s, const struct zr_layout *layout, zr_values_fn *fn, void *arg,
		 struct zr_export *x, struct zr_error *err);

#endif
