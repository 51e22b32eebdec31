/* SPDX-License-Identifier: Apache-2.0
 *
 * t_attention_options.c - attention in windows and with heads that are not together: every variant against the oracle, and
 * bits where what is computed is the same.
 */
#include "attention_case.h"

static void variants_agree_in_windows(void **state)
{
	(void)state;
	for (int64_t window = 1; window < 140; window = 3 * window + 13) {
		float dropout = window % 2 ? 0 : 0.25f;
		assert_variants_agree(1, ZR_F32, &(struct options){ .dropout = dropout, .window = window }, 2e-6);
	}
	assert_variants_agree(1, ZR_BF16, &(struct options){ .window = 24 }, 4e-3);
	assert_variants_agree(2, ZR_F32, &(struct options){ .dropout = 0.25f, .window = 24, .documents = 1 }, 2e-6);
}

static void a_window_of_all_has_the_bits_of_none(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants; v++) {
			struct problem p = make(attention_shapes[s], s % 2 ? ZR_BF16 : ZR_F32, s, 1);
			if (s % 3 == 2)
				give_documents(&p);
			assert_wide_windows(&variants[v], &p);
			drop(&p);
		}
}

static void what_no_window_reaches_is_not_read(void **state)
{
	(void)state;
	for (int v = 0; v < n_variants; v++) {
		assert_window_forgets(&variants[v], ZR_F32, 24);
		assert_window_forgets(&variants[v], ZR_BF16, 33);
	}
}

static void heads_apart_have_the_bits_of_heads_together(void **state)
{
	(void)state;
	for (size_t s = 0; s < N_ATTENTION_SHAPES; s++)
		for (int v = 0; v < n_variants; v++) {
			static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
			struct problem p = make(attention_shapes[s], dtypes[s % 3], s, 1);
			p.op.fwd.dropout = s % 2 ? 0.25f : 0;
			if (s % 4 == 3)
				give_documents(&p);
			assert_heads_apart(&variants[v], &p);
			drop(&p);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variants_agree_in_windows),
		cmocka_unit_test(a_window_of_all_has_the_bits_of_none),
		cmocka_unit_test(what_no_window_reaches_is_not_read),
		cmocka_unit_test(heads_apart_have_the_bits_of_heads_together),
	};

	find_variants();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
