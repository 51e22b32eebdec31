/* SPDX-License-Identifier: Apache-2.0
 *
 * t_gpt2_options.c - what model/gpt2 declares for its options, and what it refuses.
 */
#include "tests/lib/model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

static const struct fixture_setup tiny = {
	.workers = 1, .dtype = ZR_F32, .batch = 2, .length = 13
};

static int64_t preset_parameters(const char *size, struct zr_model_decl *d, double *residual_std)
{
	const struct zr_desc *desc = test_plugin("model/gpt2");
	const struct zr_model_v1 *v = test_iface(desc, "zr.model/1");
	struct zr_host *h = test_host(1);
	struct zr_inst *m;
	void *opts = test_options(desc);
	int64_t sum = 0;
	uint32_t u, i;
	assert_int_equal(test_set(desc, opts, "size", size), 0);
	assert_int_equal(test_create(h, desc, opts, &m), 0);
	assert_int_equal(v->declare(m, d), 0);
	for (u = 0; u < d->n_units; u++)
		for (i = 0; i < d->units[u].n_tensors; i++) {
			const struct zr_tensor *t = &d->units[u].tensors[i];
			sum += t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
			if (!strcmp(t->name, "h.0.mlp.c_proj.weight"))
				*residual_std = t->std;
		}
	desc->destroy(m);
	free(opts);
	test_host_free(h);
	return sum;
}

static void presets_have_the_published_sizes(void **state)
{
	static const struct {
		const char *size;
		int64_t parameters, layers;
	} want[] = { { "124m", 124439808, 12 },
		     { "355m", 354823168, 24 },
		     { "774m", 774030080, 36 },
		     { "1558m", 1557611200, 48 } };
	struct zr_model_decl d;
	double std = 0;
	int i;
	(void)state;
	for (i = 0; i < 4; i++) {
		assert_int_equal(preset_parameters(want[i].size, &d, &std), want[i].parameters);
		assert_int_equal(d.n_layers, want[i].layers + 2);
		assert_int_equal(d.vocabulary, 50257);
		assert_int_equal(d.context, 1024);
		assert_true(fabs(std - 0.02 / sqrt(2.0 * (double)want[i].layers)) < 1e-15);
	}
}

static void tensors_carry_hugging_faces_names_and_shapes(void **state)
{
	static const struct {
		const char *name;
		int64_t rows, cols;
		double mean, std;
	} want[] = {
		{ "wte.weight", 97, 24, 0, 0.02 },
		{ "wpe.weight", 16, 24, 0, 0.02 },
		{ "h.0.ln_1.weight", 24, 1, 1, 0 },
		{ "h.0.ln_1.bias", 24, 1, 0, 0 },
		{ "h.0.attn.c_attn.weight", 24, 72, 0, 0.02 },
		{ "h.0.attn.c_attn.bias", 72, 1, 0, 0 },
		{ "h.0.attn.c_proj.weight", 24, 24, 0, 0.01 },
		{ "h.0.attn.c_proj.bias", 24, 1, 0, 0 },
		{ "h.0.ln_2.weight", 24, 1, 1, 0 },
		{ "h.0.ln_2.bias", 24, 1, 0, 0 },
		{ "h.0.mlp.c_fc.weight", 24, 96, 0, 0.02 },
		{ "h.0.mlp.c_fc.bias", 96, 1, 0, 0 },
		{ "h.0.mlp.c_proj.weight", 96, 24, 0, 0.01 },
		{ "h.0.mlp.c_proj.bias", 24, 1, 0, 0 },
	};
	struct fixture *r = fixture_new(tiny);
	int i;
	(void)state;
	for (i = 0; i < 14; i++) {
		assert_string_equal(r->tensor[i]->name, want[i].name);
		assert_int_equal(r->tensor[i]->dims[0], want[i].rows);
		assert_int_equal(r->tensor[i]->dims[1], want[i].cols);
		assert_true(r->tensor[i]->mean == want[i].mean &&
			    fabs(r->tensor[i]->std - want[i].std) < 1e-15);
	}
	assert_int_equal(r->n_tensors, 28);
	assert_string_equal(r->tensor[14]->name, "h.1.ln_1.weight");
	assert_string_equal(r->tensor[27]->name, "ln_f.bias");
	fixture_free(r);
}

/* Text of what creation says to options (pairs), "" if it agrees. */
static const char *refusal(struct zr_host *h, const char *const *pairs)
{
	const struct zr_desc *desc = test_plugin("model/gpt2");
	void *opts = test_options(desc);
	struct zr_inst *m;
	test_clear(h);
	for (; *pairs; pairs += 2)
		assert_int_equal(test_set(desc, opts, pairs[0], pairs[1]), 0);
	if (!test_create(h, desc, opts, &m))
		desc->destroy(m);
	else
		assert_int_equal(test_error_code(h), ZR_EINVAL);
	free(opts);
	return test_error(h);
}

