/* SPDX-License-Identifier: Apache-2.0
 *
 * t_merge.c - adapters that are merged into their model give what PEFT's merge_and_unload gives, to
 * the rounding of a sum: tests/golden/make_adapters.py. Files name what was merged.
 */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "train/weights/export.h"

#include <cmocka.h> /* last: it defines fail() */

#define MOST 4096 /* elements of a tensor */

static char scratch[] = "/tmp/t_merge.XXXXXX";

static const char *golden(const char *kind, const char *name)
{
	static char path[4][PATH_MAX];
	static int next;
	const char *top = getenv("ZR_SRCDIR");
	char *out = path[next++ % 4];
	snprintf(out, PATH_MAX, "%s/tests/golden/%s/%s", top ? top : ".", kind, name);
	return out;
}

static struct zr_st open_file(const char *dir, const char *name)
{
	char path[PATH_MAX];
	struct zr_error err = { 0 };
	struct zr_st st;
	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (zr_st_open(path, &st, &err))
		fail_msg("%s", err.text);
	return st;
}

static void read_tensor(const struct zr_st *st, const char *name, float x[MOST], int64_t *n)
{
	struct zr_error err = { 0 };
	const struct zr_st_tensor *t = zr_st_find(st, name);
	if (!t || t->dtype != ZR_F32 || t->elements > MOST)
		fail_msg("%s: no tensor %s in fp32", st->path, name);
	*n = t->elements;
	if (zr_st_read(st, t, 0, t->bytes, x, &err))
		fail_msg("%s", err.text);
}

static void merge(const char *model, const char *option, char dir[PATH_MAX],
		  const struct zr_export_how *how)
{
	const char *base = model;
	if (!strcmp(model, "gpt2-names"))
		base = "gpt2";
	if (!strcmp(model, "llama-tokens"))
		base = "llama";
	if (!strcmp(model, "llama-head"))
		base = "llama";
	if (!strcmp(model, "qwen2-saved"))
		base = "qwen2";
	const struct zr_export_from from = { .model = golden("pretrained", base),
					     .adapter = golden("adapters", model),
					     .option = &option,
					     .options = option != NULL };
	struct zr_error err = { 0 };
	snprintf(dir, PATH_MAX, "%s/%s", scratch, model);
	zr_remove(AT_FDCWD, dir);
	if (zr_export_files(&from, dir, how, &err))
		fail_msg("%s: %s", model, err.text);
}

static const struct zr_export_how fp32 = { .dtype = ZR_F32,
					   .shard_bytes = ZR_EXPORT_SHARD,
					   .merge = 1 };

/* W + s B A is rounded once, and s is: both are off by less than half a unit in the last place of
 * the largest element. */
static void compare(const char *model, const char *option, const char *file)
{
	static float is[MOST], want[MOST];
	char dir[PATH_MAX];
	int64_t n, m;
	merge(model, option, dir, &fp32);
	struct zr_st ours = open_file(dir, "model.safetensors");
	struct zr_st theirs = open_file(golden("adapters", model), file);
	assert_int_equal(ours.n, theirs.n);
	for (int64_t i = 0; i < theirs.n; i++) {
		const char *name = theirs.tensor[i].name;
		read_tensor(&theirs, name, want, &n);
		read_tensor(&ours, name, is, &m);
		assert_int_equal(n, m);
		float most = 0;
		for (int64_t k = 0; k < n; k++)
			most = fabsf(want[k]) > most ? fabsf(want[k]) : most;
		for (int64_t k = 0; k < n; k++)
			if (!(fabsf(is[k] - want[k]) <= most * 0x1p-23f))
				fail_msg("%s: %s[%lld] = %.9g, PEFT merges to %.9g", model, name,
					 (long long)k, (double)is[k], (double)want[k]);
	}
	zr_st_close(&ours);
	zr_st_close(&theirs);
}

static void merges_as_peft(void **unused)
{
	(void)unused;
	compare("gpt2", NULL, "merged.safetensors");
	compare("gpt2-names", NULL, "merged.safetensors");
	compare("gpt2-untied", NULL, "merged.safetensors");
	compare("llama", NULL, "merged.safetensors");
	compare("llama-tokens", NULL, "merged.safetensors");
	compare("qwen2", NULL, "merged.safetensors");
	compare("qwen2-saved", NULL, "merged.safetensors");
	compare("llama-head", NULL, "merged.safetensors");
	compare("mixtral", NULL, "merged.safetensors");
	compare("qwen3-moe", NULL, "merged.safetensors");
}

/* W + s B A of a map whose weight is [out, in], or else [in, out], in fp64 and rounded once. */
struct product {
	const char *model;
	const char *stored, *weight; /* the weight's name in the base, in what is merged */
	const char *adapter;         /* what is before .lora_A.weight */
	int64_t in, out, r;
	float scale;
	int out_in;
};

