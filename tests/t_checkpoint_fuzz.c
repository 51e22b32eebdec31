/* SPDX-License-Identifier: Apache-2.0
 *
 * t_checkpoint_fuzz.c - damaged manifests and safetensors, some thousands of each, or with MATRIX=full 100,000: an error
 * or something usable, never a crash. Checksums and lengths are made right again, so that what is behind them is reached.
 * The damage is a function of its number: what fails here fails again.
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
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt_rig.h"
#include "fuzz_rig.h"

#include <cmocka.h> /* last: it defines fail() */

#define ROOM 65536

/* What everyone does with a manifest that was read. */
static void use_manifest(const struct zr_manifest *m, const struct zr_manifest *here)
{
	char name[ZR_ENTRY_NAME];
	struct zr_error err = { 0 };
	int64_t n;
	zr_manifest_accepts(here, m, 0, &err);
	zr_ckpt_bytes(m);
	if (m->layout.parameters > 10000000)
		return; /* its files would be as large: zr_ckpt_open refuses those that are not there first */
	for (int32_t r = 0; r < m->world && r < 4; r++) {
		struct zr_ckpt_entry *e = zr_entries(m, r, &n);
		assert_non_null(e);
		for (int64_t i = 0; i < n && i < 100; i++)
			zr_entry_tensor(m, &e[i], name);
		free(e);
	}
}

static void test_manifests(void **unused)
{
	static char text[ROOM];
	struct zr_manifest here;
	long whole = 0;
	(void)unused;
	uint8_t frozen[] = { 0, ZR_FROZEN_SAVED, 0, ZR_FROZEN_LEFT_OUT };
	uint64_t source[4] = { [3] = UINT64_C(0x0123456789abcdef) };
	ckpt_manifest(&here, 3);
	here.frozen = frozen;
	here.source = source;
	char *good = zr_manifest_text(&here);
	for (long i = 0; i < fuzz_rounds(3000); i++) {
		struct zr_manifest m;
		struct zr_error err = { 0 };
		size_t n = strlen(good);
		fuzz_seed((uint64_t)i * 77777 + 1);
		memcpy(text, good, n);
		for (uint32_t k = fuzz_draw(4); k != UINT32_MAX; k--)
			n = fuzz_damage(text, n, ROOM);
		char *exact = malloc(n + 1); /* so that a sanitizer sees what reads behind it */
		memcpy(exact, text, n);
		if (fuzz_draw(16))
			ckpt_sign(exact, n);
		if (zr_manifest_parse(exact, n, "m", &m, &err)) {
			assert_int_not_equal(err.text[0], 0);
		} else {
			use_manifest(&m, &here);
			zr_manifest_free(&m);
			whole++;
		}
		free(exact);
	}
	assert_true(whole > 0 && whole < fuzz_rounds(3000) / 2); /* damage reaches the inside, and most of it is found */
	free(good);
	ckpt_manifest_free(&here);
}

static char *good_header(size_t *bytes)
{
	const int64_t dims[][2] = { { 3, 5 }, { 40, 1 }, { 2, 2 } };
	struct zr_st_tensor t[3];
	json_t *meta = json_pack("{s:s}", "format", "pt");
	uint64_t at = 0;
	for (int i = 0; i < 3; i++) {
		t[i] = zr_st_make((const char *const[]){ "h.0.weight", "h.0.bias", "wte" }[i], (int32_t[]){ ZR_F32, ZR_BF16, ZR_U8 }[i], 2,
				  dims[i], at);
		at += t[i].bytes;
	}
	char *text = zr_st_header(t, 3, meta, bytes);
	json_decref(meta);
	return text;
}

static void use_file(const struct zr_st *st)
{
	static char data[ROOM];
	struct zr_error err = { 0 };
	zr_st_meta(st, "format");
	for (int64_t i = 0; i < st->n; i++) {
		const struct zr_st_tensor *t = zr_st_find(st, st->tensor[i].name);
		assert_non_null(t);
		assert_true(t->bytes <= sizeof data);
		assert_int_equal(zr_st_read(st, t, 0, t->bytes, data, &err), 0);
	}
}

static void test_files(void **unused)
{
	static char text[ROOM];
	char path[64];
	size_t header;
	char *good = good_header(&header);
	int fd = memfd_create("safetensors", 0);
	long whole = 0;
	(void)unused;
	assert_true(fd >= 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (long i = 0; i < fuzz_rounds(3000); i++) {
		struct zr_st st;
		struct zr_error err = { 0 };
		size_t n = header - 8;
		fuzz_seed((uint64_t)i * 99991 + 3);
		memcpy(text + 8, good + 8, n);
		for (uint32_t k = fuzz_draw(4); k != UINT32_MAX; k--)
			n = fuzz_damage(text + 8, n, ROOM - 8);
		uint64_t said = fuzz_draw(8) ? n : fuzz_draw(2) ? fuzz_draw(100000) : (uint64_t)fuzz_draw(1000) << 53;
		memcpy(text, &said, sizeof said);
		size_t all = 8 + n + (fuzz_draw(8) ? 144 : fuzz_draw(300));
		assert_int_equal(ftruncate(fd, 0), 0);
		assert_int_equal(pwrite(fd, text, 8 + n, 0), (ssize_t)(8 + n));
		assert_int_equal(ftruncate(fd, (off_t)all), 0);
		if (zr_st_open(path, &st, &err)) {
			assert_int_not_equal(err.text[0], 0);
			continue;
		}
		use_file(&st);
		zr_st_close(&st);
		whole++;
	}
	assert_true(whole > 0 && whole < fuzz_rounds(3000) / 2);
	close(fd);
	free(good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_manifests),
		cmocka_unit_test(test_files),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