static void I7_options_that_cannot_be_are_refused_with_their_names(void **state)
{
	static const char *const heads[] = { "size", "124m", "heads", "5", NULL };
	static const char *const nothing[] = { "layers", "2", "heads", "2", NULL };
	static const char *const vocabulary[] = { "layers", "2",       "heads", "2", "width",
						  "8",      "context", "8",     NULL };
	static const char *const override[] = { "size", "124m", "heads", "6", "width", "96", NULL };
	struct zr_host *h = test_host(1);
	(void)state;
	assert_string_equal(refusal(h, heads), "heads = 5 does not divide width = 768");
	assert_string_equal(refusal(h, nothing), "width is not set: give it, or choose a size");
	assert_string_equal(refusal(h, vocabulary),
			    "vocabulary is not set: give it, or choose a size");
	assert_string_equal(refusal(h, override), "");
	test_host_free(h);
}

static void values_out_of_range_are_the_tables(void **state)
{
	static const char *const bad[][2] = { { "size", "125m" },  { "layers", "0" },
					      { "heads", "-1" },   { "width", "0" },
					      { "context", "0" },  { "vocabulary", "1" },
					      { "dropout", "1" },  { "dropout", "-0.1" },
					      { "init_std", "-1" } };
	const struct zr_desc *desc = test_plugin("model/gpt2");
	void *opts = test_options(desc);
	unsigned i;
	(void)state;
	for (i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(test_set(desc, opts, bad[i][0], bad[i][1]), -1);
	free(opts);
}

static void vocabulary_comes_from_the_data_unless_given(void **state)
{
	const struct zr_desc *desc = test_plugin("model/gpt2");
	const struct zr_model_v1 *v = test_iface(desc, "zr.model/1");
	struct zr_facts facts = { .size = sizeof facts, .vocabulary = 256 };
	struct zr_host *h = test_host(1);
	struct zr_model_decl d;
	struct zr_inst *m;
	int given;
	(void)state;
	for (given = 0; given < 2; given++) {
		void *opts = test_options(desc);
		test_set(desc, opts, "layers", "1");
		test_set(desc, opts, "heads", "1");
		test_set(desc, opts, "width", "8");
		test_set(desc, opts, "context", "8");
		if (given)
			test_set(desc, opts, "vocabulary", "300");
		assert_int_equal(desc->resolve(h, &facts, opts), 0);
		assert_int_equal(desc->create(h, opts, &m), 0);
		assert_int_equal(v->declare(m, &d), 0);
		assert_int_equal(d.vocabulary, given ? 300 : 256);
		desc->destroy(m);
		free(opts);
	}
	test_host_free(h);
}

static void longer_sequences_than_the_context_are_refused(void **state)
{
	struct fixture *r = fixture_new(tiny);
	struct zr_layer_bytes b = { .size = sizeof b };
	(void)state;
	assert_int_equal(r->v->bytes(r->model, 1, 2, 17, ZR_F32, r->ops, &b), ZR_EINVAL);
	assert_string_equal(test_error(r->host),
			    "sequences of 17 tokens are longer than context = 16");
	fixture_free(r);
}

static void a_device_without_an_operation_is_refused_by_its_name(void **state)
{
	struct fixture *r = fixture_new(tiny);
	struct zr_ops ops = *r->ops;
	struct zr_layer_bytes b = { .size = sizeof b };
	(void)state;
	ops.attention_bwd = NULL;
	assert_int_equal(r->v->bytes(r->model, 1, 2, 13, ZR_F32, &ops, &b), ZR_ENOTSUP);
	assert_string_equal(test_error(r->host), "the device has no operation attention_bwd");
	fixture_free(r);
}

static void a_refused_allocation_leaves_nothing_behind(void **state)
{
	const struct zr_desc *desc = test_plugin("model/gpt2");
	struct zr_host *h = test_host(1);
	struct zr_inst *m;
	int nth, rc = -1;
	(void)state;
	for (nth = 1; rc; nth++) {
		void *opts = test_options(desc);
		test_set(desc, opts, "size", "124m");
		test_refuse(h, nth);
		rc = test_create(h, desc, opts, &m);
		if (rc) {
			assert_int_equal(rc, ZR_ENOMEM);
			assert_int_equal(test_bytes(h), 0);
		}
		free(opts);
	}
	assert_true(nth > 4);
	test_refuse(h, 0);
	desc->destroy(m);
	test_host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_have_the_published_sizes),
		cmocka_unit_test(tensors_carry_hugging_faces_names_and_shapes),
		cmocka_unit_test(I7_options_that_cannot_be_are_refused_with_their_names),
		cmocka_unit_test(values_out_of_range_are_the_tables),
		cmocka_unit_test(vocabulary_comes_from_the_data_unless_given),
		cmocka_unit_test(longer_sequences_than_the_context_are_refused),
		cmocka_unit_test(a_device_without_an_operation_is_refused_by_its_name),
		cmocka_unit_test(a_refused_allocation_leaves_nothing_behind),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpt2 options", tests, NULL, NULL);
}
