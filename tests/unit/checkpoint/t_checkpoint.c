/* SPDX-License-Identifier: Apache-2.0
 *
 * t_checkpoint.c - the files of a checkpoint: entries, manifest, safetensors, directory (I6). Every
 * byte is covered by some checksum: each is flipped once, or a sample of them (test_every_byte).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/ckpt_fixture.h"
#include "tests/lib/sanitize.h"

#include <cmocka.h> /* last: it defines fail() */

static char scratch[] = "/tmp/zeroth-ckpt-XXXXXX";
static char dir[64];

static int make_scratch(void **unused)
{
	(void)unused;
	if (!mkdtemp(scratch))
		return -1;
	snprintf(dir, sizeof dir, "%s/c", scratch);
	return 0;
}

static int remove_scratch(void **unused)
{
	char command[64];
	(void)unused;
	snprintf(command, sizeof command, "rm -rf %s", scratch);
	return system(command);
}

/* ---- entries ---- */

/* The entries of all ranks have every element of every tensor and state once, and each file is
 * without gaps. The first unit's state is split over so many ranks, that of the other over all. */
static void check_cover(int32_t world, int32_t ranks, int64_t entry_blocks)
{
	int32_t split[] = { ranks, ranks, 0, 0 };
	static uint8_t seen[4][4][8 * ZR_BLOCK];
	struct zr_manifest m;
	ckpt_manifest(&m, world);
	m.entry_blocks = entry_blocks;
	m.ranks = split;
	memset(seen, 0, sizeof seen);
	for (int32_t r = 0; r < world; r++) {
		int64_t n;
		uint64_t at = 0;
		struct zr_ckpt_entry *e = zr_entries(&m, r, &n);
		for (int64_t i = 0; i < n; i++) {
			assert_int_equal(e[i].at, at);
			at += e[i].bytes;
			if (e[i].tensor < 0) {
				assert_int_equal(r, 0);
				assert_int_equal(e[i].bytes, 200);
				continue;
			}
			/* cut at the same places for every number of ranks */
			assert_int_equal(e[i].first / entry_blocks,
					 (e[i].first + e[i].blocks - 1) / entry_blocks);
			for (int64_t k = 0; k < e[i].elements; k++)
				seen[e[i].tensor][e[i].state + 1][e[i].first * ZR_BLOCK + k]++;
		}
		free(e);
	}
	for (int t = 0; t < 4; t++)
		for (int st = 0; st < 4; st++)
			for (int64_t k = 0; k < 8 * ZR_BLOCK; k++)
				assert_int_equal(
					seen[t][st][k],
					k < m.layout.tensor[t].elements &&
						st <= m.optimizer[m.optimizer_of[t]].n_states);
	ckpt_manifest_free(&m);
}

static void test_cover(void **unused)
{
	(void)unused;
	for (int32_t world = 1; world <= 9; world++)
		for (int32_t ranks = 1; ranks <= world; ranks++)
			for (int64_t blocks = 1; world % ranks == 0 && blocks <= 6; blocks++)
				check_cover(world, ranks, blocks);
}

static void test_names(void **unused)
{
	struct zr_manifest m;
	char name[ZR_ENTRY_NAME];
	int64_t n;
	(void)unused;
	ckpt_manifest(&m, 1);
	struct zr_ckpt_entry *e = zr_entries(&m, 0, &n);
	struct zr_st_tensor t = zr_entry_tensor(&m, &e[5], name);
	assert_string_equal(name, "a.weight/exp_avg@4096");
	assert_int_equal(t.elements, 4096);
	/* the last stretch of 9000 elements, without padding */
	t = zr_entry_tensor(&m, &e[8], name);
	assert_string_equal(name, "a.weight/master@8192");
	assert_int_equal(t.elements, 9000 - 8192);
	t = zr_entry_tensor(&m, &e[11], name);
	assert_string_equal(name, "a.weight/scales@8192");
	assert_int_equal(t.dtype, ZR_U8);
	assert_int_equal(t.elements, 33);
	t = zr_entry_tensor(&m, &e[n - 1], name);
	assert_string_equal(name, "losses");
	assert_int_equal(t.elements, 50);
	free(e);
	ckpt_manifest_free(&m);
}

