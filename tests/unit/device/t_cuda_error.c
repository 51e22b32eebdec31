/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_error.c - what device/cuda says of CUDA's errors: rank, GPU, what was done, CUDA's own
 * words; and of what a kernel left behind, that another operation may have failed. And what a
 * process lacks for CUDA. Needs the toolkit, no GPU.
 */
#include "cuda_missing.h"
#include "plugins/device/cuda/cuda.h"
#include "tests/lib/testhost.h"

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
	assert_int_equal(cuda_result(&d, cudaErrorMemoryAllocation, "allocating device memory"),
			 ZR_ENOMEM);
	assert_string_equal(test_error(d.h), "rank 0, GPU 3, allocating device memory: out of "
					     "memory (cudaErrorMemoryAllocation)");
	assert_int_equal(cuda_result(&d, cudaErrorInvalidConfiguration, "matmul"), ZR_EIO);
	assert_null(strstr(test_error(d.h), "earlier"));
	test_host_free((struct zr_host *)(uintptr_t)d.h);
}

static void late_errors_may_come_from_another(void **state)
{
	static const cudaError_t late[] = { cudaErrorIllegalAddress,    cudaErrorLaunchFailure,
					    cudaErrorMisalignedAddress, cudaErrorAssert,
					    cudaErrorLaunchTimeout,     cudaErrorECCUncorrectable,
					    cudaErrorHardwareStackError };
	struct zr_inst d;
	(void)state;
	open_inst(&d, "attention_bwd");
	unsetenv("CUDA_LAUNCH_BLOCKING");
	for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
		assert_int_equal(cuda_result(&d, late[i], "waiting for a copy"), ZR_EIO);
		assert_non_null(strstr(test_error(d.h), cudaGetErrorString(late[i])));
		assert_non_null(strstr(test_error(d.h), "rank 0, GPU 3, waiting for a copy: "));
		assert_non_null(strstr(test_error(d.h), "may come from an earlier operation or "
							"copy (enqueued last: attention_bwd): run "
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

/* Only what CUDA itself calls insufficient is: a driver may know less than the runtime and still
 * do. */
static void what_is_missing_is_told_apart(void **state)
{
	static const struct {
		cudaError_t e;
		int count, driver, runtime;
		const char *text;
	} of[] = {
		{ cudaSuccess, 2, 13000, 13010, NULL },
		{ cudaErrorInsufficientDriver, 0, 0, 13000, "no NVIDIA driver on this machine" },
		{ cudaErrorInsufficientDriver, 0, 12080, 13000,
		  "the NVIDIA driver knows CUDA 12.8, this was built with 13.0; install a newer" },
		{ cudaErrorNoDevice, 0, 12080, 13000,
		  "no GPU that CUDA can use (no CUDA-capable device is detected)" },
		{ cudaErrorSystemNotReady, 0, 13000, 13000,
		  "no GPU that CUDA can use (system not yet initialized)" },
		{ cudaSuccess, 0, 13000, 13000, "no GPU that CUDA can use (it counts 0)" },
	};
	char text[256];
	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		*text = 0;
		assert_int_equal(cuda_missing_text(of[i].e, of[i].count, of[i].driver,
						   of[i].runtime, text, sizeof text),
				 of[i].text ? -1 : 0);
		if (of[i].text)
			assert_non_null(strstr(text, of[i].text));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_errors_name_the_call),
		cmocka_unit_test(late_errors_may_come_from_another),
		cmocka_unit_test(cublas_speaks_for_itself),
		cmocka_unit_test(what_is_missing_is_told_apart),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
