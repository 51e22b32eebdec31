/* SPDX-License-Identifier: Apache-2.0
 *
 * t_sample.c - sampling: the likeliest tokens and draws from them, stop strings that cross tokens,
 * and the cache of keys and values, with which logits have the bits that they have without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/sample/draw.h"
#include "core/session.h"
#include "tests/lib/cards.h"
#include "tests/lib/sanitize.h"

#include <cmocka.h> /* last: it defines fail() */

/* ---- the likeliest tokens ---- */

static const float *sort_by;

static int by_logit(const void *a, const void *b)
{
	float x = sort_by[*(const int32_t *)a], y = sort_by[*(const int32_t *)b];
	if (x != y)
		return x < y ? 1 : -1;
	return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

#define N 1000

/* Few different values: many are equal. */
static void make_logits(float x[N], unsigned seed, unsigned values)
{
	for (int i = 0; i < N; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = (float)(seed >> 8) / (float)(1 << 24) * 8 - 4;
		x[i] = values ? (float)(int)(x[i] * (float)values) / (float)values : x[i];
	}
}

static void the_best_are_those_of_a_whole_sort(void **unused)
{
	static const int64_t ks[] = { 1, 2, 3, 40, 511, N - 1, N };
	float x[N];
	int32_t sorted[N], best[N];
	(void)unused;
	for (unsigned seed = 0; seed < 20; seed++) {
		make_logits(x, seed, seed % 3);
		for (int i = 0; i < N; i++)
			sorted[i] = i;
		sort_by = x;
		qsort(sorted, N, sizeof *sorted, by_logit);
		for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
			zr_draw_best(x, N, ks[k], best);
			assert_memory_equal(best, sorted, (size_t)ks[k] * sizeof *best);
		}
	}
}

static void a_draw_keeps_to_top_k_and_top_p(void **unused)
{
	float x[4] = { 0, 3, 2, 1 }; /* of e^x: 0.032, 0.644, 0.237, 0.087 */
	struct zr_draw how = { .temperature = 1, .top_k = 0, .top_p = 1, .seed = 7 };
	int32_t best[4];
	int seen[4] = { 0 };
	(void)unused;
	for (uint64_t i = 0; i < 4000; i++)
		seen[zr_draw_token(&how, x, 4, i, best)]++;
	assert_true(seen[1] > 2400 && seen[1] < 2750 && seen[0] > 60 && seen[0] < 220);
	how.top_p = 0.7; /* 0.644 is less, with 0.237 it is more */
	memset(seen, 0, sizeof seen);
	for (uint64_t i = 0; i < 4000; i++)
		seen[zr_draw_token(&how, x, 4, i, best)]++;
	assert_true(seen[1] > 2700 && seen[2] > 900 && !seen[0] && !seen[3]);
	how.top_p = 0;
	how.top_k = 3;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(zr_draw_token(&how, x, 4, i, best), 1);
	how = (struct zr_draw){ .temperature = 0, .top_p = 1 };
	assert_int_equal(zr_draw_token(&how, x, 4, 0, best), 1);
}

/* ---- stop strings ---- */

struct heard {
	char text[256];
	size_t n;
};

static int hear(void *arg, const char *p, size_t n)
{
	struct heard *h = arg;
	memcpy(h->text + h->n, p, n);
	h->n += n;
	h->text[h->n] = 0;
	return 0;
}

/* What is sent of `text` in pieces of `step` bytes; the stop string that ended it, or NULL. */
static const char *send(const char *const *stops, int n, const char *text, size_t step,
			struct heard *h)
{
	struct zr_stops s = { .text = stops, .n = n };
	const char *found = NULL;
	size_t all = strlen(text);
	s.held = malloc(zr_stops_room(&s));
	*h = (struct heard){ .n = 0 };
	for (size_t at = 0; at < all && !found; at += step) {
		size_t some = all - at < step ? all - at : step;
		char *piece = malloc(some); /* a read beyond it shows under ASan */
		memcpy(piece, text + at, some);
		assert_int_equal(zr_stops_write(&s, piece, some, hear, h, &found), 0);
		free(piece);
	}
	if (!found)
		assert_int_equal(zr_stops_end(&s, hear, h), 0);
	free(s.held);
	return found;
}