/* ---- the manifest ---- */

static void test_manifest_round_trip(void **unused)
{
	struct zr_manifest m, back;
	struct zr_error err = { 0 };
	(void)unused;
	ckpt_manifest(&m, 3);
	char *text = zr_manifest_text(&m);
	assert_int_equal(zr_manifest_parse(text, strlen(text), "m", &back, &err), 0);
	assert_int_equal(back.step, 50);
	assert_int_equal(back.applied, 3);
	assert_int_equal(back.seed, -7);
	assert_int_equal(back.world, 3);
	assert_memory_equal(&back.scale, &m.scale, sizeof m.scale);
	assert_int_equal(back.layout.parameters, m.layout.parameters);
	assert_int_equal(back.file[2].bytes, 100002);
	assert_true(back.file[2].header == m.file[2].header);
	assert_string_equal(back.config, m.config);
	assert_int_equal(zr_manifest_accepts(&m, &back, 0, &err), 0);
	char *again = zr_manifest_text(&back);
	assert_string_equal(again, text);
	free(again);
	free(text);
	zr_manifest_free(&back);
	ckpt_manifest_free(&m);
}

/* Over how many ranks states were split is said where it was not over all. */
static void test_manifest_ranks(void **unused)
{
	int32_t split[] = { 2, 2, 0, 0 };
	struct zr_manifest m, back;
	struct zr_error err = { 0 };
	(void)unused;
	ckpt_manifest(&m, 4);
	m.ranks = split;
	char *text = zr_manifest_text(&m);
	assert_non_null(strstr(text, "\"version\": 3"));
	assert_int_equal(zr_manifest_parse(text, strlen(text), "m", &back, &err), 0);
	assert_memory_equal(back.ranks, split, sizeof split);
	zr_manifest_free(&back);
	free(text);
	for (split[1] = 3; split[1] < 6; split[1] += 2) { /* 3 does not divide 4, and 5 is more */
		text = zr_manifest_text(&m);
		assert_int_equal(zr_manifest_parse(text, strlen(text), "m", &back, &err),
				 ZR_EINVAL);
		assert_string_equal(err.text, "m: the manifest has no valid ranks");
		free(text);
	}
	ckpt_manifest_free(&m);
}

/* Any byte, any bit. */
static void test_manifest_flips(void **unused)
{
	struct zr_manifest m, back;
	(void)unused;
	ckpt_manifest(&m, 2);
	char *text = zr_manifest_text(&m);
	size_t n = strlen(text);
	for (size_t i = 0; i < n; i++) {
		struct zr_error err = { 0 };
		text[i] ^= (char)(1 << i % 8);
		assert_int_equal(zr_manifest_parse(text, n, "m", &back, &err), ZR_EINVAL);
		assert_non_null(strstr(err.text, "damaged"));
		text[i] ^= (char)(1 << i % 8);
		assert_int_not_equal(zr_manifest_parse(text, i, "m", &back, NULL), 0);
	}
	free(text);
	ckpt_manifest_free(&m);
}

static void test_newer_version(void **unused)
{
	struct zr_manifest m, back;
	struct zr_error err = { 0 };
	(void)unused;
	ckpt_manifest(&m, 1);
	char *text = zr_manifest_text(&m), *at = strstr(text, "\"version\": 1");
	at[11] = '6';
	ckpt_sign(text, strlen(text));
	assert_int_equal(zr_manifest_parse(text, strlen(text), "dir/manifest.json", &back, &err),
			 ZR_ENOTSUP);
	assert_string_equal(err.text, "dir/manifest.json: format version 6; this zeroth reads "
				      "versions up to 5: use a newer one");
	free(text);
	ckpt_manifest_free(&m);
}

static void refused(const struct zr_manifest *here, const struct zr_manifest *saved,
		    const char *why)
{
	struct zr_error err = { 0 };
	assert_int_equal(zr_manifest_accepts(here, saved, 0, &err), ZR_EINVAL);
	assert_string_equal(err.text, why);
}

