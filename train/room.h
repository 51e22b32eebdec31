/* SPDX-License-Identifier: Apache-2.0
 *
 * room.h - what a training writes at its end, and whether the disk has room for that: known before
 * the first step, not hours later.
 */
#ifndef ZR_TRAIN_ROOM_H
#define ZR_TRAIN_ROOM_H

#include "core/setup.h"

/* Bytes of the weights that a run leaves: model.safetensors, adapters, and model-16bit
 * where the stage's options ask for that. */
uint64_t zr_room_needed(const struct zr_setup *s);
/* Whether they do. */
int zr_room_exports(const struct zr_config *cfg);

/* ZR_EFIT, with the directory, the bytes needed and the bytes there, where the disk of the run
 * directory has too little room. The directory need not be there yet. */
int zr_room_check(const struct zr_setup *s, struct zr_error *err);

#endif
