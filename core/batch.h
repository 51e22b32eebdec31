/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.h - resolves the batch triple; see batch.c.
 */
#ifndef ZR_CORE_BATCH_H
#define ZR_CORE_BATCH_H

#include "core/setup.h"

/* Fills all of *out but length and writes derived values back to the config. */
int zr_batch_resolve(struct zr_config *cfg, const struct zr_train_opts *t, int world, struct zr_batch_shape *out,
		     struct zr_error *err);

#endif
