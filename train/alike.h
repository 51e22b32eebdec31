/* SPDX-License-Identifier: Apache-2.0
 *
 * alike.h - whether all ranks of a training read the same files. Options are compared by
 * settings.h.
 */
#ifndef ZR_TRAIN_ALIKE_H
#define ZR_TRAIN_ALIKE_H

#include "core/setup.h"

/* verify: files are compared by all of their bytes, which takes the time to read them; on all ranks
 * where one of them asks for it. ZR_EINVAL on every rank where one reads another file than rank 0:
 * the text names both, and what each has. Collective; before memory is taken. [main] */
int zr_alike_check(struct zr_setup *s, int verify, struct zr_error *err);

#endif
