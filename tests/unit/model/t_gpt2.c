/* SPDX-License-Identifier: Apache-2.0
 *
 * t_gpt2.c - model/gpt2 on device/cpu: loss and every gradient against PyTorch's in float64
 * (golden/make_gpt2.py), and dropout against finite differences.
 */
#include "tests/lib/model_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

#define B 2
#define T 13
#define V 97

static const struct fixture_setup tiny = { .workers = 1, .dtype = ZR_F32, .batch = B, .length = T };

/* ---- golden values ---- */

struct golden {
	double loss[B * T], logits[V];
	double gradient[]; /* of all parameters */
};

/* The first case, or the second: sequences are cut into documents. */
static struct golden *golden_read(int64_t total, int packed)
{
	const char *dir = getenv("ZR_SRCDIR");
	size_t bytes = sizeof(struct golden) + (size_t)total * sizeof(double);
	struct golden *g = malloc(bytes);
	char path[4096];
	FILE *f;
	snprintf(path, sizeof path, "%s/tests/golden/gpt2.bin", dir ? dir : ".");
	f = fopen(path, "rb");
	assert_non_null(g);
	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	assert_int_equal(ftell(f), 2 * bytes);
	assert_int_equal(fseek(f, packed ? (long)bytes : 0, SEEK_SET), 0);
	assert_int_equal(fread(g, 1, bytes, f), bytes);
	fclose(f);
	return g;
}

/* Norm of a - b over the norm of b. NaN compares as bad by `!(x <= y)`. */
static double distance(const float *a, const double *b, int64_t n)
{
	double diff = 0, norm = 0;
	int64_t i;
	for (i = 0; i < n; i++) {
		diff += (a[i] - b[i]) * (a[i] - b[i]);
		norm += b[i] * b[i];
	}
	return sqrt(diff / norm);
}

static void assert_near(const char *name, double distance, double limit)
{
	if (!(distance <= limit))
		fail_msg("%s: relative norm of the difference %.3g > %.3g", name, distance, limit);
}

static void compare_case_with_golden(struct fixture_setup s, float scale, double limit, int packed)
{
	struct fixture *r = fixture_new(s);
	struct golden *g = golden_read(r->total, packed);
	float logits[V];
	int t;
	if (packed)
		fixture_documents(r);
	r->scale = scale;
	fixture_step(r, 0);
	for (int64_t i = 0; i < r->total; i++)
		r->gradient[i] /= scale;
	assert_near("loss", distance(r->loss_rows, g->loss, B * T), limit);
	for (t = 0; t < r->n_tensors; t++)
		assert_near(r->tensor[t]->name,
			    distance(r->gradient + r->start[t], g->gradient + r->start[t],
				     r->numel[t]),
			    limit);
	fixture_loss(r, 0);
	fixture_logits(r, B * T - 1, logits);
	assert_near("logits", distance(logits, g->logits, V), limit);
	free(g);
	fixture_free(r);
}

static void compare_with_golden(struct fixture_setup s, float scale, double limit)
{
	compare_case_with_golden(s, scale, limit, 0);
}

static void documents_agree_with_pytorch(void **state)
{
	struct fixture_setup s = tiny;
	(void)state;
	compare_case_with_golden(s, 1, 1e-5, 1);
	s.separate = 1;
	compare_case_with_golden(s, 1, 1e-5, 1);
	s.dtype = ZR_BF16;
	compare_case_with_golden(s, 1, 3e-2, 1);
}

static void loss_and_every_gradient_agree_with_pytorch(void **state)
{
	(void)state;
	compare_with_golden(tiny, 1, 1e-5);
}

static void bf16_stays_close_to_pytorch(void **state)
{
	struct fixture_setup s = tiny;
	(void)state;
	s.dtype = ZR_BF16;
	compare_with_golden(s, 1, 3e-2);
}

/* Eight times nearer than bf16 with its three bits more, and only if no gradient of an activation
 * is so small that it has fewer: they are about 1e-3 here, which a loss scale moves away from the
 * subnormals below 6e-5. */
static void fp16_with_a_loss_scale_is_eight_times_closer(void **state)
{
	struct fixture_setup s = tiny;
	(void)state;
	s.dtype = ZR_F16;
	compare_with_golden(s, 1024, 3e-2 / 8);
}

/* A scale past the range of fp16 shows in the gradients, in every tensor that is behind an
 * activation's. */
