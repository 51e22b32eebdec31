/* SPDX-License-Identifier: Apache-2.0
 *
 * config_ini.h - config.ini of a run, written by a thread of its own beside the first step, which
 * waits for no disk. Nothing else that is to last may be written before its end. [main]
 */
#ifndef ZR_TRAIN_RUN_CONFIG_INI_H
#define ZR_TRAIN_RUN_CONFIG_INI_H

#include "core/config/config.h"

struct zr_config_ini;

int zr_config_ini_begin(const struct zr_config *cfg, struct zr_config_ini **out,
			struct zr_error *err);
/* Waits until it is durable under its name. Sets *file to NULL, which is nothing to wait for. */
int zr_config_ini_end(struct zr_config_ini **file, struct zr_error *err);

#endif
