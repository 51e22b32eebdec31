/* SPDX-License-Identifier: Apache-2.0
 *
 * t_llama_options.c - what model/llama declares for its options, and what it refuses.
 */
#include "tests/lib/model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

#define SMALL "layers", "2", "heads", "4", "width", "16", "context", "32", "vocabulary", "61"

/* A model of options, pairs that end with NULL; closed by done(). */
struct model {
	const struct zr_desc *desc;
	const struct zr_model_v1 *v;
	struct zr_host *h;
	struct zr_inst *inst; /* NULL: refused */
	void *opts;
	struct zr_model_decl d;
};

static struct model declare(const char *const *pairs)
{
	struct model m = { .desc = test_plugin("model/llama"), .h = test_host(1) };
	m.v = test_iface(m.desc, "zr.model/1");
	m.opts = test_options(m.desc);
	for (; *pairs; pairs += 2)
		assert_int_equal(test_set(m.desc, m.opts, pairs[0], pairs[1]), 0);
	if (!test_create(m.h, m.desc, m.opts, &m.inst))
		assert_int_equal(m.v->declare(m.inst, &m.d), 0);
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

#define DECLARE(...) declare((const char *const[]){ __VA_ARGS__, NULL })

/* Text of a key of config.json, NULL where there is none. */
static const char *meta(const struct model *m, const char *key)
{
	const char *const *k;
	for (k = m->d.meta; k[0]; k += 2)
		if (!strcmp(k[0], key))
			return k[1];
	return NULL;
}

static void assert_meta(const struct model *m, const char *key, const char *value)
{
	const char *got = meta(m, key);
	if (!got || strcmp(got, value))
		fail_msg("%s is %s, not %s", key, got ? got : "missing", value);
}

/* ---- presets ---- */

static void presets_have_the_published_sizes(void **state)
{
	static const struct {
		const char *preset;
		int64_t parameters, layers, vocabulary, context;
	} want[] = {
		{ "tinyllama-1.1b", 1100048384, 22, 32000, 2048 },
		{ "llama2-7b", 6738415616, 32, 32000, 4096 },
		{ "llama2-13b", 13015864320, 40, 32000, 4096 },
		{ "llama3-8b", 8030261248, 32, 128256, 8192 },
		{ "llama3.1-8b", 8030261248, 32, 128256, 131072 },
		{ "llama3.2-1b", 1235814400, 16, 128256, 131072 },
		{ "llama3.2-3b", 3212749824, 28, 128256, 131072 },
		{ "qwen2-0.5b", 494032768, 24, 151936, 131072 },
		{ "qwen2-1.5b", 1543714304, 28, 151936, 131072 },
		{ "qwen2-7b", 7615616512, 28, 152064, 131072 },
	};
	size_t i;
	(void)state;
	for (i = 0; i < sizeof want / sizeof *want; i++) {
		struct model m = DECLARE("preset", want[i].preset);
		int64_t sum = 0;
		uint32_t u, t;
		for (u = 0; u < m.d.n_units; u++)
			for (t = 0; t < m.d.units[u].n_tensors; t++)
				sum += m.d.units[u].tensors[t].dims[0] *
				       m.d.units[u].tensors[t].dims[1];
		assert_int_equal(sum, want[i].parameters);
		assert_int_equal(m.d.n_layers, want[i].layers + 2);
		assert_int_equal(m.d.vocabulary, want[i].vocabulary);
		assert_int_equal(m.d.context, want[i].context);
		done(&m);
	}
}

static void what_is_given_beside_a_preset_overrides_it(void **state)
{
	struct model m = DECLARE("preset", "llama3.2-1b", "layers", "1", "vocabulary", "300",
				 "tied", "no", "rope_scaling", "default");
	(void)state;
	assert_int_equal(m.d.n_layers, 3);
	assert_int_equal(m.d.vocabulary, 300);
	assert_string_equal(m.d.units[m.d.n_units - 1].name, "lm_head");
	assert_null(meta(&m, "rope_scaling"));
	assert_meta(&m, "hidden_size", "2048");
	done(&m);
}

/* ---- declaration ---- */

static void tensors_carry_hugging_faces_names_and_shapes(void **state)
{
	static const struct {
		const char *name;
		int64_t rows, cols;
		double mean, std;
	} want[] = {
		{ "input_layernorm.weight", 16, 1, 1, 0 },
		{ "self_attn.q_proj.weight", 24, 16, 0, 0.02 },
		{ "self_attn.k_proj.weight", 12, 16, 0, 0.02 },
		{ "self_attn.v_proj.weight", 12, 16, 0, 0.02 },
		{ "self_attn.o_proj.weight", 16, 24, 0, 0.01 },
		{ "post_attention_layernorm.weight", 16, 1, 1, 0 },
		{ "mlp.gate_proj.weight", 64, 16, 0, 0.02 },
		{ "mlp.up_proj.weight", 64, 16, 0, 0.02 },
		{ "mlp.down_proj.weight", 16, 64, 0, 0.01 },
		{ "self_attn.q_proj.bias", 24, 1, 0, 0 },
		{ "self_attn.k_proj.bias", 12, 1, 0, 0 },
		{ "self_attn.v_proj.bias", 12, 1, 0, 0 },
	};
	struct model m = DECLARE(SMALL, "kv_heads", "2", "head_dim", "6", "qkv_bias", "yes");
	char name[64];
	int i;
	(void)state;
	assert_string_equal(m.d.units[0].tensors[0].name, "model.embed_tokens.weight");
	assert_int_equal(m.d.units[2].n_tensors, 12);
	for (i = 0; i < 12; i++) {
		const struct zr_tensor *t = &m.d.units[2].tensors[i];
		snprintf(name, sizeof name, "model.layers.1.%s", want[i].name);
		assert_string_equal(t->name, name);
		assert_int_equal(t->dims[0], want[i].rows);
		assert_int_equal(t->dims[1], want[i].cols);
		assert_int_equal(t->ndim, want[i].cols > 1 ? 2 : 1);
		assert_true(t->mean == want[i].mean && fabs(t->std - want[i].std) < 1e-15);
	}
	assert_string_equal(m.d.units[3].tensors[0].name, "model.norm.weight");
	assert_string_equal(m.d.units[4].tensors[0].name, "lm_head.weight");
	assert_int_equal(m.d.n_units, 5);
	done(&m);
}

static void the_head_is_tied_or_a_unit_of_its_own(void **state)
{
	struct model tied = DECLARE(SMALL, "tied", "yes"), own = DECLARE(SMALL);
	(void)state;
	assert_int_equal(tied.d.n_units, 4);
	assert_int_equal(tied.d.layers[3].units[1], 0);
	assert_int_equal(tied.d.units[1].n_tensors, 9);
	assert_meta(&tied, "tie_word_embeddings", "true");
	assert_int_equal(own.d.n_units, 5);
	assert_int_equal(own.d.layers[3].units[1], 4);
	assert_meta(&own, "tie_word_embeddings", "false");
	done(&tied);
	done(&own);
}

/* Per token 6 per parameter of a product, and 6 T H D for attention's. */
static void operations_are_counted(void **state)
{
	struct model m = DECLARE(SMALL, "kv_heads", "2", "tied", "yes");
	double products = 2 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 64) + 16 * 61;
	(void)state;
	assert_true(m.d.flops_per_token == 6 * products + 6 * 32 * 16 * 2);
	done(&m);
}