static void a_stop_string_may_cross_tokens(void **unused)
{
	static const char *const stops[] = { "\n\nQ:", "aab", "END", "THE END" };
	static const struct {
		const char *text, *sent;
		int stop; /* -1: none */
	} cases[] = {
		{ "one\n\nQ: two", "one", 0 },
		{ "one\n\n\nQ: two", "one\n", 0 },
		{ "aaab", "a", 1 },
		{ "one\n\n", "one\n\n", -1 },
		{ "EN D", "EN D", -1 },
		{ "in THE END it", "in ", 3 },
		{ "at END it", "at ", 2 },
		{ "aab", "", 1 },
		{ "", "", -1 },
	};
	struct heard h;
	(void)unused;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t step = 1; step < 16; step++) {
			const char *found = send(stops, 4, cases[i].text, step, &h);
			assert_string_equal(h.text, cases[i].sent);
			assert_ptr_equal(found, cases[i].stop < 0 ? NULL : stops[cases[i].stop]);
		}
	assert_null(send(NULL, 0, "free", 2, &h));
	assert_string_equal(h.text, "free");
}

static void what_cannot_be_a_stop_string_is_not_held_back(void **unused)
{
	static const char *const stops[] = { "stop" };
	char held[4];
	struct zr_stops s = { .text = stops, .n = 1, .held = held };
	struct heard h = { .n = 0 };
	const char *found;
	(void)unused;
	zr_stops_write(&s, "a st", 4, hear, &h, &found);
	assert_string_equal(h.text, "a ");
	zr_stops_write(&s, "a", 1, hear, &h, &found);
	assert_string_equal(h.text, "a sta");
}

/* ---- the cache ---- */

#define T 96

struct run {
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_session *session;
};

/* So wide that sums of a product with all rows would be split. */
static struct run begin(const char *const *more, int n, uint32_t flags)
{
	const char *options[32] = { "data.plugin=tokens",  "data.path=none",  "model.layers=2",
				    "model.heads=4",       "model.width=256", "model.context=96",
				    "model.vocabulary=67", "train.seed=5" };
	struct zr_error err = { 0 };
	struct run r = { 0 };
	for (int i = 0; i < n; i++)
		options[8 + i] = more[i];
	int rc = zr_config_load(NULL, options, 8 + n, &r.cfg, &err);
	if (!rc)
		rc = zr_setup_open(r.cfg, ZR_MODE_SAMPLE, flags, 1, &r.setup, &err);
	if (!rc)
		rc = zr_session_open(r.setup, &r.session, &err);
	if (!rc)
		rc = zr_session_begin(r.session, zr_init_values, r.session, &err);
	if (rc)
		fail_msg("%s", err.text);
	return r;
}

static void end(struct run r)
{
	zr_session_close(r.session);
	zr_setup_close(r.setup);
	zr_config_free(r.cfg);
}

static void look(struct run *r, const int32_t *tokens, int64_t past, int64_t n, float logits[67])
{
	struct zr_error err = { 0 };
	if (zr_session_logits(r->session, tokens, past, n, logits, &err))
		fail_msg("%s", err.text);
}

/* Steps of 1, of a few and of many, and back, as when another text begins alike. */
static void compare(const char *const *more, int n)
{
	static const int at[][2] = { { 0, 21 }, { 21, 1 },  { 22, 1 }, { 23, 9 },
				     { 32, 1 }, { 33, 62 }, { 95, 1 }, { 40, 25 },
				     { 65, 1 }, { 0, 48 },  { 48, 1 } };
	struct run with = begin(more, n, ZR_SETUP_CACHED), without = begin(more, n, 0);
	int32_t tokens[T];
	float a[67], b[67];
	unsigned seed = 3;
	assert_true(with.setup->plan.region[ZR_R_CACHE].bytes > 0);
	assert_int_equal(without.setup->plan.region[ZR_R_CACHE].bytes, 0);
	if (with.setup->facts.types.dtype != ZR_F32) /* copies in 16 bits are all that it has */
		assert_int_equal(with.setup->plan.region[ZR_R_MASTER].bytes, 0);
	for (int i = 0; i < T; i++)
		tokens[i] = (int32_t)((seed = seed * 1664525u + 1013904223u) >> 16) % 67;
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		if (i == 9) /* the window has moved: other tokens at these positions */
			memmove(tokens, tokens + 48, 48 * sizeof *tokens);
		look(&with, tokens + at[i][0], at[i][0], at[i][1], a);
		look(&without, tokens, 0, at[i][0] + at[i][1], b);
		if (memcmp(a, b, sizeof a))
			fail_msg("%s %s %s: %d tokens behind %d: other logits", more[0], more[1],
				 more[2], at[i][1], at[i][0]);
	}
	end(with);
	end(without);
}

