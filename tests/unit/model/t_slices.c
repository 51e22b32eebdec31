/* SPDX-License-Identifier: Apache-2.0
 *
 * t_slices.c - models whose sequence is cut into slices: what they compute agrees with the whole
 * sequence at once, and its bits depend neither on the order in which slices are computed nor on
 * the other slices.
 */
#include "tests/lib/slices_fixture.h"
#include "tests/lib/testdevice.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after the headers of Zeroth: it has a macro fail() */

#define ROWS   48
#define SLICES 4

static const struct model {
	const char *plugin;
	const char *options[19];
	const char *adapter[9];
	int other_dropout; /* slices drop other elements than the whole sequence */
} models[] = {
	/* one map of queries, keys and values; learned positions */
	{ "model/gpt2", { NULL }, { NULL }, 0 },
	/* groups of heads, and biases */
	{ "model/llama", { "heads", "6", "kv_heads", "2", "qkv_bias", "yes" }, { NULL }, 0 },
	/* norms of queries and keys, of each head; of all heads at once, and behind branches */
	{ "model/qwen3", { "heads", "4", "kv_heads", "2", "head_dim", "8" }, { NULL }, 0 },
	{ "model/olmo2", { "heads", "4", "kv_heads", "2" }, { NULL }, 0 },
	/* soft caps, and a window that is longer than a slice, or shorter */
	{ "model/gemma2", { "heads", "4", "kv_heads", "1", "window", "17" }, { NULL }, 0 },
	{ "model/gemma3", { "heads", "4", "kv_heads", "2", "window", "3" }, { NULL }, 0 },
	/* queries, keys and values by head; branches side by side */
	{ "model/gpt_neox", { NULL }, { NULL }, 0 },
	/* one map of gate and up */
	{ "model/phi3",
	  { "heads", "4", "kv_heads", "2", "rope_scaling", "longrope", "rope_original_context",
	    "32", "rope_short", "1 1 1", "rope_long", "2 3 4" },
	  { NULL },
	  0 },
	/* no positions in the second layer */
	{ "model/smollm3", { "heads", "6", "kv_heads", "3", "rope_skip_every", "2" }, { NULL }, 0 },
	{ "model/granite", { "heads", "6", "kv_heads", "1", "residual_gain", "0.3" }, { NULL }, 0 },
	{ "model/starcoder2", { "heads", "4", "kv_heads", "2" }, { NULL }, 0 },
	{ "model/mixtral",
	  { "heads", "4", "kv_heads", "2", "experts", "5", "experts_per_token", "2", "ffn_width",
	    "20" },
	  { NULL },
	  0 },
	{ "model/qwen3_moe",
	  { "heads", "4", "kv_heads", "2", "head_dim", "6", "experts", "4", "experts_per_token",
	    "3", "ffn_width", "12" },
	  { NULL },
	  0 },
	/* losses of routers, which need sums of all slices */
	{ "model/mixtral",
	  { "heads", "4", "kv_heads", "2", "experts", "5", "experts_per_token", "2", "ffn_width",
	    "20", "router_aux_loss_coef", "0.7", "router_z_loss_coef", "0.3" },
	  { NULL },
	  0 },
	{ "model/olmoe",
	  { "heads", "4", "experts", "4", "experts_per_token", "1", "ffn_width", "12",
	    "router_aux_loss_coef", "0.5" },
	  { NULL },
	  0 },
	{ "model/qwen3_moe",
	  { "heads", "4", "kv_heads", "2", "head_dim", "6", "experts", "4", "experts_per_token",
	    "3", "ffn_width", "12", "router_z_loss_coef", "0.2" },
	  { "r", "2" },
	  0 },
	{ "model/llama", { "heads", "6", "kv_heads", "2" }, { "r", "3", "alpha", "4.5" }, 0 },
	{ "model/gpt2", { NULL }, { "r", "2" }, 0 },
	{ "model/mixtral",
	  { "heads", "4", "experts", "3", "experts_per_token", "2", "ffn_width", "20" },
	  { "r", "2" },
	  0 },
	/* dropout of the embedding, of attention and behind branches; of adapters; of experts' */
	{ "model/gpt2", { "dropout", "0.2" }, { NULL }, 0 },
	{ "model/starcoder2",
	  { "heads", "4", "kv_heads", "2", "dropout", "0.3" },
	  { "r", "3", "dropout", "0.25" },
	  0 },
	{ "model/gpt2", { "dropout", "0.1" }, { "r", "2", "dropout", "0.4" }, 0 },
	{ "model/mixtral",
	  { "heads", "4", "experts", "3", "experts_per_token", "2", "ffn_width", "20" },
	  { "r", "2", "dropout", "0.25" },
	  1 },
	/* the only expert's places are in the order of rows, of a slice and of all */
	{ "model/mixtral",
	  { "heads", "4", "experts", "1", "experts_per_token", "1", "ffn_width", "20" },
	  { "r", "2", "dropout", "0.25" },
	  0 },
};
#define MODELS (sizeof models / sizeof *models)

