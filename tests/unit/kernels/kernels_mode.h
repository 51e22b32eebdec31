/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_mode.h - tests that run for every variant with every storage type, and for the oracle in
 * double.
 */
#ifndef ZEROTH_TESTS_KERNELS_MODE_H
#define ZEROTH_TESTS_KERNELS_MODE_H

#define ZR_REAL double
#include "cpu/scalar.h"
#include "cpu/table.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels_fixture.h"

/* A variant at a storage type; k == NULL is the double oracle. */
struct mode {
	const struct zr_cpu_kernels *k;
	int32_t dtype;
	int32_t real;     /* dtype behind the `float *` of an operation */
	double tolerance; /* of values stored as dtype */
	double exact;     /* of gradients, statistics, masters */
	char name[16];
};

/* k->op or zr_op_f64; buffers are void *, which suits both */
#define CALL(m, op, ...) ((m)->k ? (m)->k->op(__VA_ARGS__) : zr_##op##_f64(__VA_ARGS__))

static inline void need(const struct mode *m)
{
	if (m->k && !fixture_runs(m->k))
		skip();
}

struct mode_test {
	const char *name;
	CMUnitTestFunction run; /* *state: the mode */
	int reals_only;         /* no storage type in it */
};

#define MODES 10 /* the oracle, three variants of three types */

static inline int mode_fill(struct mode *m)
{
	static const struct {
		const char *name;
		int32_t dtype;
		double tolerance;
	} types[] = { { "f32", ZR_F32, 3e-6 },
		      { "bf16", ZR_BF16, 0x1p-8 },
		      { "f16", ZR_F16, 0x1p-11 } };
	const struct zr_cpu_kernels *k;
	int n = 0;

	m[n++] = (struct mode){ NULL, ZR_F64, ZR_F64, 1e-9, 1e-9, "f64" };
	for (int i = 0; (k = fixture_kernels(i)); i++)
		for (int t = 0; t < 3; t++) {
			m[n] = (struct mode){ k, types[t].dtype, ZR_F32, types[t].tolerance, 3e-6,
					      "" };
			snprintf(m[n].name, sizeof m[n].name, "%s %s", k->name, types[t].name);
			n++;
		}
	return n;
}

/* Every test for every mode. */
static inline int mode_main(const char *group, const struct mode_test *wanted, int count)
{
	static struct mode modes[MODES];
	struct CMUnitTest *tests = calloc((size_t)(MODES * count), sizeof *tests);
	char(*names)[96] = calloc((size_t)(MODES * count), sizeof *names);
	int n_modes = mode_fill(modes), n = 0, rc;

	if (!tests || !names)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	for (struct mode *m = modes; m < modes + n_modes; m++)
		for (int t = 0; t < count; t++) {
			if (m->k && m->dtype != ZR_F32 && wanted[t].reals_only)
				continue;
			snprintf(names[n], sizeof names[n], "%s: %s", m->name, wanted[t].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = wanted[t].run,
							.initial_state = m };
			n++;
		}
	rc = _cmocka_run_group_tests(group, tests, (size_t)n, NULL, NULL);
	free(tests);
	free(names);
	return rc;
}

#endif
