/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.h - whether all ranks see the directory that rank 0 writes to. [main]
 */
#ifndef ZR_TRAIN_PROBE_H
#define ZR_TRAIN_PROBE_H

#include "core/session.h"

/* All ranks write parts of a checkpoint into one directory: fails where one does not see it. Where
 * only a signal would save a checkpoint, that is a warning. Collective. */
int zr_probe_checkpoints(struct zr_session *s, struct zr_error *err);

#endif
