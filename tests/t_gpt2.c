/* SPDX-License-Identifier: Apache-2.0
 *
 * t_gpt2.c - model/gpt2 on device/cpu: loss and every gradient against PyTorch's in float64
 * (golden/make_gpt2.py), dropout against finite differences, and what the options refuse.
 */
#include "gpt2_rig.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

#define B 2
#define T 13
#define V 97

static const struct rig_setup tiny = { .workers = 1, .dtype = ZR_F32, .batch = B, .length = T };

/* ---- golden values ---- */

struct golden {
	double loss[B * T], logits[V];
	double gradient[]; /* of all parameters */
};

static struct golden *golden_read(int64_t total)
{
	const char *dir = getenv("ZR_SRCDIR");
	size_t bytes = sizeof(struct golden) + (size_t)total * sizeof(double);
	struct golden *g = malloc(bytes + 1);
	char path[4096];
	FILE *f;
	snprintf(path, sizeof path, "%s/tests/golden/gpt2.bin", dir ? dir : ".");
	f = fopen(path, "rb");
	assert_non_null(g);
	assert_non_null(f);
	assert_int_equal(fread(g, 1, bytes + 1, f), bytes);
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

static void compare_with_golden(struct rig_setup s, double limit)
{
	struct rig *r = rig_new(s);
	struct golden *g = golden_read(r->total);
	float logits[V];
	int t;
	rig_step(r, 0);
	assert_near("loss", distance(r->loss_rows, g->loss, B * T), limit);
	for (t = 0; t < r->n_tensors; t++)
		assert_near(r->tensor[t]->name,
			    distance(r->gradient + r->start[t], g->gradient + r->start[t], r->numel[t]), limit);
	rig_loss(r, 0);
	rig_logits(r, B * T - 1, logits);
	assert_near("logits", distance(logits, g->logits, V), limit);
	free(g);
	rig_free(r);
}

static void loss_and_every_gradient_agree_with_pytorch(void **state)
{
	(void)state;
	compare_with_golden(tiny, 1e-5);
}

static void bf16_stays_close_to_pytorch(void **state)
{
	struct rig_setup s = tiny;
	(void)state;
	s.dtype = ZR_BF16;
	compare_with_golden(s, 3e-2);
}

/* ---- gradients ---- */

static void loss_sum_is_the_sum_of_the_rows(void **state)
{
	struct rig *r = rig_new(tiny);
	double sum = 0;
	int i;
	(void)state;
	rig_step(r, 0);
	for (i = 0; i < B * T; i++)
		sum += r->loss_rows[i];
	assert_true(sum == r->loss_sum);
	rig_free(r);
}

static void positions_beyond_the_sequence_get_no_gradient(void **state)
{
	struct rig *r = rig_new(tiny);
	const float *dwpe = r->gradient + r->start[1];
	int64_t C = r->tensor[1]->dims[1], i;
	(void)state;
	assert_string_equal(r->tensor[1]->name, "wpe.weight");
	rig_step(r, 0);
	for (i = 0; i < r->numel[1]; i++)
		if (i < T * C)
			assert_true(dwpe[i] != 0);
		else
			assert_true(dwpe[i] == 0);
	rig_free(r);
}

static void accumulating_adds_to_what_is_there(void **state)
{
	struct rig *r = rig_new(tiny);
	double *sum = calloc((size_t)r->total, sizeof *sum);
	int64_t i;
	int t, micro;
	(void)state;
	assert_non_null(sum);
	for (micro = 0; micro < 2; micro++) {
		rig_tokens(r, (uint64_t)(2000 + 10 * micro));
		rig_step(r, 0);
		for (i = 0; i < r->total; i++)
			sum[i] += r->gradient[i];
	}
	rig_tokens(r, 2000); /* what is there now is the second's gradient: add the first's */
	rig_step(r, 1);
	for (t = 0; t < r->n_tensors; t++)
		assert_near(r->tensor[t]->name,
			    distance(r->gradient + r->start[t], sum + r->start[t], r->numel[t]), 1e-6);
	free(sum);
	rig_free(r);
}

static void evaluation_gives_the_loss_of_training(void **state)
{
	struct rig *r = rig_new(tiny);
	float rows[B * T];
	(void)state;
	rig_loss(r, 1);
	memcpy(rows, r->loss_rows, sizeof rows);
	rig_loss(r, 0);
	assert_memory_equal(rows, r->loss_rows, sizeof rows);
	rig_free(r);
}

static void same_bits_for_one_and_two_workers(struct rig_setup s)
{
	struct rig *one, *two;
	s.workers = 1;
	one = rig_new(s);
	s.workers = 2;
	two = rig_new(s);
	rig_step(one, 0);
	rig_step(two, 0);
	assert_true(one->loss_sum == two->loss_sum);
	assert_memory_equal(one->gradient, two->gradient, (size_t)one->total * sizeof(float));
	rig_free(one);
	rig_free(two);
}

static void I1_same_bits_for_any_number_of_workers(void **state)
{
	/* Large enough for several tiles of everything. */
	struct rig_setup s = { .dtype = ZR_F32, .batch = 3, .length = 100,
			       .options = { "width", "96", "context", "100", "vocabulary", "1009", NULL } };
	(void)state;
	same_bits_for_one_and_two_workers(s);
	s.dtype = ZR_BF16;
	same_bits_for_one_and_two_workers(s);
}

/* ---- dropout ---- */

static struct rig *rig_with_dropout(const char *p)
{
	struct rig_setup s = tiny;
	struct rig *r;
	s.options[0] = "dropout";
	s.options[1] = p;
	r = rig_new(s);
	r->rng = (struct zr_rng){ .seed = 7, .step = 3, .slot = 1 };
	return r;
}

static void evaluation_does_not_drop(void **state)
{
	struct rig *plain = rig_new(tiny), *r = rig_with_dropout("0.5");
	(void)state;
	assert_true(rig_loss(r, 0) == rig_loss(plain, 0));
	assert_true(fabs(rig_loss(r, 1) - rig_loss(plain, 1)) > 1e-3);
	rig_free(plain);
	rig_free(r);
}

static void another_step_or_slot_drops_others(void **state)
{
	struct rig *r = rig_with_dropout("0.5");
	double first = rig_loss(r, 1), second;
	(void)state;
	assert_true(rig_loss(r, 1) == first);
	r->rng.slot++;
	second = rig_loss(r, 1);
	assert_true(second != first);
	r->rng.step++;
	assert_true(rig_loss(r, 1) != second);
	rig_free(r);
}

static const struct zr_ops *spied;
static uint32_t sites[16];
static int n_sites;

static int spy_residual(const struct zr_ops *ops, struct zr_stream *stream, const struct zr_op_residual *op)
{
	sites[n_sites++] = op->rng.site;
	(void)ops;
	return spied->residual(spied, stream, op);
}

static int spy_attention(const struct zr_ops *ops, struct zr_stream *stream, const struct zr_op_attention *op)
{
	sites[n_sites++] = op->rng.site;
	(void)ops;
	return spied->attention(spied, stream, op);
}

static void every_layer_and_branch_drops_at_a_site_of_its_own(void **state)
{
	static const uint32_t want[] = { 0, 8, 9, 10, 16, 17, 18 };
	struct rig *r = rig_with_dropout("0.5");
	struct zr_ops spy = *r->ops;
	(void)state;
	spied = r->ops;
	spy.residual = spy_residual;
	spy.attention = spy_attention;
	r->ops = &spy;
	n_sites = 0;
	rig_loss(r, 0);
	assert_int_equal(n_sites, 6); /* in evaluation the embedding has nothing to drop */
	n_sites = 0;
	rig_loss(r, 1);
	assert_int_equal(n_sites, 7);
	assert_memory_equal(sites, want, sizeof want);
	r->ops = spied;
	rig_free(r);
}

/* Derivative of the loss in the direction `sign` (hashed +-1 on elements [lo, hi)), central difference. */
static double difference(struct rig *r, uint64_t direction, int64_t lo, int64_t hi, const float *at, double h)
{
	double loss[2];
	int side;
	int64_t i;
	for (side = 0; side < 2; side++) {
		memcpy(r->value, at, (size_t)r->total * sizeof(float));
		for (i = lo; i < hi; i++)
			r->value[i] += (float)((rig_hash(direction, (uint64_t)i) >> 63 ? h : -h) * (side ? 1 : -1));
		rig_load(r);
		loss[side] = rig_loss(r, 1);
	}
	return (loss[1] - loss[0]) / (2 * h);
}

static double along(const float *gradient, uint64_t direction, int64_t lo, int64_t hi)
{
	double sum = 0;
	int64_t i;
	for (i = lo; i < hi; i++)
		sum += rig_hash(direction, (uint64_t)i) >> 63 ? gradient[i] : -gradient[i];
	return sum;
}

/* Each site (embedding, attention, both branches) must drop in the backward what it dropped in the forward:
 * per tensor, so that every path from the loss is looked at. */
static void gradient_with_dropout_agrees_with_finite_differences(void **state)
{
	struct rig *r = rig_with_dropout("0.3");
	size_t bytes = (size_t)r->total * sizeof(float);
	float *at = malloc(bytes), *gradient = malloc(bytes); /* rig_loss() overwrites the head's */
	int t, direction;
	(void)state;
	assert_true(at && gradient);
	memcpy(at, r->value, bytes);
	rig_step(r, 0);
	memcpy(gradient, r->gradient, bytes);
	for (t = 0; t < r->n_tensors; t++)
		for (direction = 0; direction < 2; direction++) {
			int64_t lo = r->start[t], hi = lo + r->numel[t];
			uint64_t d = (uint64_t)(5000 + direction);
			double want = difference(r, d, lo, hi, at, 1e-3), got = along(gradient, d, lo, hi);
			if (!(fabs(got - want) <= 5e-3 * fabs(want) + 5e-4))
				fail_msg("%s: gradient %.6g, finite difference %.6g", r->tensor[t]->name, got, want);
		}
	free(at);
	free(gradient);
	rig_free(r);
}

/* ---- declaration and options ---- */

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
	} want[] = { { "124m", 124439808, 12 }, { "355m", 354823168, 24 }, { "774m", 774030080, 36 },
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
		{ "wte.weight", 97, 24, 0, 0.02 },         { "wpe.weight", 16, 24, 0, 0.02 },
		{ "h.0.ln_1.weight", 24, 1, 1, 0 },        { "h.0.ln_1.bias", 24, 1, 0, 0 },
		{ "h.0.attn.c_attn.weight", 24, 72, 0, 0.02 }, { "h.0.attn.c_attn.bias", 72, 1, 0, 0 },
		{ "h.0.attn.c_proj.weight", 24, 24, 0, 0.01 }, { "h.0.attn.c_proj.bias", 24, 1, 0, 0 },
		{ "h.0.ln_2.weight", 24, 1, 1, 0 },        { "h.0.ln_2.bias", 24, 1, 0, 0 },
		{ "h.0.mlp.c_fc.weight", 24, 96, 0, 0.02 },    { "h.0.mlp.c_fc.bias", 96, 1, 0, 0 },
		{ "h.0.mlp.c_proj.weight", 96, 24, 0, 0.01 },  { "h.0.mlp.c_proj.bias", 24, 1, 0, 0 },
	};
	struct rig *r = rig_new(tiny);
	int i;
	(void)state;
	for (i = 0; i < 14; i++) {
		assert_string_equal(r->tensor[i]->name, want[i].name);
		assert_int_equal(r->tensor[i]->dims[0], want[i].rows);
		assert_int_equal(r->tensor[i]->dims[1], want[i].cols);
		assert_true(r->tensor[i]->mean == want[i].mean && fabs(r->tensor[i]->std - want[i].std) < 1e-15);
	}
	assert_int_equal(r->n_tensors, 28);
	assert_string_equal(r->tensor[14]->name, "h.1.ln_1.weight");
	assert_string_equal(r->tensor[27]->name, "ln_f.bias");
	rig_free(r);
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
	static const char *const vocabulary[] = { "layers", "2", "heads", "2", "width", "8", "context", "8", NULL };
	static const char *const override[] = { "size", "124m", "heads", "6", "width", "96", NULL };
	struct zr_host *h = test_host(1);
	(void)state;
	assert_string_equal(refusal(h, heads), "heads = 5 does not divide width = 768");
	assert_string_equal(refusal(h, nothing), "width is not set: give it, or choose a preset by size");
	assert_string_equal(refusal(h, vocabulary), "vocabulary is not set: give it, or choose a preset by size");
	assert_string_equal(refusal(h, override), "");
	test_host_free(h);
}

