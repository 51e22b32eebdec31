/* SPDX-License-Identifier: Apache-2.0
 *
 * t_llama.c - model/llama on device/cpu: loss, logits and every gradient against Hugging Face's
 * transformers in float64 (golden/make_llama.py), for each way in which configurations differ.
 */
#include "tests/lib/model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

#define B 2
#define T 13
#define V 61

#define SHAPE "vocabulary", "61", "width", "16", "ffn_width", "20"
#define LLAMA                                                                                      \
	{                                                                                          \
		.model = "model/llama", .workers = 1, .dtype = ZR_F32, .batch = B, .length = T,    \
		.options = {                                                                       \
			SHAPE
#define END                                                                                        \
	}                                                                                          \
	}

/* As the table of the same names in golden/make_llama.py, and in its order. */
static const struct {
	const char *name;
	struct fixture_setup setup;
} cases[] = {
	{ "mha", LLAMA, "heads", "4", END },
	{ "gqa-linear", LLAMA, "heads", "4", "kv_heads", "2", "rope_scaling", "linear",
	  "rope_factor", "4", END },
	{ "mqa-tied-llama3", LLAMA, "heads", "2", "kv_heads", "1", "tied", "yes", "rope_theta",
	  "100", "rope_scaling", "llama3", "rope_factor", "8", "rope_original_context", "64", END },
	{ "mha-tied-yarn", LLAMA, "heads", "2", "tied", "yes", "rope_theta", "100", "rope_scaling",
	  "yarn", "rope_factor", "4", "rope_beta_fast", "4", "rope_beta_slow", "0.25", END },
	{ "head-dim", LLAMA, "heads", "3", "head_dim", "10", END },
	{ "qwen2", LLAMA, "heads", "4", "kv_heads", "2", "tied", "yes", "qkv_bias", "yes",
	  "norm_eps", "1e-6", "rope_theta", "1e6", END },
	{ "gqa-linear", LLAMA, "heads", "4", "kv_heads", "2", "rope_scaling", "linear",
	  "rope_factor", "4", END },
	{ "qwen2", LLAMA, "heads", "4", "kv_heads", "2", "tied", "yes", "qkv_bias", "yes",
	  "norm_eps", "1e-6", "rope_theta", "1e6", END },
};
#define CASES (sizeof cases / sizeof *cases)
#define PLAIN (CASES - 2) /* the others are cut into documents */

/* ---- golden values ---- */

static FILE *golden_open(void)
{
	const char *dir = getenv("ZR_SRCDIR");
	char path[4096];
	FILE *f;
	snprintf(path, sizeof path, "%s/tests/golden/llama.bin", dir ? dir : ".");
	f = fopen(path, "rb");
	assert_non_null(f);
	return f;
}

/* Norm of a - b over the norm of b, b being the next n values of the file. */
static double distance(FILE *f, const float *a, int64_t n)
{
	double diff = 0, norm = 0;
	int64_t i;
	for (i = 0; i < n; i++) {
		float b;
		assert_int_equal(fread(&b, sizeof b, 1, f), 1);
		diff += ((double)a[i] - b) * ((double)a[i] - b);
		norm += (double)b * b;
	}
	return sqrt(diff / norm);
}

/* NaN compares as bad by `!(x <= y)`. */
static void assert_near(const char *name, const char *what, double distance, double limit)
{
	if (!(distance <= limit))
		fail_msg("%s: %s: relative norm of the difference %.3g > %.3g", name, what,
			 distance, limit);
}

/* A batch of the same two sequences `times` over has the same mean loss and gradients. */
static void repeat(struct fixture *r, int times)
{
	for (int i = B * T; i < times * B * T; i++) {
		r->tokens[i] = r->tokens[i - B * T];
		r->targets[i] = r->targets[i - B * T];
	}
}

