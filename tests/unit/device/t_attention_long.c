/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention_long.c - device/cpu's attention where the sums of one head's dk and dv are larger
 * than a worker's scratch.
 */
#include "tests/lib/testdevice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void must(const struct dev *d, int rc)
{
	if (rc)
		fail_msg("%s", test_error(d->h));
}

/* The probabilities of a query sum to 1, so the sums of dv and of dout over all positions are the
 * same. */
static void attention_takes_sequences_of_any_length(void **state)
{
	enum { LONG = 4200, D = 256, ALL = LONG * D };
	struct zr_op_attention_bwd ab = { .size = sizeof ab,
					  .fwd = { .size = sizeof ab.fwd,
						   .dtype = ZR_F32,
						   .batch = 1,
						   .length = LONG,
						   .heads = 1,
						   .kv_heads = 1,
						   .head_dim = D,
						   .q_stride = D,
						   .k_stride = D,
						   .v_stride = D,
						   .out_stride = D,
						   .scale = 0.0625f } };
	float *x = malloc((size_t)(8 * ALL + LONG) * sizeof *x);
	uint64_t seed = 8;
	struct zr_device_info info = { .size = sizeof info };
	struct dev d;
	(void)state;
	assert_non_null(x);
	assert_int_equal(dev_open(&d, 2, "auto"), ZR_OK);
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	if (!strncmp(info.variant, "scalar", 6)) { /* for minutes */
		dev_close(&d);
		free(x);
		skip();
	}
	for (int64_t i = 0; i < 4 * ALL; i++)
		x[i] = (float)rnd(&seed);
	ab.fwd.q = x;
	ab.fwd.k = x + ALL;
	ab.fwd.v = x + 2 * ALL;
	ab.dout = x + 3 * ALL;
	ab.fwd.out = x + 4 * ALL;
	ab.dq = x + 5 * ALL;
	ab.dk = x + 6 * ALL;
	ab.dv = x + 7 * ALL;
	ab.fwd.lse = x + 8 * ALL;
	assert_true(d.ops->attention_bwd_work(d.ops, &ab) > 2 * ALL * sizeof *x);
	ab.work = malloc(d.ops->attention_bwd_work(d.ops, &ab));
	assert_non_null(ab.work);
	must(&d, d.ops->attention(d.ops, NULL, &ab.fwd));
	must(&d, d.ops->attention_bwd(d.ops, NULL, &ab));
	for (int64_t c = 0; c < D; c += 51) {
		double sum = 0, want = 0;
		for (int64_t i = c; i < ALL; i += D) {
			sum += x[7 * ALL + i];
			want += x[3 * ALL + i];
		}
		assert_true(fabs(sum - want) < 1e-2);
	}
	free(ab.work);
	free(x);
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attention_takes_sequences_of_any_length),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
