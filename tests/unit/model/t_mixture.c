/* SPDX-License-Identifier: Apache-2.0
 *
 * t_mixture.c - a mixture of experts with losses of its routers: gradients agree with finite
 * differences, are as large as their scale says, and have the same bits on memory that only
 * operations reach. t_pretrained.c compares with transformers.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/model_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

static struct fixture *fixture_of(const char *chosen, int32_t dtype, int separate)
{
	return fixture_new((struct fixture_setup){
		.model = "model/mixtral",
		.workers = 2,
		.dtype = dtype,
		.batch = 2,
		.length = 9,
		.separate = separate,
		.options = { "experts", "3", "experts_per_token", chosen, "ffn_width", "20",
			     "router_aux_loss_coef", "0.7", "router_z_loss_coef", "0.3" } });
}

/* All experts are chosen: a small step changes no choice. */
static void gradients_agree_with_finite_differences(void **state)
{
	struct fixture *r = fixture_of("3", ZR_F32, 0);
	const size_t bytes = (size_t)r->total * sizeof(float);
	float *at = malloc(bytes), *gradient = malloc(bytes);
	(void)state;
	assert_true(at && gradient);
	memcpy(at, r->value, bytes);
	fixture_step(r, 0);
	memcpy(gradient, r->gradient, bytes);
	for (int t = 0; t < r->n_tensors; t++) {
		const int64_t lo = r->start[t], hi = lo + r->numel[t];
		double want = fixture_difference(r, 5000, lo, hi, at, 1e-3);
		double got = fixture_along(gradient, 5000, lo, hi);
		if (!(fabs(got - want) <= 5e-3 * fabs(want) + 5e-4))
			fail_msg("%s: gradient %.6g, finite difference %.6g", r->tensor[t]->name,
				 got, want);
	}
	free(at);
	free(gradient);
	fixture_free(r);
}

static void gradients_are_as_large_as_their_scale(void **state)
{
	struct fixture *one = fixture_of("2", ZR_F32, 0), *four = fixture_of("2", ZR_F32, 0);
	(void)state;
	four->scale = 4; /* a power of two: no rounding differs */
	assert_true(fixture_step(one, 0) == fixture_step(four, 0));
	assert_true(one->loss_sum[1] > 0 && one->loss_sum[1] == four->loss_sum[1]);
	for (int64_t i = 0; i < one->total; i++)
		assert_true(four->gradient[i] == 4 * one->gradient[i]);
	fixture_free(one);
	fixture_free(four);
}

static void I1_memory_of_a_device_of_its_own_changes_no_bit(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		int32_t dtype = k ? ZR_BF16 : ZR_F32;
		struct fixture *a = fixture_of("2", dtype, 0), *b = fixture_of("2", dtype, 1);
		assert_true(fixture_step(a, 0) == fixture_step(b, 0));
		assert_memory_equal(a->loss_sum, b->loss_sum, sizeof a->loss_sum);
		assert_memory_equal(a->gradient, b->gradient, (size_t)a->total * sizeof(float));
		fixture_free(a);
		fixture_free(b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_agree_with_finite_differences),
		cmocka_unit_test(gradients_are_as_large_as_their_scale),
		cmocka_unit_test(I1_memory_of_a_device_of_its_own_changes_no_bit),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("mixture", tests, NULL, NULL);
}