static void compare_with_golden(FILE *f, size_t at, int32_t dtype, int times, float scale,
				double limit)
{
	struct fixture_setup s = cases[at].setup;
	struct fixture *r;
	float logits[V];
	int t;
	s.dtype = dtype;
	s.batch = times * B;
	r = fixture_new(s);
	repeat(r, times);
	if (at >= PLAIN)
		fixture_documents(r);
	fixture_loss(r, 0);
	fixture_logits(r, B * T - 1, logits);
	r->scale = scale;
	fixture_step(r, 0);
	for (int64_t i = 0; i < r->total; i++)
		r->gradient[i] /= scale;
	assert_near(cases[at].name, "loss", distance(f, r->loss_rows, B * T), limit);
	assert_near(cases[at].name, "logits", distance(f, logits, V), limit);
	for (t = 0; t < r->n_tensors; t++)
		assert_near(cases[at].name, r->tensor[t]->name,
			    distance(f, r->gradient + r->start[t], r->numel[t]), limit);
	fixture_free(r);
}

static void compare_all(int32_t dtype, int times, float scale, double limit)
{
	FILE *f = golden_open();
	size_t i;
	for (i = 0; i < CASES && (times == 1 || i < PLAIN); i++) /* whose weights do not repeat */
		compare_with_golden(f, i, dtype, times, scale, limit);
	assert_true(i < CASES || fgetc(f) == EOF);
	fclose(f);
}

static void loss_and_every_gradient_agree_with_transformers(void **state)
{
	(void)state;
	compare_all(ZR_F32, 1, 1, 1e-5);
}

/* Rows enough for several partial sums of the norms' gradients. */
static void repeated_sequences_have_the_same_gradients(void **state)
{
	(void)state;
	compare_all(ZR_F32, 6, 1, 1e-5);
}

static void bf16_stays_close(void **state)
{
	(void)state;
	compare_all(ZR_BF16, 1, 1, 4e-2);
}

static void fp16_with_a_loss_scale_is_eight_times_closer(void **state)
{
	(void)state;
	compare_all(ZR_F16, 1, 1024, 4e-2 / 8);
}

/* ---- what holds for every configuration ---- */

static void same(const char *name, const char *what, const void *a, const void *b, int64_t n)
{
	if (memcmp(a, b, (size_t)n * sizeof(float)))
		fail_msg("%s: %s differ", name, what);
}

static void evaluation_gives_the_loss_of_training(void **state)
{
	size_t i;
	(void)state;
	for (i = 0; i < CASES; i++) {
		struct fixture *r = fixture_new(cases[i].setup);
		float rows[B * T];
		fixture_loss(r, 1);
		memcpy(rows, r->loss_rows, sizeof rows);
		fixture_loss(r, 0);
		same(cases[i].name, "losses", rows, r->loss_rows, B * T);
		fixture_free(r);
	}
}

/* The second of two equal contributions doubles each gradient. */
static void accumulating_adds_to_what_is_there(void **state)
{
	size_t i;
	(void)state;
	for (i = 0; i < CASES; i++) {
		struct fixture *r = fixture_new(cases[i].setup);
		float *once = malloc((size_t)r->total * sizeof *once);
		double diff = 0, norm = 0;
		assert_non_null(once);
		fixture_step(r, 0);
		memcpy(once, r->gradient, (size_t)r->total * sizeof *once);
		fixture_step(r, 1);
		for (int64_t k = 0; k < r->total; k++) {
			diff += fabs((double)r->gradient[k] - 2 * (double)once[k]);
			norm += fabs(2 * (double)once[k]);
		}
		assert_near(cases[i].name, "gradient", diff / norm, 1e-6);
		free(once);
		fixture_free(r);
	}
}

static void same_bits(const char *name, struct fixture *a, struct fixture *b)
{
	fixture_step(a, 0);
	fixture_step(b, 0);
	assert_true(a->loss_sum[0] == b->loss_sum[0]);
	same(name, "gradients", a->gradient, b->gradient, a->total);
	fixture_free(a);
	fixture_free(b);
}

