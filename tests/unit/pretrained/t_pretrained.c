/* SPDX-License-Identifier: Apache-2.0
 *
 * t_pretrained.c - directories that transformers wrote (golden/make_pretrained.py): a configuration
 * with nothing but [model] path gives the loss, the logits and every gradient of theirs, and the
 * export of what was read has the same bytes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/model/layout.h"
#include "core/pretrained/pretrained.h"
#include "files/pretrained/tensors.h"
#include "train/weights.h"
#include "train/weights/export.h"

#include <cmocka.h> /* last: it defines fail() */

#define LENGTH     13
#define LIMIT      1e-5
#define STEPS      20
#define LOSS_LIMIT 2e-6
#define MOST       65536 /* elements of a tensor of these models */

/* A golden directory; the precision whose types are those of its files. */
static const struct golden {
	const char *name, *precision;
} goldens[] = {
	{ "gpt2", "fp32" },          { "gpt2-bf16", "bf16" },       { "gpt2-shards", "fp16" },
	{ "llama", "fp32" },         { "llama-tied", "bf16" },      { "llama-yarn", "fp32" },
	{ "llama-dynamic", "fp32" }, { "qwen2", "fp16" },           { "gpt2-untied", "fp32" },
	{ "llama-bias", "fp32" },    { "mistral", "fp32" },         { "qwen3", "fp32" },
	{ "gemma", "fp32" },         { "gemma3", "fp32" },          { "phi3", "fp32" },
	{ "phi3-long", "fp32" },     { "olmo2", "fp32" },           { "smollm3", "fp32" },
	{ "gpt-neox", "fp32" },      { "gpt-neox-serial", "fp32" }, { "starcoder2", "fp32" },
	{ "gemma2", "fp32" },        { "granite", "fp32" },         { "mixtral", "fp32" },
	{ "qwen3-moe", "fp32" },     { "olmoe", "fp32" },
};

static const char *golden_path(const char *name)
{
	static char path[4][PATH_MAX];
	static int next;
	const char *dir = getenv("ZR_SRCDIR");
	next = (next + 1) % 4;
	snprintf(path[next], PATH_MAX, "%s/tests/golden/pretrained/%s", dir ? dir : ".", name);
	return path[next];
}

struct run {
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_session *session;
};

/* more: two options */
static struct run begin_with(const char *name, enum zr_mode mode, const char *const *more,
			     const char *optimizer, const char *lr, const char *decay,
			     const char *betas)
{
	char option[3][PATH_MAX + 32];
	struct zr_error err = { 0 };
	struct run r = { 0 };
	snprintf(option[0], sizeof *option, "model.path=%s", golden_path(name));
	snprintf(option[1], sizeof *option, "data.path=%s", golden_path("tokens.bin"));
	snprintf(option[2], sizeof *option, "train.sequence_length=%d", LENGTH);
	const char *options[] = { option[0],
				  option[1],
				  option[2],
				  more[0],
				  more[1],
				  "data.plugin=tokens",
				  "data.format=uint16",
				  "data.order=sequential",
				  "train.micro_batch_size=2",
				  "train.gradient_accumulation_steps=1",
				  "train.gradient_clipping=0",
				  optimizer,
				  lr,
				  decay,
				  betas,
				  "train.eval_every=0",
				  "device.threads=1" };
	int rc = zr_config_load(NULL, options, sizeof options / sizeof *options, &r.cfg, &err);
	if (!rc)
		rc = zr_setup_open(r.cfg, mode, 0, 1, &r.setup, &err);
	if (!rc)
		rc = zr_session_open(r.setup, &r.session, &err);
	if (!rc)
		rc = zr_weights_begin(r.session, &err);
	if (rc)
		fail_msg("%s: %s", name, err.text);
	return r;
}

static struct run begin(const char *name, enum zr_mode mode, const char *precision)
{
	const char *more[] = { precision, "train.seed=1" };
	return begin_with(name, mode, more, "optimizer.plugin=sgd", "optimizer.lr=0",
			  "optimizer.weight_decay=0", "optimizer.momentum=0");
}

static void end(struct run r)
{
	zr_session_close(r.session);
	zr_setup_close(r.setup);
	zr_config_free(r.cfg);
}

/* What transformers computed, of a tensor's name with or without a prefix. */
static const float *expected(const struct zr_st *st, const char *kind, const char *name, int64_t n)
{
	static const char *const prefixes[] = { "", "transformer." };
	static float x[MOST];
	struct zr_error err = { 0 };
	char key[256];
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		snprintf(key, sizeof key, "%s%s%s", kind, prefixes[i], name);
		const struct zr_st_tensor *t = zr_st_find(st, key);
		if (!t)
			continue;
		assert_int_equal(t->elements, n);
		assert_true(n <= MOST);
		assert_int_equal(zr_st_read(st, t, 0, t->bytes, x, &err), 0);
		return x;
	}
	fail_msg("%s: no %s%s", st->path, kind, name);
	return NULL;
}

