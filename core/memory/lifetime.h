/* SPDX-License-Identifier: Apache-2.0
 *
 * lifetime.h - offsets for buffers that live for a while only: those that never live at the same
 * time may share bytes. First fit by decreasing size, so the result depends on the list alone. What
 * lives to the end of the program lies below all others.
 */
#ifndef ZR_CORE_LIFETIME_H
#define ZR_CORE_LIFETIME_H

#include "core/lower/instr.h"

/* Fills the offsets and *total, the bytes of all. Sorts the list, whose buffers are of one array.
 * [main] */
int zr_lifetime_assign(struct zr_buffer **list, int n, uint64_t *total, struct zr_error *err);

#endif