static void I1_same_bits_for_any_number_of_workers(void **state)
{
	/* Large enough for several tiles of everything. */
	struct fixture_setup s = { .model = "model/llama",
				   .workers = 1,
				   .batch = 3,
				   .length = 100,
				   .options = { "width", "96", "heads", "6", "kv_heads", "2",
						"context", "100", "vocabulary", "1009", "qkv_bias",
						"yes" } };
	(void)state;
	for (s.dtype = ZR_F32; s.dtype <= ZR_F16; s.dtype++) {
		struct fixture_setup two = s;
		two.workers = 2;
		same_bits("workers", fixture_new(s), fixture_new(two));
	}
}

/* The largest distance of gradients, to the largest gradient. */
static double apart(const struct fixture *a, const struct fixture *b)
{
	double most = 0, largest = 0;
	int64_t i;
	for (i = 0; i < a->total; i++) {
		most = fmax(most, fabs((double)a->gradient[i] - (double)b->gradient[i]));
		largest = fmax(largest, fabs((double)a->gradient[i]));
	}
	return most / largest;
}

static void weights_that_touch_are_one_operand(void **state)
{
	static const struct fixture_setup setup = LLAMA, "heads", "4", "kv_heads", "2", "width",
					  "64", "ffn_width", "96", END;
	static const struct {
		int32_t dtype;
		double limit;
	} in[] = { { ZR_F32, 1e-6 }, { ZR_BF16, 2e-2 } };
	size_t i;
	(void)state;
	for (i = 0; i < sizeof in / sizeof *in; i++) {
		struct fixture_setup one = setup;
		struct fixture *a, *b;
		double loss, distance;
		one.dtype = in[i].dtype;
		a = fixture_new(one);
		one.touching = 1;
		b = fixture_new(one);
		loss = fixture_step(a, 0);
		assert_true(fixture_step(b, 0) == loss);
		distance = apart(a, b);
		printf("# touching, type %d: gradients %.2g apart\n", one.dtype, distance);
		assert_true(distance <= in[i].limit);
		if (one.dtype != ZR_F32)
			assert_true(b->work_bytes < a->work_bytes);
		fixture_free(a);
		fixture_free(b);
	}
}

static void touches_nothing_itself_I1(void **state)
{
	size_t i;
	(void)state;
	for (i = 0; i < CASES; i++) {
		struct fixture_setup s = cases[i].setup, apart;
		s.dtype = i % 2 ? ZR_BF16 : ZR_F32;
		apart = s;
		apart.separate = 1;
		same_bits(cases[i].name, fixture_new(s), fixture_new(apart));
	}
}

/* It acts on sequences longer than the context alone. */
static void dynamic_scaling_is_none_within_the_context(void **state)
{
	struct fixture_setup s = cases[0].setup, dynamic = s;
	int n = 0;
	(void)state;
	while (dynamic.options[n])
		n++;
	dynamic.options[n++] = "rope_scaling";
	dynamic.options[n++] = "dynamic";
	dynamic.options[n++] = "rope_factor";
	dynamic.options[n++] = "4";
	same_bits("dynamic", fixture_new(s), fixture_new(dynamic));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_and_every_gradient_agree_with_transformers),
		cmocka_unit_test(repeated_sequences_have_the_same_gradients),
		cmocka_unit_test(bf16_stays_close),
		cmocka_unit_test(fp16_with_a_loss_scale_is_eight_times_closer),
		cmocka_unit_test(evaluation_gives_the_loss_of_training),
		cmocka_unit_test(accumulating_adds_to_what_is_there),
		cmocka_unit_test(I1_same_bits_for_any_number_of_workers),
		cmocka_unit_test(weights_that_touch_are_one_operand),
		cmocka_unit_test(touches_nothing_itself_I1),
		cmocka_unit_test(dynamic_scaling_is_none_within_the_context),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("llama", tests, NULL, NULL);
}
