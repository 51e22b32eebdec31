/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.h - whether all ranks see the directory that rank 0 writes to. [main]
 */
#ifndef ZR_TRAIN_PROBE_H
#define ZR_TRAIN_PROBE_H

#include "core/session.h"

/* Rank 0 puts a file of a random name into its directory `dir`, which counts on rank 0 alone, and
 * removes it when the others have looked for it: on other machines than rank 0's for up to 35
 * seconds. *blind: the lowest rank that does not see it, as a text that is the same on all ranks;
 * its code is 0 if all do. Collective. */
int zr_probe_dir(struct zr_session *s, const char *dir, struct zr_error *blind,
		 struct zr_error *err);

/* All ranks write parts of a checkpoint into one directory: fails where one does not see it. Where
 * only a signal would save a checkpoint, that is a warning. Collective. */
int zr_probe_checkpoints(struct zr_session *s, struct zr_error *err);

#endif