static void assert_near(const char *model, const char *what, const float *a, const float *b,
			int64_t n)
{
	double diff = 0, norm = 0;
	for (int64_t i = 0; i < n; i++) {
		diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		norm += (double)b[i] * b[i];
	}
	if (!(sqrt(diff) <= LIMIT * sqrt(norm)))
		fail_msg("%s: %s: relative norm of the difference %.3g > %g", model, what,
			 sqrt(diff / norm), LIMIT);
}

static struct zr_st open_expected(const char *name)
{
	char path[PATH_MAX + 32];
	struct zr_error err = { 0 };
	struct zr_st st;
	snprintf(path, sizeof path, "%s/expect.safetensors", golden_path(name));
	if (zr_st_open(path, &st, &err))
		fail_msg("%s", err.text);
	return st;
}

static const char *const fp32[] = { "precision.plugin=fp32", "train.seed=1" };
static const char *const routers[] = { "model.router_aux_loss_coef=0.5",
				       "model.router_z_loss_coef=0.125" };

/* kind: what stands before the names of gradients */
static void compare_step(const char *name, const char *const *more, const char *kind)
{
	struct run r = begin_with(name, ZR_MODE_TRAIN, more, "optimizer.plugin=sgd",
				  "optimizer.lr=0", "optimizer.weight_decay=0",
				  "optimizer.momentum=0");
	struct zr_st st = open_expected(name);
	struct zr_step_result result;
	struct zr_error err = { 0 };
	if (zr_session_step(r.session, 0, &result, &err))
		fail_msg("%s: %s", name, err.text);
	float aux = (float)result.aux_loss;
	assert_near(name, "loss", &result.loss, expected(&st, "loss", "", 1), 1);
	if (more == routers)
		assert_near(name, "aux_loss", &aux, expected(&st, "aux.loss", "", 1), 1);
	/* one micro-batch: sums are gradients of the mean */
	for (int32_t i = 0; i < r.setup->facts.layout.n_tensors; i++) {
		const struct zr_place *t = &r.setup->facts.layout.tensor[i];
		const float *sum =
			(const float *)zr_at(r.session, r.setup->plan.unit[t->unit].grad) +
			t->offset;
		assert_near(name, t->decl->name, sum,
			    expected(&st, kind, t->decl->name, t->elements), t->elements);
	}
	zr_st_close(&st);
	end(r);
}

/* As make_pretrained.py trains, in fp32 here and in fp64 there. */
static void compare_losses(const char *name, const char *const *more, const char *losses)
{
	struct zr_st st = open_expected(name);
	struct zr_error err = { 0 };
	struct run r = begin_with(name, ZR_MODE_TRAIN, more, "optimizer.plugin=adamw",
				  "optimizer.lr=1e-3", "optimizer.weight_decay=0.1",
				  "optimizer.betas=0.9, 0.999");
	const float *want = expected(&st, losses, "", STEPS);
	for (int64_t step = 0; step < STEPS; step++) {
		struct zr_step_result result;
		if (zr_session_step(r.session, 0, &result, &err))
			fail_msg("%s: %s", name, err.text);
		if (!(fabs(result.loss / want[step] - 1) <= LOSS_LIMIT))
			fail_msg("%s: loss of step %d is %.8g, not %.8g", name, (int)step + 1,
				 result.loss, want[step]);
	}
	zr_st_close(&st);
	end(r);
}

static void compare_logits(const char *name)
{
	struct run r = begin(name, ZR_MODE_SAMPLE, "precision.plugin=fp32");
	struct zr_st st = open_expected(name);
	struct zr_error err = { 0 };
	int32_t tokens[LENGTH];
	float logits[1024];
	int64_t n = r.setup->facts.decl.vocabulary;
	FILE *f = fopen(golden_path("tokens.bin"), "rb");
	assert_non_null(f);
	for (int i = 0; i < LENGTH; i++) {
		int low = getc(f);
		tokens[i] = low | getc(f) << 8;
	}
	fclose(f);
	assert_true(n <= 1024);
	if (zr_session_logits(r.session, tokens, 0, LENGTH, logits, &err))
		fail_msg("%s: %s", name, err.text);
	assert_near(name, "logits", logits, expected(&st, "logits", "", n), n);
	zr_st_close(&st);
	end(r);
}

static void loss_logits_and_every_gradient_are_those_of_transformers(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
		compare_step(goldens[i].name, fp32, "grad.");
		compare_logits(goldens[i].name);
		compare_losses(goldens[i].name, fp32, "losses");
	}
}

static void losses_of_routers_are_those_of_transformers(void **unused)
{
	static const char *const mixtures[] = { "mixtral", "qwen3-moe", "olmoe" };
	(void)unused;
	for (int i = 0; i < 3; i++) {
		compare_step(mixtures[i], routers, "aux.grad.");
		compare_losses(mixtures[i], routers, "aux.losses");
	}
}

