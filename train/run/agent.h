/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.h - the other end of `zeroth launch`: on each machine one process that trains some ranks
 * for a launcher, whom it hears and answers by standard input and output (frames.h).
 */
#ifndef ZR_TRAIN_RUN_AGENT_H
#define ZR_TRAIN_RUN_AGENT_H

#include "train/run/supervise.h"

struct zr_agent_place {
	int first, n, world; /* ranks [first, first + n) of world */
};

/* Called in a process of its own, in the directory and with the environment of the job: trains
 * those ranks, by the words of a command line, and returns the exit code. */
typedef int zr_agent_run(int argc, char **argv, const struct zr_agent_place *place,
			 struct zr_crew_end *end);

/* Serves one launcher, and returns the exit code. version: of this program. [main] */
int zr_agent_main(zr_agent_run *run, const char *version);

#endif
