/* SPDX-License-Identifier: Apache-2.0
 *
 * tensors.h - the tensors of --model, some of which are chosen, and these as patterns of names.
 */
#ifndef ZR_CMD_IMPORT_TENSORS_H
#define ZR_CMD_IMPORT_TENSORS_H

#include <stdint.h>
#include <stdio.h>

#include "core/setup.h"

#define ZR_TENSORS_NAME 256 /* bytes of a name or a pattern */

struct zr_tensors {
	struct zr_config *cfg;
	struct zr_setup *setup;
	uint8_t *chosen;  /* [n_tensors], 0 at first: the caller sets those that it wants */
	uint8_t *written; /* [n_tensors] */
};

/* Close it even if it fails. */
int zr_tensors_open(struct zr_tensors *t, const char *dir, struct zr_error *err);
void zr_tensors_close(struct zr_tensors *t);
const char *zr_tensors_name(const struct zr_tensors *t, int32_t tensor);
/* Few patterns that fit all that are chosen and no other, each after `before`. */
void zr_tensors_write(struct zr_tensors *t, const char *before, FILE *out);

#endif