/* Bytes of a tensor in one of the safetensors of a directory, whatever is before its name. */
static uint64_t bytes_of(const char *dir, const char *name, char *out)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	uint64_t found = 0;
	assert_non_null(d);
	while ((e = readdir(d))) {
		char path[PATH_MAX];
		struct zr_error err = { 0 };
		struct zr_st st;
		if (!strstr(e->d_name, ".safetensors") || strstr(e->d_name, ".json") ||
		    strstr(e->d_name, "expect"))
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		assert_int_equal(zr_st_open(path, &st, &err), 0);
		for (int64_t i = 0; i < st.n; i++) {
			size_t long_by = strlen(st.tensor[i].name) - strlen(name);
			if (strlen(st.tensor[i].name) < strlen(name) ||
			    strcmp(st.tensor[i].name + long_by, name))
				continue;
			if (long_by && strncmp(st.tensor[i].name, "transformer.", long_by))
				continue;
			assert_true(st.tensor[i].bytes <= MOST);
			assert_int_equal(zr_st_read(&st, &st.tensor[i], 0, st.tensor[i].bytes, out,
						    &err),
					 0);
			found = st.tensor[i].bytes;
		}
		zr_st_close(&st);
	}
	closedir(d);
	return found;
}

/* config.json but for what names the type. */
static json_t *config_at(const char *dir)
{
	struct zr_model_json f;
	struct zr_error err = { 0 };
	if (zr_model_json_open(dir, &f, &err))
		fail_msg("%s", err.text);
	json_t *root = json_incref(f.root);
	zr_model_json_close(&f);
	return root;
}

static void remove_all(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d = opendir(dir);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static void export_again(const struct golden *g)
{
	char option[64], dir[] = "/tmp/zeroth-pretrained.XXXXXX", out[64], a[MOST], b[MOST];
	struct zr_error err = { 0 };
	snprintf(option, sizeof option, "precision.plugin=%s", g->precision);
	struct run r = begin(g->name, ZR_MODE_TRAIN, option);
	assert_non_null(mkdtemp(dir));
	snprintf(out, sizeof out, "%s/out", dir);
	if (zr_export_session(r.session, out, 0, &err))
		fail_msg("%s", err.text);
	for (int32_t i = 0; i < r.setup->facts.layout.n_tensors; i++) {
		const char *name = r.setup->facts.layout.tensor[i].decl->name;
		uint64_t n = bytes_of(golden_path(g->name), name, a);
		assert_true(n > 0);
		assert_int_equal(bytes_of(out, name, b), n);
		if (memcmp(a, b, n))
			fail_msg("%s: %s has other bytes", g->name, name);
	}
	json_t *was = config_at(golden_path(g->name)), *is = config_at(out);
	assert_true(json_equal(was, is));
	json_decref(was);
	json_decref(is);
	remove_all(out);
	remove_all(dir);
	end(r);
}

static void an_export_of_what_was_read_is_what_was_read(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
		export_again(&goldens[i]);
}

/* Against the definition of binary16, and back. */
static void every_fp16_is_widened_exactly(void **unused)
{
	(void)unused;
	for (uint32_t bits = 0; bits < 65536; bits++) {
		uint16_t h = (uint16_t)bits;
		int exponent = h >> 10 & 31;
		double m = exponent ? 1024 + (h & 1023) : h & 1023,
		       want = ldexp(m, (exponent ? exponent : 1) - 25);
		float x;
		zr_widen_f16(&h, 1, &x);
		if (exponent == 31) {
			assert_true(h & 1023 ? isnan(x) : isinf(x));
			continue;
		}
		assert_true((double)x == (h & 0x8000 ? -want : want) &&
			    !signbit(x) == !(h & 0x8000));
		float again = zr_export_rounded(ZR_F16, x);
		assert_memory_equal(&again, &x, sizeof x);
	}
}

/* This program's own, so that they can fail as the manual page allows: the pointer is then one that
 * nobody may free. */
static int texts_left = -1; /* that can be made; -1: any number */

int vasprintf(char **out, const char *fmt, va_list ap)
{
	va_list again;
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	*out = texts_left && n >= 0 ? malloc((size_t)n + 1) : NULL;
	if (!*out) {
		*out = (char *)1;
		return -1;
	}
	texts_left -= texts_left > 0;
	return vsnprintf(*out, (size_t)n + 1, fmt, ap);
}

int asprintf(char **out, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(out, fmt, ap);
	va_end(ap);
	return n;
}

static void no_undefined_pointer_is_freed_without_memory(void **unused)
{
	(void)unused;
	const struct zr_layout layout = { 0 };
	for (int texts = 0; texts < 4; texts++) {
		struct zr_tensor_files *f = NULL;
		struct zr_error err = { 0 };
		texts_left = texts;
		int rc = zr_tensor_files_open("/", &layout, ZR_FILES_WHOLE, "", "", &f, &err);
		texts_left = -1;
		assert_int_equal(rc, ZR_ENOMEM);
		assert_string_equal(err.text, "out of memory");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loss_logits_and_every_gradient_are_those_of_transformers),
		cmocka_unit_test(losses_of_routers_are_those_of_transformers),
		cmocka_unit_test(every_fp16_is_widened_exactly),
		cmocka_unit_test(no_undefined_pointer_is_freed_without_memory),
		cmocka_unit_test(an_export_of_what_was_read_is_what_was_read),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