static void too_large_a_loss_scale_overflows_fp16(void **state)
{
	struct fixture_setup s = tiny;
	struct fixture *r;
	int64_t bad = 0;
	(void)state;
	s.dtype = ZR_F16;
	r = fixture_new(s);
	r->scale = 0x1p30f;
	fixture_step(r, 0);
	assert_true(isfinite(r->loss_sum[0]));
	for (int64_t i = r->start[0]; i < r->start[0] + r->numel[0]; i++)
		bad += !isfinite(r->gradient[i]);
	assert_true(bad > 0);
	fixture_free(r);
}

/* ---- gradients ---- */

static void loss_sum_is_the_sum_of_the_rows(void **state)
{
	struct fixture *r = fixture_new(tiny);
	double sum = 0;
	int i;
	(void)state;
	fixture_step(r, 0);
	for (i = 0; i < B * T; i++)
		sum += r->loss_rows[i];
	assert_true(sum == r->loss_sum[0]);
	fixture_free(r);
}

static void positions_beyond_the_sequence_get_no_gradient(void **state)
{
	struct fixture *r = fixture_new(tiny);
	const float *dwpe = r->gradient + r->start[1];
	int64_t C = r->tensor[1]->dims[1], i;
	(void)state;
	assert_string_equal(r->tensor[1]->name, "wpe.weight");
	fixture_step(r, 0);
	for (i = 0; i < r->numel[1]; i++)
		if (i < T * C)
			assert_true(dwpe[i] != 0);
		else
			assert_true(dwpe[i] == 0);
	fixture_free(r);
}

static void accumulating_adds_to_what_is_there(void **state)
{
	struct fixture *r = fixture_new(tiny);
	double *sum = calloc((size_t)r->total, sizeof *sum);
	int64_t i;
	int t, micro;
	(void)state;
	assert_non_null(sum);
	for (micro = 0; micro < 2; micro++) {
		fixture_tokens(r, (uint64_t)(2000 + 10 * micro));
		fixture_step(r, 0);
		for (i = 0; i < r->total; i++)
			sum[i] += r->gradient[i];
	}
	fixture_tokens(r, 2000); /* what is there now is the second's gradient: add the first's */
	fixture_step(r, 1);
	for (t = 0; t < r->n_tensors; t++)
		assert_near(r->tensor[t]->name,
			    distance(r->gradient + r->start[t], sum + r->start[t], r->numel[t]),
			    1e-6);
	free(sum);
	fixture_free(r);
}

static void evaluation_gives_the_loss_of_training(void **state)
{
	struct fixture *r = fixture_new(tiny);
	float rows[B * T];
	(void)state;
	fixture_loss(r, 1);
	memcpy(rows, r->loss_rows, sizeof rows);
	fixture_loss(r, 0);
	assert_memory_equal(rows, r->loss_rows, sizeof rows);
	fixture_free(r);
}

static void same_bits_for_one_and_two_workers(struct fixture_setup s)
{
	struct fixture *one, *two;
	s.workers = 1;
	one = fixture_new(s);
	s.workers = 2;
	two = fixture_new(s);
	fixture_step(one, 0);
	fixture_step(two, 0);
	assert_true(one->loss_sum[0] == two->loss_sum[0]);
	assert_memory_equal(one->gradient, two->gradient, (size_t)one->total * sizeof(float));
	fixture_free(one);
	fixture_free(two);
}

static void I1_same_bits_for_any_number_of_workers(void **state)
{
	/* Large enough for several tiles of everything. */
	struct fixture_setup s = { .dtype = ZR_F32,
				   .batch = 3,
				   .length = 100,
				   .options = { "width", "96", "context", "100", "vocabulary",
						"1009", NULL } };
	(void)state;
	same_bits_for_one_and_two_workers(s);
	s.dtype = ZR_BF16;
	same_bits_for_one_and_two_workers(s);
	s.dtype = ZR_F16;
	same_bits_for_one_and_two_workers(s);
}

/* ---- dropout ---- */

static struct fixture *fixture_with_dropout(const char *p)
{
	struct fixture_setup s = tiny;
	struct fixture *r;
	s.options[0] = "dropout";
	s.options[1] = p;
	r = fixture_new(s);
	r->rng = (struct zr_rng){ .seed = 7, .step = 3, .slot = 1 };
	return r;
}

