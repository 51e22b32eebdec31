/* SPDX-License-Identifier: Apache-2.0
 *
 * trial_main.c - the program cuda-trial, which device/cuda starts: trial.h says why.
 *   cuda-trial PLUGIN GPU SECONDS   prints what PLUGIN finds there; 0: its kernels may be used
 */
#include "trial.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char text[CUDA_TRIAL_TEXT] = "";
	cuda_trial_fn *try_all;
	void *symbol;

	if (argc != 4) {
		fprintf(stderr, "usage: cuda-trial PLUGIN GPU SECONDS\n");
		return 2;
	}

	/* it outlives neither who started it nor the time that it has */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm((unsigned)atoi(argv[3]));

	void *plugin = dlopen(argv[1], RTLD_NOW);
	if (!plugin) {
		printf("%s cannot be loaded: %s\n", argv[1], dlerror());
		return 2;
	}
	symbol = dlsym(plugin, CUDA_TRIAL_FUNCTION);
	if (!symbol) {
		printf("%s has no function %s\n", argv[1], CUDA_TRIAL_FUNCTION);
		return 2;
	}
	memcpy(&try_all, &symbol, sizeof try_all);

	const int rc = try_all(atoi(argv[2]), text, sizeof text);
	printf("%s\n", text);
	return rc ? 1 : 0;
}
