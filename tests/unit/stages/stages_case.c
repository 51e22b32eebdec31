/* SPDX-License-Identifier: Apache-2.0
 *
 * stages_case.c - see stages_case.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "stages_case.h"

#include <cmocka.h> /* after the headers with members that its macros name */

const struct fixture_model gpt2 = { .n_units = 6,
				    .n_layers = 5,
				    .elements = { 100, 10, 20, 20, 20, 1 },
				    .n = { 2, 1, 1, 1, 2 },
				    .unit = { { 0, 1 }, { 2 }, { 3 }, { 4 }, { 5, 0 } } };

const char *const stages[N_STAGES] = { "stage0", "stage1", "stage2", "stage3", "hpz", "mics" };
struct zr_host *host;
struct run run;

int64_t largest(const struct fixture_model *m)
{
	int64_t most = 0;
	for (int32_t u = 0; u < m->n_units; u++)
		most = m->elements[u] > most ? m->elements[u] : most;
	return most;
}

const struct zr_desc *stage(const char *id)
{
	char name[32];
	snprintf(name, sizeof name, "zero/%s", id);
	return test_plugin(name);
}

void resolve(const struct zr_desc *desc, void *opts, const struct fixture_model *m)
{
	struct zr_facts facts = { .size = sizeof facts,
				  .world = 4,
				  .workers = 1,
				  .largest_unit = largest(m),
				  .typical_unit = m->typical,
				  .gather_legs = m->hops };
	for (int32_t u = 0; u < m->n_units; u++)
		facts.parameters += m->elements[u];
	assert_int_equal(desc->resolve(host, &facts, opts), ZR_OK);
}

void open_run(const char *id, const struct fixture_model *m, const char *const *sets)
{
	run.desc = stage(id);
	run.opts = test_options(run.desc);
	for (; sets && *sets; sets += 2)
		assert_int_equal(test_set(run.desc, run.opts, sets[0], sets[1]), 0);
	resolve(run.desc, run.opts, m);
	assert_int_equal(run.desc->check(host, run.opts), ZR_OK);
	assert_int_equal(run.desc->create(host, run.opts, &run.inst), ZR_OK);
	fixture_open(&run.fixture, m, test_iface(run.desc, "zr.zero/1"), run.inst);
}

void close_run(void)
{
	run.desc->destroy(run.inst);
	free(run.opts);
}

const char *answers(const char *id, int32_t program, const char *const *sets)
{
	open_run(id, &gpt2, sets);
	if (fixture_steps(&run.fixture))
		fail_msg("%s: %s", id, run.fixture.error);
	assert_int_equal(fixture_program(&run.fixture, program), ZR_OK);
	close_run();
	return run.fixture.said;
}

int make_host(void **state)
{
	(void)state;
	host = test_host(1);
	return 0;
}

int free_host(void **state)
{
	(void)state;
	test_host_free(host);
	return 0;
}