static void test_what_must_be_equal(void **unused)
{
	struct zr_manifest here, saved;
	struct zr_ckpt_state moved[] = { { "exp_avg", ZR_BF16, 0 },
					 { "exp_avg_sq", ZR_BF16, 0 },
					 { "scales", ZR_U8, 33 } };
	struct zr_ckpt_optimizer other[] = {
		{ .id = "adam", .state_version = 1, .n_states = 3, .state = moved },
		{ .id = "sgd", .state_version = 4, .state = moved }
	};
	int32_t other_of[] = { 1, 1, 0, 1 };
	(void)unused;
	ckpt_manifest(&here, 1);
	ckpt_manifest(&saved, 4);
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0); /* another world may be */
	/* its data, of which an older zeroth says nothing */
	json_object_set_new(here.settings, "data.file 1", json_string("9 bytes, xxh3 0 in a"));
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0);
	json_object_set_new(saved.settings, "data.file 1",
			    json_string("9 bytes, xxh3 0 in b in c"));
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0);
	json_object_set_new(saved.settings, "data.file 2", json_string("8 bytes, xxh3 1"));
	refused(&here, &saved,
		"the data is another: file 2 was 8 bytes, xxh3 1, is not there: give "
		"what it was, or go on with --other-data");
	here.other_data = 1;
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0);
	json_object_del(saved.settings, "data.file 2");
	here.other_data = 0;
	here.seed = 3;
	refused(&here, &saved, "[train] seed was -7, is 3");
	here.seed = saved.seed;
	here.slots = 6;
	refused(&here, &saved, "the number of micro-batches in a step of all ranks was 8, is 6");
	here.slots = saved.slots;
	here.length = 1025;
	refused(&here, &saved, "[train] sequence_length was 1024, is 1025");
	here.length = saved.length;
	here.micro = 2;
	refused(&here, &saved, "[train] micro_batch_size was 4, is 2");
	here.micro = saved.micro;
	here.dtype = "F32";
	refused(&here, &saved, "the type of [precision] was BF16, is F32");
	here.dtype = saved.dtype;
	here.master_bits = 16;
	refused(&here, &saved,
		"the number of bits that [precision] keeps of a parameter was 32, is 16");
	here.master_bits = 32;
	here.optimizer_of = other_of;
	refused(&here, &saved, "the optimizer of tensor a.weight was adam, is sgd");
	here.optimizer_of = saved.optimizer_of;
	here.optimizer = other;
	refused(&here, &saved, "state 0 of optimizer adam was exp_avg in F32, is exp_avg in BF16");
	other[0].converts = 1;
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0);
	other[0].converts = 0;
	moved[0].dtype = ZR_F32;
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0);
	/* as adamw8 was named, adamw with states of 8 bits */
	saved.optimizer[0].id = "adam8";
	assert_int_equal(zr_manifest_accepts(&here, &saved, 0, NULL), 0);
	saved.optimizer[0].id = "adam88";
	refused(&here, &saved, "the optimizer of tensor a.weight was adam88, is adam");
	saved.optimizer[0].id = "adam";
	other[0].state_version = 2;
	refused(&here, &saved, "the state of optimizer adam was of version 1, is of version 2");
	other[0].state_version = 1;
	saved.layout.tensor[1].elements = 8;
	struct zr_tensor wider = *saved.layout.tensor[1].decl;
	wider.dims[0] = 8;
	saved.layout.tensor[1].decl = &wider;
	refused(&here, &saved,
		"the model is another one: tensor a.bias had another shape: 8 elements, now 7: "
		"give [model] and [adapter] as they were, which config.ini of its run has, or "
		"train without --resume "
		"in another [run] dir");
	ckpt_manifest_free(&here);
	ckpt_manifest_free(&saved);
}

/* ---- whole directories ---- */

