/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_missing.h - what a process lacks for CUDA: a driver, one that is new enough, or a GPU.
 * Shared by the plugins that need all three, for CUDA itself says "driver version is insufficient"
 * where there is none.
 */
#ifndef ZR_CUDA_MISSING_H
#define ZR_CUDA_MISSING_H

#include <cuda_runtime_api.h>
#include <stdio.h>

/* What cudaGetDeviceCount's result e and count mean, in `text`, where this driver knows CUDA up to
 * `driver` (0: none) and the program was built with `runtime`, both as 1000 * major + 10 * minor; 0
 * if there are GPUs, else -1. */
static inline int cuda_missing_text(cudaError_t e, int count, int driver, int runtime, char *text,
				    size_t size)
{
	if (e == cudaSuccess && count > 0)
		return 0;
	if (e == cudaErrorInsufficientDriver && driver == 0)
		snprintf(text, size, "no NVIDIA driver on this machine");
	else if (e == cudaErrorInsufficientDriver)
		snprintf(text, size,
			 "the NVIDIA driver knows CUDA %d.%d, this was built with %d.%d; install a "
			 "newer driver (%s)",
			 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10,
			 cudaGetErrorString(e));
	else
		snprintf(text, size, "no GPU that CUDA can use (%s)",
			 e ? cudaGetErrorString(e) : "it counts 0");
	return -1;
}

/* What keeps this process from using a GPU, in `text`; 0 if nothing, and then *count is how many
 * there are, else -1. */
static inline int cuda_missing(int *count, char *text, size_t size)
{
	int driver = 0, runtime = 0;
	*count = 0; /* a failure leaves it as it is */
	cudaError_t e = cudaGetDeviceCount(count), asked = cudaDriverGetVersion(&driver);
	if (asked == cudaSuccess)
		asked = cudaRuntimeGetVersion(&runtime);
	if (asked != cudaSuccess && e == cudaErrorInsufficientDriver) {
		snprintf(text, size, "%s; asked for its version: %s", cudaGetErrorString(e),
			 cudaGetErrorString(asked));
		return -1;
	}
	return cuda_missing_text(e, *count, driver, runtime, text, size);
}

#endif
