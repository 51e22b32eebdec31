/* SPDX-License-Identifier: Apache-2.0
 *
 * t_lora.c - adapter/lora in front of a model: adapters that add nothing change no bit, gradients
 * agree with finite differences, also with dropout, and no gradient of an adapted weight is made.
 * What adapters learn is compared with PEFT in tests/system/adapter.sh.
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

static const char *const models[] = { "model/gpt2", "model/llama", "model/mixtral", NULL };

/* Of a mixture all experts are chosen: a small step changes no choice. */
static struct fixture_setup setup_of(const char *model, int32_t dtype)
{
	struct fixture_setup s = {
		.model = model, .workers = 2, .dtype = dtype, .batch = 2, .length = 9
	};
	if (!strcmp(model, "model/mixtral")) {
		const char *const more[] = { "experts", "3",         "experts_per_token",
					     "3",       "ffn_width", "20" };
		memcpy(s.options, more, sizeof more);
	}
	return s;
}

static const char all_linear[] = "all-linear";
/* and the embedding, which is the head of gpt2 */
static const char tokens_too[] = "wte embed_tokens c_attn c_proj c_fc *_proj w1 w2 w3";
/* and the head, but that of gpt2, which is the embedding */
static const char heads_too[] = "lm_head *_proj w1 w2 w3";

static struct fixture *fixture_of(const char *model, const char *dropout, const char *targets,
				  int32_t dtype)
{
	const char *const adapter[] = { "r",       "3",     "alpha",   "4.5",
					"dropout", dropout, "targets", targets };
	struct fixture_setup s = setup_of(model, dtype);
	memcpy(s.adapter, adapter, sizeof adapter);
	return fixture_new(s);
}

static int is_adapter(const struct fixture *r, int t)
{
	return (r->tensor[t]->flags & ZR_TENSOR_ADDED) != 0;
}

/* Whether adapters, and what goes into them, are all that learns from a tensor. */
static int is_adapted(const struct fixture *r, int t, const char *targets)
{
	if (r->tensor[t]->flags & ZR_TENSOR_HEAD)
		return targets == heads_too;
	if (r->tensor[t]->flags & ZR_TENSOR_EMBEDDING)
		return targets == tokens_too;

	return r->tensor[t]->map != ZR_MAP_NONE;
}

/* Sets all B, and A of embeddings, to zero. */
static void add_nothing(struct fixture *r)
{
	for (int t = 0; t < r->n_tensors; t++)
		if (strstr(r->tensor[t]->name, "lora_B") ||
		    strstr(r->tensor[t]->name, "lora_embedding_A"))
			memset(r->value + r->start[t], 0, (size_t)r->numel[t] * sizeof(float));
	fixture_load(r);
}

static void adapters_that_add_nothing_change_no_bit(void **state)
{
	(void)state;
	for (int m = 0; models[m]; m++)
		for (int k = 0; k < (m ? 6 : 4); k++) {
			static const char *const targets[] = { all_linear, tokens_too, heads_too };
			int32_t dtype = k % 2 ? ZR_BF16 : ZR_F32;
			struct fixture *with = fixture_of(models[m], "0", targets[k / 2], dtype);
			struct fixture *without = fixture_new(setup_of(models[m], dtype));
			add_nothing(with);
			memcpy(with->value, without->value, (size_t)without->total * sizeof(float));
			fixture_load(with);
			double a = fixture_loss(with, 0), b = fixture_loss(without, 0);
			if (a != b)
				fail_msg("%s, %s: %.17g with adapters, %.17g without", models[m],
					 k % 2 ? "bf16" : "fp32", a, b);
			assert_true(fixture_loss(with, 1) == fixture_loss(without, 1));
			fixture_free(with);
			fixture_free(without);
		}
}

/* But for those of a head that is the embedding: the head knows of no adapter. */
static void check_frozen(const char *targets)
{
	for (int m = targets == heads_too; models[m]; m++) {
		struct fixture *r = fixture_of(models[m], "0", targets, ZR_F32);
		for (int t = 0; t < r->n_tensors; t++)
			assert_int_equal((r->tensor[t]->flags & ZR_TENSOR_FROZEN) != 0,
					 !is_adapter(r, t));
		fixture_step(r, 0); /* gradients that are not written are NaN */
		for (int t = 0; t < r->n_tensors; t++) {
			const float *g = r->gradient + r->start[t];
			int64_t unwritten = 0;
			for (int64_t i = 0; i < r->numel[t]; i++)
				unwritten += isnan(g[i]) != 0;
			if (targets == tokens_too && !strcmp(r->tensor[t]->name, "wte.weight"))
				continue;
			assert_int_equal(unwritten, is_adapted(r, t, targets) ? r->numel[t] : 0);
		}
		fixture_free(r);
	}
}

static void adapted_weights_are_frozen(void **state)
{
	(void)state;
	check_frozen(all_linear);
	check_frozen(tokens_too);
	check_frozen(heads_too);
}

/* Of every tensor but the adapted weights: those of norms tell whether what goes on to the layers
 * below is right. */
static void gradients_agree_with_finite_differences(const char *model, const char *dropout,
						    const char *targets)
{
	struct fixture *r = fixture_of(model, dropout, targets, ZR_F32);
	const size_t bytes = (size_t)r->total * sizeof(float);
	float *at = malloc(bytes), *gradient = malloc(bytes);
	assert_true(at && gradient);
	memcpy(at, r->value, bytes);
	fixture_step(r, 0);
	memcpy(gradient, r->gradient, bytes);
	for (int t = 0; t < r->n_tensors; t++) {
		const int64_t lo = r->start[t], hi = lo + r->numel[t];
		if (is_adapted(r, t, targets))
			continue;
		double want = fixture_difference(r, 5000, lo, hi, at, 1e-3);
		double got = fixture_along(gradient, 5000, lo, hi);
		if (!(fabs(got - want) <= 5e-3 * fabs(want) + 5e-4))
			fail_msg("%s, %s: gradient %.6g, finite difference %.6g", model,
				 r->tensor[t]->name, got, want);
	}
	free(at);
	free(gradient);
	fixture_free(r);
}

static void gradients_are_right(void **state)
{
	(void)state;
	for (int m = 0; models[m]; m++) {
		gradients_agree_with_finite_differences(models[m], "0", all_linear);
		gradients_agree_with_finite_differences(models[m], "0.3", all_linear);
		gradients_agree_with_finite_differences(models[m], "0.3", tokens_too);
		if (m)
			gradients_agree_with_finite_differences(models[m], "0.3", heads_too);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adapters_that_add_nothing_change_no_bit),
		cmocka_unit_test(adapted_weights_are_frozen),
		cmocka_unit_test(gradients_are_right),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lora", tests, NULL, NULL);
}
