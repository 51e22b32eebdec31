/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_error.c - what device/cuda says of CUDA's errors: rank, GPU, what was done, CUDA's own words; and of what a kernel
 * left behind, that another operation may have failed. Needs the toolkit, no GPU.
 */
#include "plugins/device/cuda.h"
#include "testhost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct zr_inst *open_inst(struct zr_inst *d, const char *last)
{
	memset(d, 0, sizeof *d);
	d->h = test_host(1);
	d->device = 3;
	d->last = last;
	return d;
}

static void own_errors_name_the_call(void **state)
{
	struct zr_inst d;
	(void)state;
	open_inst(&d, "fold");
	assert_int_equal(cuda_result(&d, cudaSuccess, "matmul"), ZR_OK);
	assert_int_equal(cuda_result(&d, cudaErrorMemoryAllocation, "allocating device memory"), ZR_ENOMEM);
	assert_string_equal(test_error(d.h), "rank 0, GPU 3, allocating device memory: out of memory (cudaErrorMemoryAllocation)");
	assert_int_equal(cuda_result(&d, cudaErrorInvalidConfiguration, "matmul"), ZR_EIO);
	assert_null(strstr(test_error(d.h), "earlier"));
	test_host_free((struct zr_host *)(uintptr_t)d.h);
}

static void late_errors_may_come_from_another(void **state)
{
	static const cudaError_t late[] = { cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress, cudaErrorAssert,
					    cudaErrorLaunchTimeout, cudaErrorECCUncorrectable, cudaErrorHardwareStackError };
	struct zr_inst d;
	(void)state;
	open_inst(&d, "attention_bwd");
	unsetenv("CUDA_LAUNCH_BLOCKING");
	for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
		assert_int_equal(cuda_result(&d, late[i], "waiting for a copy"), ZR_EIO);
		assert_non_null(strstr(test_error(d.h), cudaGetErrorString(late[i])));
		assert_non_null(strstr(test_error(d.h), "rank 0, GPU 3, waiting for a copy: "));
		assert_non_null(strstr(test_error(d.h), "may come from an earlier operation or copy (enqueued last: attention_bwd): run "
							"with CUDA_LAUNCH_BLOCKING=1"));
	}
	setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
	assert_int_equal(cuda_result(&d, cudaErrorIllegalAddress, "fold"), ZR_EIO);
	assert_null(strstr(test_error(d.h), "earlier"));
	assert_non_null(strstr(test_error(d.h), "; enqueued last: attention_bwd"));
	test_host_free((struct zr_host *)(uintptr_t)d.h);
}

static void cublas_speaks_for_itself(void **state)
{
	struct zr_inst d;
	(void)state;
	open_inst(&d, NULL);
	assert_int_equal(cuda_blas_result(&d, CUBLAS_STATUS_NOT_SUPPORTED, "matmul"), ZR_EIO);
	assert_non_null(strstr(test_error(d.h), "rank 0, GPU 3, matmul: cuBLASLt: "));
	assert_non_null(strstr(test_error(d.h), "(CUBLAS_STATUS_NOT_SUPPORTED)"));
	test_host_free((struct zr_host *)(uintptr_t)d.h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_errors_name_the_call),
		cmocka_unit_test(late_errors_may_come_from_another),
		cmocka_unit_test(cublas_speaks_for_itself),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