static void config_json_gets_the_keys_of_its_family(void **state)
{
	struct model llama = DECLARE(SMALL),
		     qwen = DECLARE(SMALL, "qkv_bias", "yes", "kv_heads", "1", "norm_eps", "1e-6");
	(void)state;
	assert_meta(&llama, "model_type", "llama");
	assert_meta(&llama, "architectures", "LlamaForCausalLM");
	assert_meta(&llama, "num_hidden_layers", "2");
	assert_meta(&llama, "num_key_value_heads", "4");
	assert_meta(&llama, "head_dim", "4");
	assert_meta(&llama, "intermediate_size", "64");
	assert_meta(&llama, "max_position_embeddings", "32");
	assert_meta(&llama, "rms_norm_eps", "1e-05");
	assert_meta(&llama, "rope_theta", "10000.0");
	assert_null(meta(&llama, "rope_scaling"));
	assert_meta(&qwen, "model_type", "qwen2");
	assert_meta(&qwen, "architectures", "Qwen2ForCausalLM");
	assert_meta(&qwen, "num_key_value_heads", "1");
	assert_meta(&qwen, "rms_norm_eps", "1e-06");
	done(&llama);
	done(&qwen);
}

static void config_json_gets_the_scaling_rule(void **state)
{
	struct model llama3 = DECLARE("preset", "llama3.1-8b");
	struct model linear = DECLARE(SMALL, "rope_scaling", "linear", "rope_factor", "2.5");
	struct model yarn = DECLARE(SMALL, "rope_scaling", "yarn", "rope_factor", "4",
				    "rope_attention", "1.5", "rope_original_context", "8");
	(void)state;
	assert_meta(&llama3, "rope_theta", "500000.0");
	assert_meta(&llama3, "rope_scaling",
		    "{\"rope_type\": \"llama3\", \"factor\": 8.0, "
		    "\"original_max_position_embeddings\": 8192, "
		    "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0}");
	assert_meta(&linear, "rope_scaling", "{\"rope_type\": \"linear\", \"factor\": 2.5}");
	assert_meta(&yarn, "rope_scaling",
		    "{\"rope_type\": \"yarn\", \"factor\": 4.0, "
		    "\"original_max_position_embeddings\": 8, "
		    "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"attention_factor\": 1.5}");
	done(&llama3);
	done(&linear);
	done(&yarn);
}