static int has_isa(const char *isa)
{
	return !strcmp(isa, "device.isa=scalar") ||
	       (!strcmp(isa, "device.isa=avx2") ? __builtin_cpu_supports("avx2") :
						  __builtin_cpu_supports("avx512f"));
}

static void logits_have_the_bits_of_a_whole_forward(const char *model, const char *heads)
{
	static const char *const isas[] = { "device.isa=avx2", "device.isa=avx512",
					    "device.isa=scalar" };
	static const char *const types[] = { "precision.plugin=fp32", "precision.plugin=bf16",
					     "precision.plugin=fp16" };
	for (int i = 0; i < 3; i++)
		for (int t = 0; has_isa(isas[i]) && t < 3; t++) {
			const char *more[] = { isas[i], types[t],       model,
					       heads,   cards_option(), "device.memory=64M" };
			int all = i == 2 && t; /* the scalar kernels take their time */
			if (sanitized() && t != (i < 2))
				continue;
			if (!all)
				compare(more, 4);
			if (!all && i < 2)
				compare(more, 6);
		}
}

static void a_cache_changes_no_bit_of_gpt2(void **unused)
{
	(void)unused;
	logits_have_the_bits_of_a_whole_forward("model.plugin=gpt2", "device.threads=2");
}

static void a_cache_changes_no_bit_of_llama_with_shared_heads(void **unused)
{
	(void)unused;
	logits_have_the_bits_of_a_whole_forward("model.plugin=llama", "model.kv_heads=2");
}

/* Norms of q and k before what is kept, joint rows, heads side by side, windows. */
static void a_cache_changes_no_bit_of_the_other_families(void **unused)
{
	static const char *const families[][2] = {
		{ "model.plugin=qwen3", "model.kv_heads=2" },
		{ "model.plugin=gemma3", "model.window=20" },
		{ "model.plugin=gemma2", "model.window=9" },
		{ "model.plugin=granite", "model.logit_divisor=3" },
		{ "model.plugin=phi3", "model.window=33" },
		{ "model.plugin=olmo2", "model.kv_heads=1" },
		{ "model.plugin=smollm3", "model.rope_skip_every=2" },
		{ "model.plugin=gpt_neox", "model.parallel=no" },
		{ "model.plugin=starcoder2", "model.window=7" },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
		const char *more[] = { families[i][0], families[i][1], "precision.plugin=fp32" };
		if (!sanitized() || i % 2)
			compare(more, 3);
		if (sanitized() && i % 2)
			continue;
		more[2] = "precision.plugin=bf16";
		compare(more, 3);
	}
}

/* Experts get other numbers of tokens at a time. */
static void a_cache_changes_no_bit_of_mixtures(void **unused)
{
	static const char *const types[] = { "precision.plugin=fp32", "precision.plugin=bf16",
					     "precision.plugin=fp16" };
	static const char *const families[] = { "model.plugin=mixtral", "model.plugin=qwen3_moe",
						"model.plugin=olmoe" };
	(void)unused;
	for (int f = 0; f < 3; f++)
		for (int t = 0; t < (f ? 1 : 3); t++) {
			const char *more[] = { families[f],
					       types[t],
					       "device.threads=2",
					       "model.experts=5",
					       "model.experts_per_token=2",
					       "model.ffn_width=72",
					       "model.head_dim=64" };
			if (!sanitized() || t == f)
				compare(more, 7);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_are_those_of_a_whole_sort),
		cmocka_unit_test(a_draw_keeps_to_top_k_and_top_p),
		cmocka_unit_test(a_stop_string_may_cross_tokens),
		cmocka_unit_test(what_cannot_be_a_stop_string_is_not_held_back),
		cmocka_unit_test(a_cache_changes_no_bit_of_gpt2),
		cmocka_unit_test(a_cache_changes_no_bit_of_llama_with_shared_heads),
		cmocka_unit_test(a_cache_changes_no_bit_of_the_other_families),
		cmocka_unit_test(a_cache_changes_no_bit_of_mixtures),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("t_sample", tests, NULL, NULL);
}
