/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_import.h - zeroth checkpoint import: what another program saved becomes a checkpoint
 * of the training that a configuration says. [main]
 */
#ifndef ZR_CMD_CHECKPOINT_IMPORT_H
#define ZR_CMD_CHECKPOINT_IMPORT_H

#include "core/base/error.h"

struct zr_checkpoint_import {
	const char *from, *conf;
	const char *const *option; /* "section.key=value" over conf */
	int options;
	int weights; /* these alone */
};

/* Writes it as a training saves it, to where that would go on from, and says so. */
int zr_checkpoint_import(const struct zr_checkpoint_import *how, struct zr_error *err);

#endif