static void check_product(const struct product *p)
{
	static float is[MOST], w[MOST], a[MOST], b[MOST];
	char dir[PATH_MAX], name[200];
	int64_t n;
	merge(p->model, NULL, dir, &fp32);
	struct zr_st ours = open_file(dir, "model.safetensors");
	struct zr_st base = open_file(golden("pretrained", p->model), "model.safetensors");
	struct zr_st lora = open_file(golden("adapters", p->model), "adapter_model.safetensors");
	read_tensor(&ours, p->weight, is, &n);
	read_tensor(&base, p->stored, w, &n);
	assert_int_equal(n, p->in * p->out);
	snprintf(name, sizeof name, "%s.lora_A.weight", p->adapter);
	read_tensor(&lora, name, a, &n);
	assert_int_equal(n, p->r * p->in);
	snprintf(name, sizeof name, "%s.lora_B.weight", p->adapter);
	read_tensor(&lora, name, b, &n);
	assert_int_equal(n, p->r * p->out);

	for (int64_t o = 0; o < p->out; o++)
		for (int64_t i = 0; i < p->in; i++) {
			const int64_t at = p->out_in ? o * p->in + i : i * p->out + o;
			double sum = 0;
			for (int64_t k = 0; k < p->r; k++)
				sum += (double)b[o * p->r + k] * (double)a[k * p->in + i];
			const float want = (float)((double)w[at] + (double)p->scale * sum);
			if (is[at] != want)
				fail_msg("%s[%lld] = %.9g, not %.9g", p->weight, (long long)at,
					 (double)is[at], (double)want);
		}
	zr_st_close(&ours);
	zr_st_close(&base);
	zr_st_close(&lora);
}

static void sums_are_rounded_once(void **unused)
{
	static const struct product products[] = {
		{ "llama", "model.layers.0.self_attn.q_proj.weight",
		  "model.layers.0.self_attn.q_proj.weight",
		  "base_model.model.model.layers.0.self_attn.q_proj", 16, 16, 3,
		  (float)(6 / 1.7320508075688772), 1 },
		{ "gpt2", "transformer.h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.weight",
		  "base_model.model.transformer.h.0.mlp.c_fc", 16, 64, 4, 2, 0 },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof products / sizeof *products; i++)
		check_product(&products[i]);
}

/* Its base is what bitsandbytes makes of the weights. */
static void merges_onto_nf4_as_peft(void **unused)
{
	(void)unused;
	compare("llama", "model.store=nf4", "merged_nf4.safetensors");
}

/* zeroth/device.h: half away from zero in bf16, to even in fp16, whose least numbers have no
 * leading one. */
static void numbers_of_16_bits_are_the_nearest(void **unused)
{
	static const struct {
		int32_t dtype;
		float from, to;
	} of[] = {
		{ ZR_F16, 1 + 0x1p-11f, 1 },
		{ ZR_F16, 1 + 3 * 0x1p-11f, 1 + 0x1p-9f },
		{ ZR_F16, -1 - 0x1.1p-11f, -1 - 0x1p-10f },
		{ ZR_F16, 0x1.8p-24f, 0x1p-23f },
		{ ZR_F16, 0x1p-25f, 0 },
		{ ZR_F16, 65519, 65504 },
		{ ZR_F16, -65520, -INFINITY },
		{ ZR_BF16, 1 + 0x1p-8f, 1 + 0x1p-7f },
		{ ZR_BF16, -1 - 0x1p-8f, -1 - 0x1p-7f },
		{ ZR_BF16, 1 + 0x1.fp-9f, 1 },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++)
		if (zr_export_rounded(of[i].dtype, of[i].from) != of[i].to)
			fail_msg("%a becomes %a, not %a", (double)of[i].from,
				 (double)zr_export_rounded(of[i].dtype, of[i].from),
				 (double)of[i].to);
}

static void files_name_what_was_merged(void **unused)
{
	char dir[PATH_MAX];
	(void)unused;
	merge("llama", NULL, dir, &fp32);
	struct zr_st st = open_file(dir, "model.safetensors");
	const char *base = zr_st_meta(&st, "base_model"), *adapter = zr_st_meta(&st, "adapter");
	assert_non_null(base);
	assert_non_null(adapter);
	assert_non_null(strstr(base, "pretrained/llama"));
	assert_non_null(strstr(adapter, "adapters/llama"));
	zr_st_close(&st);
}

static void what_is_no_adapter_is_refused(void **unused)
{
	struct zr_error err = { 0 };
	char dir[PATH_MAX];
	(void)unused;
	snprintf(dir, sizeof dir, "%s/none", scratch);
	struct zr_export_from from = { .model = golden("pretrained", "qwen2"),
				       .adapter = golden("adapters", "none") };
	assert_int_equal(zr_export_files(&from, dir, &fp32, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "adapters/none/adapter_config.json"));
	memset(&err, 0, sizeof err);
	from.adapter = golden("adapters", "llama");
	assert_int_equal(zr_export_files(&from, dir, &fp32, &err), ZR_EINVAL);
	assert_int_equal(access(dir, F_OK), -1);
}

static int set_up(void **unused)
{
	(void)unused;
	return mkdtemp(scratch) ? 0 : -1;
}

static int clean_up(void **unused)
{
	static const char *const made[] = { "gpt2",      "gpt2-names",   "gpt2-untied",
					    "llama",     "qwen2",        "mixtral",
					    "qwen3-moe", "llama-tokens", "qwen2-saved",
					    "llama-head" };
	char dir[PATH_MAX];
	(void)unused;
	for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
		snprintf(dir, sizeof dir, "%s/%s", scratch, made[i]);
		zr_remove(AT_FDCWD, dir);
	}
	return rmdir(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merges_as_peft),
		cmocka_unit_test(sums_are_rounded_once),
		cmocka_unit_test(merges_onto_nf4_as_peft),
		cmocka_unit_test(numbers_of_16_bits_are_the_nearest),
		cmocka_unit_test(files_name_what_was_merged),
		cmocka_unit_test(what_is_no_adapter_is_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("merge", tests, set_up, clean_up);
}