/* ---- refusals ---- */

static void assert_refused(struct model m, const char *text)
{
	assert_null(m.inst);
	assert_string_equal(test_error(m.h), text);
	done(&m);
}

static void I7_options_that_cannot_be_are_refused_with_their_names(void **state)
{
	(void)state;
	assert_refused(DECLARE("layers", "2", "heads", "2"),
		       "width is not set: give it, or choose a preset");
	assert_refused(DECLARE("layers", "2", "heads", "2", "width", "8", "context", "8"),
		       "vocabulary is not set: give it, or choose a preset");
	assert_refused(DECLARE("preset", "llama3-8b", "heads", "5"),
		       "heads = 5 does not divide width = 4096: give head_dim, or other heads");
	assert_refused(DECLARE("preset", "llama3-8b", "kv_heads", "5"),
		       "kv_heads = 5 does not divide heads = 32");
	assert_refused(DECLARE(SMALL, "head_dim", "5"),
		       "head_dim = 5: rotary positions need an even number of at most 256");
	assert_refused(DECLARE(SMALL, "heads", "1", "width", "258"),
		       "head_dim = 258: rotary positions need an even number of at most 256");
	assert_refused(DECLARE(SMALL, "rope_scaling", "yarn"),
		       "rope_factor is not set: rope_scaling = yarn needs it");
	assert_refused(DECLARE("preset", "llama3.1-8b", "rope_low_freq", "4"),
		       "rope_low_freq = 4 is not below rope_high_freq = 4");
}

