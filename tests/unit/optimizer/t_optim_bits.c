/* SPDX-License-Identifier: Apache-2.0
 *
 * t_optim_bits.c - invariant I1 of an update: no bit depends on how its data is cut, on threads,
 * nor, for the processor's own Adam, on who computes it. And what an update may not touch.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/half.h"
#include "tests/lib/sanitize.h"
#include "optim_fixture.h"

#define UPDATES 3

static const struct run {
	const char *name, *plugin;
	const char *options[7];
} runs[] = {
	{ "adamw", "optimizer/adamw", { "weight_decay", "0.1" } },
	{ "adamw, bf16 moments", "optimizer/adamw", { "states", "bf16" } },
	{ "adamw, 8-bit moments", "optimizer/adamw", { "states", "8bit" } },
	{ "adam", "optimizer/adam", { "weight_decay", "0.1" } },
	{ "cpu_adam", "optimizer/cpu_adam", { "weight_decay", "0.1" } },
	{ "cpu_adam, bf16 moments", "optimizer/cpu_adam", { "states", "bf16" } },
	{ "cpu_adam, 8-bit moments", "optimizer/cpu_adam", { "states", "8bit" } },
	{ "sgd", "optimizer/sgd", { "momentum", "0.9", "nesterov", "yes" } },
	{ "lion", "optimizer/lion", { "weight_decay", "0.1" } },
	{ "lion, 8-bit moments", "optimizer/lion", { "states", "8bit" } },
	{ "adagrad", "optimizer/adagrad", { "weight_decay", "0.1" } },
	{ "lamb", "optimizer/lamb", { "weight_decay", "0.1" } },
	{ "muon", "optimizer/muon", { "weight_decay", "0.1" } },
	{ "muon, by Gram matrices", "optimizer/muon", { "method", "gram" } },
	{ "muon, each row a head", "optimizer/muon", { "head_rows", "1" } },
};

#define RUNS (sizeof runs / sizeof *runs)

/* Of matrices, which are never cut. */
static int whole_only(const struct run *r)
{
	return !strcmp(r->plugin, "optimizer/muon");
}

static void open_with_copy(struct optim *o, const struct run *r, int workers)
{
	size_t n, i;
	optim_open(o, r->plugin, r->options, whole_only(r) ? optim_large_matrices : optim_large,
		   workers);
	n = (size_t)(o->block[OPTIM_PARAMS] * ZR_BLOCK);
	o->lowp = malloc(n * sizeof *o->lowp);
	assert_non_null(o->lowp);
	for (i = 0; i < n; i++)
		o->lowp[i] = OPTIM_PADDING;
}

/* UPDATES updates in pieces of at most `most` blocks. */
static void train(struct optim *o, const struct run *r, int workers, int64_t most)
{
	int t;
	open_with_copy(o, r, workers);
	for (t = 1; t <= UPDATES; t++)
		optim_update(o, t, most);
}

/* ZR_OPT_ELEMENTWISE, which offloading and sharding lean on. */
static void any_cut_and_any_threads_give_the_same_bits_I1(void **state)
{
	static const int64_t most[] = { 1, 3, 17, 0 };
	const struct run *r = *state;
	static struct optim whole, cut;
	int workers;
	size_t i;
	train(&whole, r, 1, 0);
	assert_int_equal(whole.v->caps, whole_only(r) ? ZR_OPT_WHOLE : ZR_OPT_ELEMENTWISE);
	for (workers = 1; workers <= 2; workers++)
		for (i = 0; i < sizeof most / sizeof *most; i += sanitized() ? 2 : 1) {
			train(&cut, r, workers, most[i]);
			optim_same(&cut, &whole);
			optim_close(&cut);
		}
	optim_close(&whole);
}

static int is_padding(const void *p, size_t halves, size_t at)
{
	const uint16_t *h = (const uint16_t *)p + at * halves;
	return h[0] == OPTIM_PADDING && h[halves - 1] == OPTIM_PADDING;
}

/* Of a state. A block of moments in 8 bits has a code per element, and then scales. */
static int is_state_padding(const struct optim *o, uint32_t s, size_t at)
{
	const char *p = o->state_data[s];
	if (o->state[s].dtype)
		return is_padding(p, o->state[s].dtype == ZR_F32 ? 2 : 1, at);
	return p[at / ZR_BLOCK * ZR_MOMENT8_BYTES + at % ZR_BLOCK] == (char)OPTIM_PADDING;
}