static struct fixture *fixture_of(const struct model *m, int slices, int documents, int32_t dtype)
{
	struct fixture_setup s = { .model = m->plugin,
				   .workers = 2,
				   .dtype = dtype,
				   .batch = 1,
				   .length = ROWS,
				   .options = { "context", "64" },
				   .slices = slices };
	for (int i = 0; i < 19 && m->options[i]; i++)
		s.options[2 + i] = m->options[i];
	memcpy(s.adapter, m->adapter, sizeof s.adapter);
	struct fixture *r = fixture_new(s);
	if (documents)
		fixture_documents(r);
	return r;
}

/* The largest difference of n numbers, relative to the largest of `want`. */
static double apart(const void *got, const void *want, int32_t dtype, int64_t n)
{
	double most = 0, largest = 0;
	for (int64_t i = 0; i < n; i++) {
		const double a = get(got, dtype, i), b = get(want, dtype, i);
		if (isnan(a) && isnan(b))
			continue;
		most = fabs(a - b) <= most ? most : fabs(a - b);
		largest = fmax(largest, fabs(b));
	}
	return largest > 0 ? most / largest : most;
}

static void assert_near(double got, double most, const struct model *m, const char *what)
{
	if (!(got <= most))
		fail_msg("%s: %s differs by %.3g, more than %.3g", m->plugin, what, got, most);
}

static void assert_same(const void *a, const void *b, uint64_t bytes, const struct model *m,
			const char *what)
{
	if (memcmp(a, b, bytes))
		fail_msg("%s: other bits of %s", m->plugin, what);
}

/* ---- with the whole sequence ---- */

static void compare_outputs(const struct model *m, const struct fixture *whole,
			    const struct slices *z)
{
	for (uint32_t l = 0; l + 1 < whole->d.n_layers; l++)
		for (int s = 0; s < z->n; s++) {
			const int64_t n = z->rows * 24;
			const float *want = (const float *)whole->out[l] + s * n;
			const char *got = z->out[l * (uint32_t)z->n + (uint32_t)s];
			assert_near(apart(got, want, ZR_F32, n), 2e-6, m, "an output");
		}
	assert_near(apart(z->r->loss_rows, whole->loss_rows, ZR_F32, ROWS), 2e-6, m, "a loss");
}

static void compare_gradients(const struct model *m, const struct fixture *whole,
			      const struct slices *z)
{
	for (int t = 0; t < whole->n_tensors; t++) {
		const float *want = whole->gradient + whole->start[t];
		const float *got = z->r->gradient + whole->start[t];
		assert_near(apart(got, want, ZR_F32, whole->numel[t]), 1e-5, m,
			    whole->tensor[t]->name);
	}
}

/* Of slices of 3 rows some begin with a document, or with one of a single token. */
static void slices_agree_with_the_whole_sequence(void **state)
{
	static const int slices[] = { SLICES, SLICES, 16 };
	(void)state;
	for (size_t i = 0; i < MODELS; i++)
		for (int k = 0; k < 3 && !models[i].other_dropout; k++) {
			const struct model *m = &models[i];
			struct fixture *whole = fixture_of(m, 0, k, ZR_F32);
			struct fixture *r = fixture_of(m, slices[k], k, ZR_F32);
			struct slices *z = slices_new(r);
			const double want = fixture_step(whole, 0);
			const double got = slices_step(z, SLICES_APART);
			assert_near(fabs(got - want) / want, 2e-6, m, "the loss");
			compare_outputs(m, whole, z);
			compare_gradients(m, whole, z);
			slices_free(z);
			fixture_free(r);
			fixture_free(whole);
		}
}

/* ---- bits ---- */

static void assert_one_loss_of_routers(const struct model *m, const struct slices *z)
{
	for (int s = 1; s < z->n && z->r->d.aux_loss; s++)
		assert_same(&z->loss[s][1], &z->loss[0][1], sizeof z->loss[s][1], m,
			    "the losses of routers");
}

/* What a step leaves, of all slices. */
static char *results(const struct slices *z, uint64_t *bytes)
{
	const struct fixture *r = z->r;
	const uint64_t gradients = (uint64_t)r->total * sizeof(float);
	uint64_t at = 0;
	*bytes = gradients + ROWS * sizeof(float);
	for (uint32_t l = 0; l < r->d.n_layers; l++)
		*bytes += z->bytes[l].out * (uint64_t)z->n;
	char *all = malloc(*bytes);
	assert_non_null(all);
	for (uint32_t l = 0; l < r->d.n_layers; l++)
		for (int s = 0; s < z->n; s++, at += z->bytes[l].out)
			memcpy(all + at, z->out[l * (uint32_t)z->n + (uint32_t)s], z->bytes[l].out);
	memcpy(all + at, r->gradient, gradients);
	memcpy(all + at + gradients, r->loss_rows, ROWS * sizeof(float));
	return all;
}

