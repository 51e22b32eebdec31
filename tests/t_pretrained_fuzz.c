/* SPDX-License-Identifier: Apache-2.0
 *
 * t_pretrained_fuzz.c - damaged config.json and model.safetensors.index.json, some thousands in all, or with MATRIX=full
 * 100,000: an error with a text or something usable, never a crash. (Headers of safetensors: t_checkpoint_fuzz.c.)
 */
#define _GNU_SOURCE
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/pretrained/pretrained.h"
#include "core/setup.h"
#include "fuzz_rig.h"

#include <cmocka.h> /* last: it defines fail() */

#define ROOM 65536

static char dir[] = "/tmp/zeroth-fuzz-XXXXXX";

static const char *golden(const char *name, const char *file)
{
	static char path[4][PATH_MAX];
	static int next;
	const char *src = getenv("ZR_SRCDIR");
	next = (next + 1) % 4;
	snprintf(path[next], PATH_MAX, "%s/tests/golden/pretrained/%s%s%s", src ? src : ".", name, *file ? "/" : "", file);
	return path[next];
}

static const char *in_dir(const char *file)
{
	static char path[2][PATH_MAX];
	static int next;
	next = !next;
	snprintf(path[next], PATH_MAX, "%s/%s", dir, file);
	return path[next];
}

static size_t read_file(const char *path, char *text)
{
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	size_t n = fread(text, 1, ROOM, f);
	fclose(f);
	assert_true(n > 0 && n < ROOM);
	return n;
}

static void write_file(const char *path, const char *text, size_t n)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static int load(const char *path, const char *plugin, struct zr_config **cfg, struct zr_error *err)
{
	char option[3][PATH_MAX + 32];
	const char *options[] = { option[0], option[1], option[2], "data.plugin=tokens", "data.format=uint16", "train.micro_batch_size=1",
				  "train.gradient_accumulation_steps=1", "train.sequence_length=6" };
	snprintf(option[0], sizeof *option, "model.path=%s", path);
	snprintf(option[1], sizeof *option, "model.plugin=%s", plugin);
	snprintf(option[2], sizeof *option, "data.path=%s", golden("tokens.bin", ""));
	return zr_config_load(NULL, options, sizeof options / sizeof *options, cfg, err);
}

/* Loads what is in the directory and resolves the model: 1: it was usable. */
static int use_config(const char *plugin)
{
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1, .vocabulary = 61 };
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };
	const struct zr_pretrained_v1 *v;
	char unknown[64];
	int rc = load(dir, plugin, &cfg, &err);
	if (!rc) {
		assert_int_equal(zr_pretrained_tables(zr_config_model_json(cfg), zr_config_find(cfg, "model")->plugin, &v, &err), 0);
		zr_pretrained_unknown(zr_config_model_json(cfg), v, unknown, sizeof unknown);
		rc = zr_config_resolve(cfg, "model", &facts, &err);
		zr_config_free(cfg);
	}
	assert_true(!rc == !err.text[0]);
	return !rc;
}

static void damaged_configs(const char *name, const char *plugin, uint64_t seed)
{
	static char good[ROOM], text[ROOM];
	size_t have = read_file(golden(name, "config.json"), good);
	long whole = 0, rounds = fuzz_rounds(3000) / 4;
	for (long i = 0; i < rounds; i++) {
		size_t n = have;
		fuzz_seed((uint64_t)i * 7919 + seed);
		memcpy(text, good, n);
		for (uint32_t k = fuzz_draw(4); k != UINT32_MAX; k--)
			n = fuzz_damage(text, n, ROOM);
		write_file(in_dir("config.json"), text, n);
		whole += use_config(plugin);
	}
	assert_true(whole > 0 && whole < rounds); /* damage reaches the inside, and some of it is found */
	unlink(in_dir("config.json"));
}

static void configs(void **unused)
{
	(void)unused;
	damaged_configs("gpt2-bf16", "gpt2", 1);
	damaged_configs("llama", "llama", 2);
}

static int use_files(const struct zr_layout *layout)
{
	static float x[1 << 16];
	struct zr_tensor_files *f = NULL;
	struct zr_error err = { 0 };
	int rc = zr_tensor_files_open(dir, layout, "transformer.", "lm_head.weight", &f, &err);
	for (int32_t i = 0; !rc && i < layout->n_tensors; i++)
		assert_int_equal(zr_tensor_files_read(f, i, 0, layout->tensor[i].elements, x, &err), 0);
	zr_tensor_files_close(f);
	assert_true(!rc == !err.text[0]);
	return !rc;
}

static void indexes(void **unused)
{
	static const char *const shards[] = { "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
					      "model-00003-of-00003.safetensors" };
	static char good[ROOM], text[ROOM];
	static const char index[] = "model.safetensors.index.json";
	size_t have = read_file(golden("gpt2-shards", index), good);
	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_error err = { 0 };
	long whole = 0, rounds = fuzz_rounds(3000) / 2;
	(void)unused;
	if (load(golden("gpt2-shards", ""), "gpt2", &cfg, &err) || zr_setup_open(cfg, ZR_SETUP_ALONE, 1, &setup, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 3; i++)
		write_file(in_dir(shards[i]), text, read_file(golden("gpt2-shards", shards[i]), text));
	for (long i = 0; i < rounds; i++) {
		size_t n = have;
		fuzz_seed((uint64_t)i * 104729 + 5);
		memcpy(text, good, n);
		for (uint32_t k = fuzz_draw(4); k != UINT32_MAX; k--)
			n = fuzz_damage(text, n, ROOM);
		write_file(in_dir(index), text, n);
		whole += use_files(&setup->layout);
	}
	assert_true(whole > 0 && whole < rounds);
	for (int i = 0; i < 3; i++)
		unlink(in_dir(shards[i]));
	unlink(in_dir(index));
	zr_setup_close(setup);
	zr_config_free(cfg);
}

static int make_dir(void **unused)
{
	(void)unused;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **unused)
{
	(void)unused;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configs),
		cmocka_unit_test(indexes),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
