/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda_error.c - what CUDA and cuBLAS say, as failures of this plugin.
 */
#include "cuda.h"

int cuda_result(const struct zr_inst *d, cudaError_t e, const char *what)
{
	if (e == cudaSuccess)
		return ZR_OK;
	return zr_fail(d->h, e == cudaErrorMemoryAllocation ? ZR_ENOMEM : ZR_EIO, "rank %d, GPU %d, %s: %s (%s)%s%s", d->h->rank,
		       d->device, what, cudaGetErrorString(e), cudaGetErrorName(e), d->last ? "; enqueued last: " : "",
		       d->last ? d->last : "");
}

int cuda_blas_result(const struct zr_inst *d, cublasStatus_t e, const char *what)
{
	if (e == CUBLAS_STATUS_SUCCESS)
		return ZR_OK;
	return zr_fail(d->h, e == CUBLAS_STATUS_ALLOC_FAILED ? ZR_ENOMEM : ZR_EIO, "rank %d, GPU %d, %s: cuBLASLt: %s (%s)",
		       d->h->rank, d->device, what, cublasLtGetStatusString(e), cublasLtGetStatusName(e));
}

int cuda_missing(int *count, char *text, size_t size)
{
	int driver = 0, runtime = 0;
	cudaError_t e;
	*count = 0; /* a failure leaves it as it is */
	e = cudaGetDeviceCount(count);
	if (e == cudaSuccess && *count > 0)
		return 0;
	cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	if (driver == 0)
		snprintf(text, size, "no NVIDIA driver on this machine (%s)", cudaGetErrorString(e));
	else if (driver < runtime)
		snprintf(text, size, "the NVIDIA driver knows CUDA %d.%d, this was built with %d.%d; install a newer driver (%s)",
			 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, cudaGetErrorString(e));
	else
		snprintf(text, size, "no GPU that CUDA can use (%s)", cudaGetErrorString(e));
	return -1;
}
