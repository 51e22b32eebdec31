/* SPDX-License-Identifier: Apache-2.0
 *
 * program.h - what `zeroth plan --program` prints: the instructions of a step.
 */
#ifndef ZR_CMD_PROGRAM_H
#define ZR_CMD_PROGRAM_H

#include "core/setup.h"

/* Lowers the programs of a setup and prints them, one line per instruction, or as JSON. */
int zr_programs_print(struct zr_setup *s, int json, struct zr_error *err);

#endif