static void I1_same_bits_in_any_order_of_slices(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16 };
	(void)state;
	for (size_t i = 0; i < 2 * MODELS; i++) {
		const struct model *m = &models[i / 2];
		struct fixture *r = fixture_of(m, SLICES, 1, dtypes[i % 2]);
		struct slices *z = slices_new(r);
		uint64_t bytes;
		slices_step(z, SLICES_TOGETHER);
		char *want = results(z, &bytes);
		for (enum slices_order order = SLICES_APART; order < SLICES_ORDERS; order++) {
			slices_step(z, order);
			char *got = results(z, &bytes);
			assert_same(got, want, bytes, m, "another order");
			assert_one_loss_of_routers(m, z);
			free(got);
		}
		free(want);
		slices_free(z);
		fixture_free(r);
	}
}

static void I1_same_bits_of_a_slice_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < MODELS; i++)
		for (int s = 0; s < SLICES; s++) {
			const struct model *m = &models[i];
			struct fixture *r = fixture_of(m, SLICES, 1, ZR_BF16);
			struct slices *z = slices_new(r);
			const uint64_t bytes = (uint64_t)r->total * sizeof(float);
			const uint32_t last = (r->d.n_layers - 2) * SLICES + (uint32_t)s;
			const uint64_t out_bytes = z->bytes[r->d.n_layers - 2].out;
			slices_step(z, SLICES_APART);
			float *gradient = malloc(bytes);
			char *out = malloc(out_bytes);
			assert_true(gradient && out);
			memcpy(gradient, z->gradient[s], bytes);
			memcpy(out, z->out[last], out_bytes);
			slices_alone(z, s);
			assert_same(z->out[last], out, out_bytes, m, "a slice alone, forward");
			assert_same(z->gradient[s], gradient, bytes, m, "a slice alone, backward");
			free(gradient);
			free(out);
			slices_free(z);
			fixture_free(r);
		}
}

/* ---- declarations ---- */

static void one_slice_has_the_bytes_of_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < MODELS; i++) {
		struct fixture *none = fixture_of(&models[i], 0, 0, ZR_BF16);
		struct fixture *one = fixture_of(&models[i], 1, 0, ZR_BF16);
		for (uint32_t l = 0; l < none->d.n_layers; l++) {
			struct zr_layer_bytes a = { .size = sizeof a }, b = a;
			const int32_t layer = (int32_t)l;
			assert_int_equal(none->v->bytes(none->model, layer, 1, ROWS, ZR_BF16,
							none->ops, &a),
					 0);
			assert_int_equal(one->v->bytes(one->model, layer, 1, ROWS, ZR_BF16,
						       one->ops, &b),
					 0);
			assert_memory_equal(&a, &b, sizeof a);
			assert_int_equal(a.keys + a.key_sums + a.held, 0);
		}
		fixture_free(none);
		fixture_free(one);
	}
}

/* The part of which a tensor of a block is, by what its name ends with or has. */
static int32_t part_by_name(const char *name)
{
	static const char *const before[] = { "ln_1.",     "c_attn.", "input_layernorm.",
					      "q_proj.",   "k_proj.", "v_proj.",
					      "q_norm.",   "k_norm.", "query_key_value.",
					      "qkv_proj.", NULL };
	for (int i = 0; before[i]; i++)
		if (strstr(name, before[i]))
			return ZR_PART_BEFORE;
	return ZR_PART_AFTER;
}

static void every_tensor_of_a_block_has_its_part(void **state)
{
	(void)state;
	for (size_t i = 0; i < MODELS; i++) {
		struct fixture *r = fixture_of(&models[i], SLICES, 0, ZR_F32);
		for (uint32_t l = 0; l < r->d.n_layers; l++) {
			const struct zr_layer *layer = fixture_layer(r, l);
			struct fixture_tensors t = { 0 };
			const int block = l > 0 && l + 1 < r->d.n_layers;
			assert_int_equal(layer->cut, block ? ZR_CUT_KEYS : ZR_CUT_ROWS);
			fixture_call(r, l, 1, &t);
			for (int k = 0; k < t.n && block; k++) {
				const struct zr_tensor *tensor = r->tensor[t.number[k]];
				if (tensor->part != part_by_name(tensor->name))
					fail_msg("%s is of part %d", tensor->name, tensor->part);
			}
		}
		fixture_free(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_agree_with_the_whole_sequence),
		cmocka_unit_test(I1_same_bits_in_any_order_of_slices),
		cmocka_unit_test(I1_same_bits_of_a_slice_alone),
		cmocka_unit_test(one_slice_has_the_bytes_of_none),
		cmocka_unit_test(every_tensor_of_a_block_has_its_part),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