static void values_out_of_range_are_the_tables(void **state)
{
	static const char *const bad[][2] = { { "size", "125m" },     { "layers", "0" },     { "heads", "-1" },
					      { "width", "0" },       { "context", "0" },    { "vocabulary", "1" },
					      { "dropout", "1" },     { "dropout", "-0.1" }, { "init_std", "-1" } };
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
	struct rig *r = rig_new(tiny);
	struct zr_layer_bytes b;
	(void)state;
	assert_int_equal(r->v->bytes(r->model, 1, B, 17, ZR_F32, r->ops, &b), ZR_EINVAL);
	assert_string_equal(test_error(r->host), "sequences of 17 tokens are longer than context = 16");
	rig_free(r);
}

static void a_device_without_an_operation_is_refused_by_its_name(void **state)
{
	struct rig *r = rig_new(tiny);
	struct zr_ops ops = *r->ops;
	struct zr_layer_bytes b;
	(void)state;
	ops.attention_bwd = NULL;
	assert_int_equal(r->v->bytes(r->model, 1, B, T, ZR_F32, &ops, &b), ZR_ENOTSUP);
	assert_string_equal(test_error(r->host), "the device has no operation attention_bwd");
	rig_free(r);
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
		cmocka_unit_test(loss_and_every_gradient_agree_with_pytorch),
		cmocka_unit_test(bf16_stays_close_to_pytorch),
		cmocka_unit_test(loss_sum_is_the_sum_of_the_rows),
		cmocka_unit_test(positions_beyond_the_sequence_get_no_gradient),
		cmocka_unit_test(accumulating_adds_to_what_is_there),
		cmocka_unit_test(evaluation_gives_the_loss_of_training),
		cmocka_unit_test(I1_same_bits_for_any_number_of_workers),
		cmocka_unit_test(evaluation_does_not_drop),
		cmocka_unit_test(another_step_or_slot_drops_others),
		cmocka_unit_test(every_layer_and_branch_drops_at_a_site_of_its_own),
		cmocka_unit_test(gradient_with_dropout_agrees_with_finite_differences),
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
	return cmocka_run_group_tests_name("gpt2", tests, NULL, NULL);
}