static void padding_is_never_touched(void **state)
{
	const struct run *r = *state;
	static struct optim o;
	size_t n, i;
	int64_t e, at;
	uint32_t s;
	char *used;
	train(&o, r, 1, 0);
	n = (size_t)(o.block[OPTIM_PARAMS] * ZR_BLOCK);
	used = calloc(n, 1);
	assert_non_null(used);
	for (e = 0; (at = optim_place(&o, e)) >= 0; e++)
		used[at] = 1;
	for (i = 0; i < n; i++) {
		if (used[i])
			continue;
		assert_true(is_padding(o.master, 2, i) && is_padding(o.lowp, 1, i));
		for (s = 0; s < o.n_state; s++)
			assert_true(is_state_padding(&o, s, i));
	}
	free(used);
	optim_close(&o);
}

static uint16_t rounded(float x, int32_t dtype)
{
	uint32_t bits;
	memcpy(&bits, &x, 4);
	return dtype == ZR_F16 ? half_of(x) : (uint16_t)((bits + 0x8000) >> 16);
}

static void the_copy_is_the_master_rounded(void **state)
{
	const struct run *r = *state;
	static struct optim o;
	int64_t i, at;
	for (int32_t dtype = ZR_BF16; dtype <= ZR_F16; dtype++) {
		open_with_copy(&o, r, 1);
		o.lowp_dtype = dtype;
		optim_update(&o, 1, 0);
		for (i = 0; (at = optim_place(&o, i)) >= 0; i++)
			assert_int_equal(o.lowp[at], rounded(o.master[at], dtype));
		optim_close(&o);
	}
}

static void gradients_are_only_read(void **state)
{
	const struct run *r = *state;
	static struct optim o;
	float *before;
	size_t bytes;
	open_with_copy(&o, r, 1);
	optim_draw(&o, 1);
	bytes = (size_t)(o.block[OPTIM_PARAMS] * ZR_BLOCK) * sizeof *before;
	before = malloc(bytes);
	assert_non_null(before);
	memcpy(before, o.grad, bytes);
	assert_int_equal(optim_apply(&o, 0, 0), ZR_OK);
	assert_memory_equal(before, o.grad, bytes);
	free(before);
	optim_close(&o);
}

static void cpu_adam_has_the_bits_of(const char *plugin, const char *mode, const char *moments,
				     const char *correction)
{
	struct run r = { "",
			 plugin,
			 { "weight_decay", "0.1", "states", moments, "bias_correction", correction,
			   NULL } };
	static struct optim device, cpu;
	int t;
	train(&device, &r, 2, 0);
	r.plugin = "optimizer/cpu_adam";
	open_with_copy(&cpu, &r, 2);
	assert_int_equal(test_set(cpu.desc, cpu.opts, "adamw_mode", mode), 0);
	for (t = 1; t <= UPDATES; t++)
		optim_update(&cpu, t, 5);
	optim_same(&cpu, &device);
	optim_close(&cpu);
	optim_close(&device);
}

static void cpu_adam_has_the_bits_of_the_device(void **state)
{
	static const char *const moments[] = { "fp32", "bf16", "8bit" }, *const correction[] = {
		"yes", "no"
	};
	int i, k;
	(void)state;
	for (i = 0; i < 3; i++)
		for (k = 0; k < 2; k++) {
			cpu_adam_has_the_bits_of("optimizer/adamw", "yes", moments[i],
						 correction[k]);
			cpu_adam_has_the_bits_of("optimizer/adam", "no", moments[i], correction[k]);
		}
}

int main(void)
{
	static const struct {
		const char *name;
		CMUnitTestFunction test;
	} all[] = {
		{ "any cut and any threads give the same bits (I1)",
		  any_cut_and_any_threads_give_the_same_bits_I1 },
		{ "padding is never touched", padding_is_never_touched },
		{ "the copy is the master, rounded to its type", the_copy_is_the_master_rounded },
		{ "gradients are only read", gradients_are_only_read },
	};
	enum { ALL = sizeof all / sizeof *all };
	static struct CMUnitTest tests[RUNS * ALL + 1];
	static char names[RUNS * ALL][96];
	size_t n = 0, r, i;
	for (r = 0; r < RUNS; r++)
		for (i = 0; i < ALL; i++, n++) {
			snprintf(names[n], sizeof names[n], "%s: %s", runs[r].name, all[i].name);
			tests[n] =
				(struct CMUnitTest){ .name = names[n],
						     .test_func = all[i].test,
						     .initial_state = (void *)(uintptr_t)&runs[r] };
		}
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(cpu_adam_has_the_bits_of_the_device);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("optim_bits", tests, n, NULL, NULL);
}
