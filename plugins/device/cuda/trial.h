/* SPDX-License-Identifier: Apache-2.0
 *
 * trial.h - a trial of kernels that nobody has seen run on this GPU: in a process of its own, which
 * they may hang or crash, before this one uses them.
 *
 * The process is a program, cuda-trial, not a copy of this one: after a fork CUDA works in no child
 * of a process that has counted its GPUs, and neither do the locks of other threads, as a program
 * that embeds libzeroth may have. It loads the plugin and calls what the plugin offers it.
 */
#ifndef ZR_DEVICE_CUDA_TRIAL_H
#define ZR_DEVICE_CUDA_TRIAL_H

#include <zeroth/plugin.h>

#define CUDA_TRIAL_SECONDS 120 /* that a trial may take: CUDA alone starts for some seconds */
#define CUDA_TRIAL_TEXT    512

/* What cuda-trial calls, by this name: compares all that is tried on a GPU, with one line of what
 * was found. 0: both agree. */
#define CUDA_TRIAL_FUNCTION "zr_cuda_trial"
typedef int cuda_trial_fn(int gpu, char *text, size_t room);

struct cuda_trial {
	const char *program, *plugin; /* paths: of cuda-trial, and of what it loads */
	const char *name;             /* of the GPU */
	int gpu, capability;          /* its number, and compute capability * 10 */
	double seconds;
};

/* Fails with what was found and what to do unless the trial has ended well; then `text`, of
 * CUDA_TRIAL_TEXT bytes, says what was compared. */
int cuda_trial(const struct zr_host *h, const struct cuda_trial *t, char *text);

#endif