static void values_out_of_range_are_the_tables(void **state)
{
	static const char *const bad[][2] = { { "preset", "llama4" },   { "layers", "0" },
					      { "kv_heads", "0" },      { "head_dim", "257" },
					      { "vocabulary", "1" },    { "norm_eps", "0" },
					      { "rope_theta", "1" },    { "rope_scaling", "ntk" },
					      { "rope_factor", "0.5" }, { "tied", "maybe" },
					      { "init_std", "-1" },     { "rope_low_freq", "0" } };
	const struct zr_desc *desc = test_plugin("model/llama");
	void *opts = test_options(desc);
	unsigned i;
	(void)state;
	for (i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(test_set(desc, opts, bad[i][0], bad[i][1]), -1);
	free(opts);
}

static void vocabulary_comes_from_the_data_unless_given(void **state)
{
	const struct zr_desc *desc = test_plugin("model/llama");
	struct zr_facts facts = { .size = sizeof facts, .vocabulary = 256 };
	struct zr_host *h = test_host(1);
	struct model m = { .v = test_iface(desc, "zr.model/1") };
	void *opts = test_options(desc);
	(void)state;
	test_set(desc, opts, "layers", "1");
	test_set(desc, opts, "heads", "1");
	test_set(desc, opts, "width", "8");
	test_set(desc, opts, "context", "8");
	assert_int_equal(desc->resolve(h, &facts, opts), 0);
	assert_int_equal(desc->create(h, opts, &m.inst), 0);
	assert_int_equal(m.v->declare(m.inst, &m.d), 0);
	assert_int_equal(m.d.vocabulary, 256);
	desc->destroy(m.inst);
	free(opts);
	test_host_free(h);
}

static void a_layer_that_cannot_run_is_refused_with_the_reason(void **state)
{
	struct fixture *r = fixture_new((struct fixture_setup){
		.model = "model/llama", .workers = 1, .dtype = ZR_F32, .batch = 2, .length = 13 });
	struct zr_ops ops = *r->ops;
	struct zr_layer_bytes b = { .size = sizeof b };
	(void)state;
	assert_int_equal(r->v->bytes(r->model, 1, 2, 17, ZR_F32, r->ops, &b), ZR_EINVAL);
	assert_string_equal(test_error(r->host),
			    "sequences of 17 tokens are longer than context = 16");
	ops.rotary = NULL;
	assert_int_equal(r->v->bytes(r->model, 1, 2, 13, ZR_F32, &ops, &b), ZR_ENOTSUP);
	assert_string_equal(test_error(r->host), "the device has no operation rotary");
	ops = *r->ops;
	ops.size = offsetof(struct zr_ops, swiglu_bwd); /* built before there was one */
	assert_int_equal(r->v->bytes(r->model, 1, 2, 13, ZR_F32, &ops, &b), ZR_ENOTSUP);
	assert_string_equal(test_error(r->host), "the device has no operation swiglu_bwd");
	fixture_free(r);
}

static void a_refused_allocation_leaves_nothing_behind(void **state)
{
	const struct zr_desc *desc = test_plugin("model/llama");
	struct zr_host *h = test_host(1);
	struct zr_inst *m;
	int nth, rc = -1;
	(void)state;
	for (nth = 1; rc; nth++) {
		void *opts = test_options(desc);
		test_set(desc, opts, "preset", "qwen2-0.5b");
		test_refuse(h, nth);
		rc = test_create(h, desc, opts, &m);
		if (rc) {
			assert_int_equal(rc, ZR_ENOMEM);
			assert_int_equal(test_bytes(h), 0);
			free(opts);
		} else {
			test_refuse(h, 0);
			desc->destroy(m);
			free(opts);
		}
	}
	assert_true(nth > 4);
	test_host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_have_the_published_sizes),
		cmocka_unit_test(what_is_given_beside_a_preset_overrides_it),
		cmocka_unit_test(tensors_carry_hugging_faces_names_and_shapes),
		cmocka_unit_test(the_head_is_tied_or_a_unit_of_its_own),
		cmocka_unit_test(operations_are_counted),
		cmocka_unit_test(config_json_gets_the_keys_of_its_family),
		cmocka_unit_test(config_json_gets_the_scaling_rule),
		cmocka_unit_test(I7_options_that_cannot_be_are_refused_with_their_names),
		cmocka_unit_test(values_out_of_range_are_the_tables),
		cmocka_unit_test(vocabulary_comes_from_the_data_unless_given),
		cmocka_unit_test(a_layer_that_cannot_run_is_refused_with_the_reason),
		cmocka_unit_test(a_refused_allocation_leaves_nothing_behind),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("llama options", tests, NULL, NULL);
}
