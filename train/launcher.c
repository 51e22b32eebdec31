/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher.c - see launcher.h.
 */
#include "train/launcher.h"

#include <stdio.h>
#include <stdlib.h>

const char *zr_other_launcher(void)
{
	/* SLURM_NTASKS is set in a batch script, too, where srun has started nothing yet; and
	 * WORLD_SIZE in containers: torchrun sets RANK beside it. */
	static const char *const names[] = {
		"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",  "PMIX_SIZE", "MPI_LOCALNRANKS",
		"SLURM_STEP_NUM_TASKS", "WORLD_SIZE"
	};
	static _Thread_local char text[64];
	const size_t n = sizeof names / sizeof *names - !getenv("RANK");
	for (size_t i = 0; i < n; i++) {
		const char *v = getenv(names[i]);
		if (v && atoi(v) > 1) {
			snprintf(text, sizeof text, "%s=%d", names[i], atoi(v));
			return text;
		}
	}

	return NULL;
}
