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
	const char *base = strcmp(model, "gpt2-names") ? model : "gpt2";
	const struct zr_export_from from = { .model = golden("pretrained", base),
					    .adapter = golden("adapters", model),
					    .option = &option, .options = option != NULL };
	struct zr_error err = { 0 };
	snprintf(dir, PATH_MAX, "%s/%s", scratch, model);
	zr_remove(AT_FDCWD, dir);
	if (zr_export_files(&from, dir, how, &err))
		fail_msg("%s: %s", model, err.text);
}

static const struct zr_export_how fp32 = { .dtype = ZR_F32, .shard_bytes = ZR_EXPORT_SHARD,
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
	compare("qwen2", NULL, "merged.safetensors");
	compare("mixtral", NULL, "merged.safetensors");
	compare("qwen3-moe", NULL, "merged.safetensors");
}

/* Its base is what bitsandbytes makes of the weights. */
static void merges_onto_nf4_as_peft(void **unused)
{
	(void)unused;
	compare("llama", "model.store=nf4", "merged_nf4.safetensors");
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
	static const char *const made[] = { "gpt2", "gpt2-names", "gpt2-untied", "llama", "qwen2",
					    "mixtral", "qwen3-moe" };
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
		cmocka_unit_test(merges_onto_nf4_as_peft),
		cmocka_unit_test(files_name_what_was_merged),
		cmocka_unit_test(what_is_no_adapter_is_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("merge", tests, set_up, clean_up);
}
