/* SPDX-License-Identifier: Apache-2.0
 *
 * error.c - what CUDA and cuBLAS say, as failures of this plugin.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

/* Whether it is what a call itself is refused with. Everything else a kernel or a copy left behind,
 * for any later call. */
static int is_own(cudaError_t e)
{
	return e == cudaErrorInvalidValue || e == cudaErrorMemoryAllocation ||
	       e == cudaErrorInitializationError || e == cudaErrorCudartUnloading ||
	       e == cudaErrorInvalidConfiguration || e == cudaErrorInvalidDevice ||
	       e == cudaErrorInvalidDevicePointer || e == cudaErrorInvalidResourceHandle ||
	       e == cudaErrorInsufficientDriver || e == cudaErrorNoDevice ||
	       e == cudaErrorInvalidDeviceFunction || e == cudaErrorNoKernelImageForDevice ||
	       e == cudaErrorLaunchOutOfResources || e == cudaErrorHostMemoryAlreadyRegistered ||
	       e == cudaErrorHostMemoryNotRegistered || e == cudaErrorNotSupported ||
	       e == cudaErrorNotPermitted || e == cudaErrorSystemDriverMismatch ||
	       e == cudaErrorDevicesUnavailable || e == cudaErrorInvalidPtx ||
	       e == cudaErrorUnsupportedPtxVersion;
}

/* Where to look for what failed, if that is not certain. */
static void add_hint(const struct zr_inst *d, cudaError_t e, char *to, size_t room)
{
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
	*to = 0;
	if (is_own(e))
		return;

	if (blocking && !strcmp(blocking, "1"))
		snprintf(to, room, "; enqueued last: %s", d->last ? d->last : "no operation");
	else
		snprintf(to, room,
			 "; found there, it may come from an earlier operation or copy (enqueued "
			 "last: %s): run with CUDA_LAUNCH_BLOCKING=1 to find which",
			 d->last ? d->last : "no operation");
}

int cuda_result(const struct zr_inst *d, cudaError_t e, const char *what)
{
	char hint[256];
	if (e == cudaSuccess)
		return ZR_OK;
	add_hint(d, e, hint, sizeof hint);
	return zr_fail(d->h, e == cudaErrorMemoryAllocation ? ZR_ENOMEM : ZR_EIO,
		       "rank %d, GPU %d, %s: %s (%s)%s", d->h->rank, d->device, what,
		       cudaGetErrorString(e), cudaGetErrorName(e), hint);
}

void cuda_gave_back(struct zr_inst *d, cudaError_t e, const char *what)
{
	char hint[256];
	if (e == cudaSuccess || e == cudaErrorCudartUnloading || d->complained)
		return;
	add_hint(d, e, hint, sizeof hint);
	zr_log(d->h, ZR_LOG_WARN, "rank %d, GPU %d, %s: %s (%s)%s", d->h->rank, d->device, what,
	       cudaGetErrorString(e), cudaGetErrorName(e), hint);
	d->complained = 1;
}

int cuda_blas_result(const struct zr_inst *d, cublasStatus_t e, const char *what)
{
	if (e == CUBLAS_STATUS_SUCCESS)
		return ZR_OK;
	return zr_fail(d->h, e == CUBLAS_STATUS_ALLOC_FAILED ? ZR_ENOMEM : ZR_EIO,
		       "rank %d, GPU %d, %s: cuBLASLt: %s (%s)", d->h->rank, d->device, what,
		       cublasLtGetStatusString(e), cublasLtGetStatusName(e));
}
