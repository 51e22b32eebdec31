/* SPDX-License-Identifier: Apache-2.0
 *
 * t_families.c - presets of the families that one decoder computes have as many parameters as the
 * published models: counts by transformers 4.57 of models made from their config.json.
 */
#include "tests/lib/model_fixture.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

static const struct {
	const char *plugin, *preset;
	int64_t parameters;
} published[] = {
	{ "model/qwen3", "qwen3-0.6b", 596049920 },
	{ "model/qwen3", "qwen3-1.7b", 1720574976 },
	{ "model/qwen3", "qwen3-4b", 4022468096 },
	{ "model/qwen3", "qwen3-8b", 8190735360 },
	{ "model/qwen3", "qwen3-14b", 14768307200 },
	{ "model/qwen3", "qwen3-32b", 32762123264 },
	{ "model/gemma", "gemma-2b", 2506172416 },
	{ "model/gemma", "gemma-7b", 8537680896 },
	{ "model/gemma2", "gemma2-2b", 2614341888 },
	{ "model/gemma2", "gemma2-9b", 9241705984 },
	{ "model/gemma2", "gemma2-27b", 27227128320 },
	{ "model/granite", "granite3.1-2b", 2533531648 },
	{ "model/granite", "granite3.1-8b", 8170848256 },
	{ "model/gemma3", "gemma3-270m", 268098176 },
	{ "model/gemma3", "gemma3-1b", 999885952 },
	{ "model/phi3", "phi3-mini-4k", 3821079552 },
	{ "model/phi3", "phi4", 14659507200 },
	{ "model/olmo2", "olmo2-1b", 1484916736 },
	{ "model/olmo2", "olmo2-7b", 7298617344 },
	{ "model/olmo2", "olmo2-13b", 13716198400 },
	{ "model/olmo2", "olmo2-32b", 32234279936 },
	{ "model/smollm3", "smollm3-3b", 3075098624 },
	{ "model/starcoder2", "starcoder2-3b", 3030371328 },
	{ "model/gpt_neox", "pythia-70m", 70426624 },
	{ "model/gpt_neox", "pythia-160m", 162322944 },
	{ "model/gpt_neox", "pythia-410m", 405334016 },
	{ "model/gpt_neox", "pythia-1b", 1011781632 },
	{ "model/gpt_neox", "pythia-1.4b", 1414647808 },
	{ "model/gpt_neox", "pythia-2.8b", 2775208960 },
	{ "model/gpt_neox", "pythia-6.9b", 6857302016 },
	{ "model/gpt_neox", "pythia-12b", 11846072320 },
	{ "model/gpt_neox", "gpt-neox-20b", 20554567680 },
	{ "model/mixtral", "mixtral-8x7b", 46702792704 },
	{ "model/mixtral", "mixtral-8x22b", 140630071296 },
	{ "model/qwen3_moe", "qwen3-30b-a3b", 30532122624 },
	{ "model/qwen3_moe", "qwen3-235b-a22b", 235093634560 },
	{ "model/olmoe", "olmoe-1b-7b", 6919161856 },
};

/* A model of options, pairs that end with NULL; closed by done(). */
struct model {
	const struct zr_desc *desc;
	struct zr_host *h;
	struct zr_inst *inst; /* NULL: refused */
	void *opts;
	struct zr_model_decl d;
};

static struct model declare(const char *plugin, const char *const *pairs)
{
	struct model m = { .desc = test_plugin(plugin), .h = test_host(1) };
	const struct zr_model_v1 *v = test_iface(m.desc, "zr.model/1");
	m.opts = test_options(m.desc);
	for (; *pairs; pairs += 2)
		assert_int_equal(test_set(m.desc, m.opts, pairs[0], pairs[1]), 0);
	if (!test_create(m.h, m.desc, m.opts, &m.inst))
		assert_int_equal(v->declare(m.inst, &m.d), 0);
	else
		assert_int_equal(test_error_code(m.h), ZR_EINVAL);
	return m;
}

static void done(struct model *m)
{
	if (m->inst)
		m->desc->destroy(m->inst);
	free(m->opts);
	test_host_free(m->h);
}

#define DECLARE(plugin, ...) declare(plugin, (const char *const[]){ __VA_ARGS__, NULL })

#define SMALL "layers", "2", "heads", "4", "width", "16", "context", "32", "vocabulary", "61"

static void presets_have_the_published_sizes(void **state)
{
	size_t i;
	(void)state;
	for (i = 0; i < sizeof published / sizeof *published; i++) {
		struct model m = DECLARE(published[i].plugin, "preset", published[i].preset);
		int64_t sum = 0;
		uint32_t u, t;
		assert_non_null(m.inst);
		for (u = 0; u < m.d.n_units; u++)
			for (t = 0; t < m.d.units[u].n_tensors; t++)
				sum += m.d.units[u].tensors[t].dims[0] *
				       m.d.units[u].tensors[t].dims[1];
		if (sum != published[i].parameters)
			fail_msg("%s has %lld parameters, not %lld", published[i].preset,
				 (long long)sum, (long long)published[i].parameters);
		done(&m);
	}
}

static void assert_refused(struct model m, const char *text)
{
	assert_null(m.inst);
	if (!strstr(test_error(m.h), text))
		fail_msg("\"%s\" does not say \"%s\"", test_error(m.h), text);
	done(&m);
}

static void I7_options_that_cannot_be_are_refused_with_their_names(void **state)
{
	(void)state;
	assert_refused(DECLARE("model/gpt_neox", SMALL, "activation", "silu"),
		       "activation = silu needs a gate");
	assert_refused(DECLARE("model/gpt_neox", SMALL, "rope_fraction", "0.1"),
		       "rope_fraction = 0.1 of head_dim = 4 is no even number");
	assert_refused(DECLARE("model/phi3", SMALL, "rope_scaling", "longrope"),
		       "rope_short = : rope_scaling = longrope needs 2 positive numbers");
	assert_refused(DECLARE("model/phi3", SMALL, "rope_scaling", "longrope", "rope_short",
			       "1, 2", "rope_long", "[1,2,3]"),
		       "rope_long = [1,2,3]: rope_scaling = longrope needs 2 positive numbers");
	assert_refused(DECLARE("model/qwen3", "layers", "2", "heads", "4"),
		       "width is not set: give it, or choose a preset");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_have_the_published_sizes),
		cmocka_unit_test(I7_options_that_cannot_be_are_refused_with_their_names),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
