/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h - the options that change results, in one number.
 */
#ifndef ZR_TRAIN_SETTINGS_H
#define ZR_TRAIN_SETTINGS_H

#include "core/setup.h"

/* What every rank must have alike: struct zr_setup's `settings`. */
uint64_t zr_settings_hash(const struct zr_setup *setup);

#endif