static void evaluation_does_not_drop(void **state)
{
	struct fixture *plain = fixture_new(tiny), *r = fixture_with_dropout("0.5");
	(void)state;
	assert_true(fixture_loss(r, 0) == fixture_loss(plain, 0));
	assert_true(fabs(fixture_loss(r, 1) - fixture_loss(plain, 1)) > 1e-3);
	fixture_free(plain);
	fixture_free(r);
}

static void another_step_or_slot_drops_others(void **state)
{
	struct fixture *r = fixture_with_dropout("0.5");
	double first = fixture_loss(r, 1), second;
	(void)state;
	assert_true(fixture_loss(r, 1) == first);
	r->rng.slot++;
	second = fixture_loss(r, 1);
	assert_true(second != first);
	r->rng.step++;
	assert_true(fixture_loss(r, 1) != second);
	fixture_free(r);
}

static const struct zr_ops *spied;
static uint32_t sites[16];
static int n_sites;

static int spy_residual(const struct zr_ops *ops, struct zr_stream *stream,
			const struct zr_op_residual *op)
{
	sites[n_sites++] = op->rng.site;
	(void)ops;
	return spied->residual(spied, stream, op);
}

static int spy_attention(const struct zr_ops *ops, struct zr_stream *stream,
			 const struct zr_op_attention *op)
{
	sites[n_sites++] = op->rng.site;
	(void)ops;
	return spied->attention(spied, stream, op);
}

static void every_layer_and_branch_drops_at_a_site_of_its_own(void **state)
{
	static const uint32_t want[] = { 0, 8, 9, 10, 16, 17, 18 };
	struct fixture *r = fixture_with_dropout("0.5");
	struct zr_ops spy = *r->ops;
	(void)state;
	spied = r->ops;
	spy.residual = spy_residual;
	spy.attention = spy_attention;
	r->ops = &spy;
	n_sites = 0;
	fixture_loss(r, 0);
	assert_int_equal(n_sites, 6); /* in evaluation the embedding has nothing to drop */
	n_sites = 0;
	fixture_loss(r, 1);
	assert_int_equal(n_sites, 7);
	assert_memory_equal(sites, want, sizeof want);
	r->ops = spied;
	fixture_free(r);
}

/* Each site (embedding, attention, both branches) must drop in the backward what it dropped in the
 * forward: per tensor, so that every path from the loss is looked at. */
static void gradient_with_dropout_agrees_with_finite_differences(void **state)
{
	struct fixture *r = fixture_with_dropout("0.3");
	size_t bytes = (size_t)r->total * sizeof(float);
	/* fixture_loss() overwrites the head's */
	float *at = malloc(bytes), *gradient = malloc(bytes);
	int t, direction;
	(void)state;
	assert_true(at && gradient);
	memcpy(at, r->value, bytes);
	fixture_step(r, 0);
	memcpy(gradient, r->gradient, bytes);
	for (t = 0; t < r->n_tensors; t++)
		for (direction = 0; direction < 2; direction++) {
			int64_t lo = r->start[t], hi = lo + r->numel[t];
			uint64_t d = (uint64_t)(5000 + direction);
			double want = fixture_difference(r, d, lo, hi, at, 1e-3);
			double got = fixture_along(gradient, d, lo, hi);
			if (!(fabs(got - want) <= 5e-3 * fabs(want) + 5e-4))
				fail_msg("%s: gradient %.6g, finite difference %.6g",
					 r->tensor[t]->name, got, want);
		}
	free(at);
	free(gradient);
	fixture_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_and_every_gradient_agree_with_pytorch),
		cmocka_unit_test(documents_agree_with_pytorch),
		cmocka_unit_test(bf16_stays_close_to_pytorch),
		cmocka_unit_test(fp16_with_a_loss_scale_is_eight_times_closer),
		cmocka_unit_test(too_large_a_loss_scale_overflows_fp16),
		cmocka_unit_test(loss_sum_is_the_sum_of_the_rows),
		cmocka_unit_test(positions_beyond_the_sequence_get_no_gradient),
		cmocka_unit_test(accumulating_adds_to_what_is_there),
		cmocka_unit_test(evaluation_gives_the_loss_of_training),
		cmocka_unit_test(I1_same_bits_for_any_number_of_workers),
		cmocka_unit_test(evaluation_does_not_drop),
		cmocka_unit_test(another_step_or_slot_drops_others),
		cmocka_unit_test(every_layer_and_branch_drops_at_a_site_of_its_own),
		cmocka_unit_test(gradient_with_dropout_agrees_with_finite_differences),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gpt2", tests, NULL, NULL);
}