static void flip(const char *path, long at)
{
	int fd = open(path, O_RDWR);
	char c;
	assert_int_equal(pread(fd, &c, 1, at), 1);
	c ^= 4;
	assert_int_equal(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

/* A flipped bit anywhere is found, and the message has the file. */
static void test_every_byte(void **unused)
{
	struct zr_manifest m;
	struct zr_error err = { 0 };
	struct stat st;
	static const char *const files[] = { "manifest.json", "rank-00000-of-00002.safetensors",
					     "rank-00001-of-00002.safetensors" };
	long apart = sanitized() ? 8 : 1; /* to map a reader's 70 MiB takes long there */
	char path[256];
	(void)unused;
	ckpt_manifest(&m, 2);
	m.step = 3;
	assert_int_equal(ckpt_write(dir, &m, &err), 0);
	snprintf(path, sizeof path, "%s/step-00000003", dir);
	assert_int_equal(zr_ckpt_check(path, 1, NULL, NULL, NULL, &err), 0);
	for (size_t f = 0; f < 3; f++) {
		snprintf(path, sizeof path, "%s/step-00000003/%s", dir, files[f]);
		assert_int_equal(stat(path, &st), 0);
		for (long at = 0; at < st.st_size; at += apart * (f ? 37 : 11)) {
			struct zr_error e = { 0 };
			char step[256];
			flip(path, at);
			snprintf(step, sizeof step, "%s/step-00000003", dir);
			assert_int_equal(zr_ckpt_check(step, 1, NULL, NULL, NULL, &e), ZR_EINVAL);
			assert_non_null(strstr(e.text, files[f]));
			flip(path, at);
		}
	}
	ckpt_manifest_free(&m);
}

static void damage_is_named(const char *file, long at, const char *why)
{
	struct zr_error err = { 0 };
	char path[256];
	snprintf(path, sizeof path, "%s/step-00000003/%s", dir, file);
	flip(path, at);
	snprintf(path, sizeof path, "%s/step-00000003", dir);
	assert_int_equal(zr_ckpt_check(path, 1, NULL, NULL, NULL, &err), ZR_EINVAL);
	if (!strstr(err.text, why))
		fail_msg("%s", err.text);
	snprintf(path, sizeof path, "%s/step-00000003/%s", dir, file);
	flip(path, at);
}

static void test_damage_is_named(void **unused)
{
	struct zr_st st;
	char path[256];
	(void)unused;
	snprintf(path, sizeof path, "%s/step-00000003/rank-00001-of-00002.safetensors", dir);
	assert_int_equal(zr_st_open(path, &st, NULL), 0);
	const struct zr_st_tensor *t = zr_st_find(&st, "b.weight/exp_avg_sq@6144");
	assert_non_null(t);
	long at = (long)(st.data + t->at) + 5;
	zr_st_close(&st);
	damage_is_named("rank-00001-of-00002.safetensors", at,
			"tensor b.weight/exp_avg_sq@6144 is damaged: checksum ");
	damage_is_named("rank-00001-of-00002.safetensors", 200, "its header");
}

static void test_cut_short(void **unused)
{
	struct zr_error err = { 0 };
	struct stat st;
	char path[256], step[128];
	(void)unused;
	snprintf(step, sizeof step, "%s/step-00000003", dir);
	snprintf(path, sizeof path, "%s/rank-00000-of-00002.safetensors", step);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 1), 0);
	assert_int_equal(zr_ckpt_check(step, 0, NULL, NULL, NULL, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "but the manifest says"));
	err = (struct zr_error){ 0 };
	assert_int_equal(zr_ckpt_check(step, 1, NULL, NULL, NULL, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "cut short"));
	assert_int_equal(truncate(path, 100), 0);
	assert_int_not_equal(zr_ckpt_check(step, 1, NULL, NULL, NULL, NULL), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_not_equal(zr_ckpt_check(step, 0, NULL, NULL, NULL, NULL), 0);
	assert_int_equal(zr_ckpt_remove(dir, 3, NULL), 0);
}

static void save(int64_t step)
{
	struct zr_manifest m;
	struct zr_error err = { 0 };
	ckpt_manifest(&m, 1);
	m.step = step;
	if (ckpt_write(dir, &m, &err))
		fail_msg("%s", err.text);
	ckpt_manifest_free(&m);
}

static void has_steps(const char *want)
{
	int64_t n, *steps = zr_ckpt_steps(dir, 0, &n);
	char got[128] = "";
	for (int64_t i = 0; i < n; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%lld ", (long long)steps[i]);
	assert_string_equal(got, want);
	free(steps);
}

/* What prune keeps: newest whole ones up to the step; later and damaged ones stay. */
static void test_prune(void **unused)
{
	char path[256];
	int64_t removed = 0;
	(void)unused;
	for (int64_t step = 60; step <= 110; step += 10)
		save(step);
	assert_int_equal(zr_ckpt_named(dir, "latest"), 110);
	snprintf(path, sizeof path, "%s/step-00000080/manifest.json", dir);
	flip(path, 100);
	assert_int_equal(zr_ckpt_prune(dir, 100, 2, &removed, NULL), 0);
	assert_int_equal(removed, 2);
	has_steps("80 90 100 110 ");
	assert_int_equal(zr_ckpt_prune(dir, 100, 0, NULL, NULL), 0);
	has_steps("80 90 100 110 ");
	assert_int_equal(zr_ckpt_prune(dir, INT64_MAX, 1, NULL, NULL), 0);
	has_steps("80 110 ");
}

/* The same step again: the new one takes the name, whatever is there. */
static void test_again(void **unused)
{
	char path[256];
	(void)unused;
	save(80);
	has_steps("80 110 ");
	snprintf(path, sizeof path, "%s/step-00000080", dir);
	assert_int_equal(zr_ckpt_check(path, 1, NULL, NULL, NULL, NULL), 0);
	assert_int_equal(zr_ckpt_named(dir, "latest"), 80);
}

/* Leftovers go, but not what a process writes. */
static void test_leftovers(void **unused)
{
	char path[256];
	struct zr_error err = { 0 };
	int lock;
	(void)unused;
	snprintf(path, sizeof path, "%s/step-00000005.tmp", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(zr_ckpt_begin(dir, 6, &lock, &err), 0);
	assert_int_not_equal(access(path, F_OK), 0);
	snprintf(path, sizeof path, "%s/step-00000006.tmp", dir);
	assert_int_equal(zr_ckpt_clear(dir), 0);
	assert_int_equal(access(path, F_OK), 0);
	int second;
	assert_int_equal(zr_ckpt_begin(dir, 6, &second, &err), ZR_EIO);
	assert_non_null(strstr(err.text, "another process writes it"));
	close(lock);
	assert_int_equal(zr_ckpt_clear(dir), 1);
	has_steps("80 110 ");
}

static void test_latest_is_checked(void **unused)
{
	char path[256];
	(void)unused;
	snprintf(path, sizeof path, "%s/latest", dir);
	for (const char *const *bad = (const char *const[]){ "", "step-80\n", "step-00000080x",
							     "../step-00000080\n", NULL };
	     *bad; bad++) {
		FILE *f = fopen(path, "w");
		fputs(*bad, f);
		fclose(f);
		assert_int_equal(zr_ckpt_named(dir, "latest"), ZR_LATEST_DAMAGED);
	}
}

/* A terminal would obey what a manifest says. */
static void I7_ls_prints_no_control_characters(void **unused)
{
	char command[PATH_MAX], line[512] = "", all[1024] = "";
	struct zr_error err = { 0 };
	struct zr_manifest m;
	(void)unused;
	ckpt_manifest(&m, 1);
	json_object_set_new(m.plugins, "model", json_string("gpt2\033[31m\177\n\302\233red"));
	snprintf(dir, sizeof dir, "%s/ls", scratch);
	assert_int_equal(ckpt_write(dir, &m, &err), 0);
	snprintf(command, sizeof command, "\"${ZEROTH:-./zeroth}\" checkpoint ls %s", dir);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		strncat(all, line, sizeof all - strlen(all) - 1);
	assert_int_equal(pclose(f), 0);
	assert_non_null(strstr(all, "  model gpt2 [31m   \233red  optimizer ? "));
	assert_non_null(strstr(all, "  whole, latest\n"));
	ckpt_manifest_free(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cover),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_manifest_round_trip),
		cmocka_unit_test(test_manifest_ranks),
		cmocka_unit_test(test_manifest_flips),
		cmocka_unit_test(test_newer_version),
		cmocka_unit_test(test_what_must_be_equal),
		cmocka_unit_test(test_every_byte),
		cmocka_unit_test(test_damage_is_named),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_prune),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_latest_is_checked),
		cmocka_unit_test(I7_ls_prints_no_control_characters),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
