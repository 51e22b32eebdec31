/* SPDX-License-Identifier: Apache-2.0
 *
 * t_nvrtc.c - NVRTC compiles what device/cuda gives it for updates of one element, without a GPU.
 * Skipped where there is no NVRTC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "elementwise_sources.h"
#include "plugins/device/cuda/elementwise_source.h"
#include "plugins/device/cuda/nvrtc.h"
#include "tests/lib/testhost.h"

#include <cmocka.h> /* after the headers with members that its macros name */

static char text[1 << 20];

static int compile(const struct source *s, const char *author, int capability, void **code,
		   size_t *bytes)
{
	struct zr_host *h = test_host(1);
	struct zr_elementwise e = source_load(s).e;
	int rc;
	e.text = author ? author : e.text;
	assert_true(cuda_elementwise_source(&e, s->types, s->lowp, text, sizeof text) <
		    (int)sizeof text);
	*code = NULL;
	rc = cuda_compile(h, s->name, text, capability, code, bytes);
	if (rc && rc != ZR_ENOTSUP && !author)
		print_message("# %s\n", test_error(h));
	if (author && rc == ZR_EINVAL)
		assert_true(strstr(test_error(h), s->name) && strstr(test_error(h), "fabricated"));
	test_host_free(h);
	return rc;
}

static void skip_without_nvrtc(void)
{
	size_t bytes;
	void *code;
	int rc = compile(&sources[0], NULL, 80, &code, &bytes);
	free(code);
	if (rc == ZR_ENOTSUP)
		skip();
	assert_int_equal(rc, ZR_OK);
}

static void each_source_compiles_for_each_target(void **state)
{
	static const int targets[] = { 80, 90, 100 };
	(void)state;
	skip_without_nvrtc();
	for (int i = 0; i < N_SOURCES; i++)
		for (int t = 0; t < 3; t++) {
			/* of the examples, those in 8 bits have all that the others have */
			if (t != i % 3 && !(sources[i].plugin && sources[i].lowp == ZR_F16))
				continue;
			size_t bytes = 0;
			void *code;
			assert_int_equal(compile(&sources[i], NULL, targets[t], &code, &bytes), 0);
			assert_non_null(memmem(code, bytes, "zr_ew_update", 12));
			free(code);
		}
}

static void a_bad_text_is_refused_by_name(void **state)
{
	size_t bytes;
	void *code;
	(void)state;
	skip_without_nvrtc();
	assert_int_equal(compile(&sources[0],
				 "static float update(const float *k, float g, float p, float *s) "
				 "{ return fabricated(p); }",
				 80, &code, &bytes),
			 ZR_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_source_compiles_for_each_target),
		cmocka_unit_test(a_bad_text_is_refused_by_name),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
