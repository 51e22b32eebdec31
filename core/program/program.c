/* SPDX-License-Identifier: Apache-2.0
 *
 * program.c - see program.h: what a recorded program says of itself.
 */
#include "core/program/program.h"

#include <stdlib.h>
#include <string.h>

const char *const zr_program_name[] = { "micro", "last_micro", "update", "eval", "onward" };
const char *const zr_pop_name[] = { "layer",   "gather", "drop",  "reduce", "update",
				    "publish", "wait",   "spill", "fetch",  "hop" };
const char *const zr_phase_name[] = { "forward", "recompute", "backward" };

void zr_program_free(struct zr_program *p)
{
	free(p->op);
	free(p->unit);
	memset(p, 0, sizeof *p);
}
