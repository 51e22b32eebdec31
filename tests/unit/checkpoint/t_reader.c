/* SPDX-License-Identifier: Apache-2.0
 *
 * t_reader.c - reading many entries ahead: from the disk and from the page cache, all and some of
 * them, with a file system that refuses O_DIRECT and one that reads less than it was asked for;
 * what is damaged, cut short or not wanted any more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include "files/checkpoint/reader.h"
#include "tests/lib/ckpt_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

static char path[] = "/tmp/zeroth-reader-XXXXXX";

/* ---- a disk ---- */

static int refuses, shorter;  /* O_DIRECT; every request */
static long direct, buffered; /* requests of 4096 bytes or more */

ssize_t pread(int fd, void *mem, size_t bytes, off_t at)
{
	int past = fcntl(fd, F_GETFL) & O_DIRECT ? 1 : 0;
	if (bytes >= 4096)
		__atomic_fetch_add(past ? &direct : &buffered, 1, __ATOMIC_RELAXED);
	if (past && refuses) {
		errno = EINVAL;
		return -1;
	}
	if (shorter && bytes > 8192)
		bytes = past ? 8192 : 5000;
	return (ssize_t)syscall(SYS_pread64, fd, mem, bytes, at);
}

/* ---- a file: entries of 2, 4 and 8 MB, which are several requests, and among them very small ones
 * ---- */

static const struct zr_tensor tensors[] = {
	{ .name = "a.weight", .dims = { 2000, 4001 }, .ndim = 2 },
	{ .name = "a.bias", .dims = { 7 }, .ndim = 1 },
	{ .name = "b.weight", .dims = { 5 * ZR_BLOCK }, .ndim = 1 },
	{ .name = "b.scale", .dims = { 1 }, .ndim = 1 },
};
static const struct zr_unit units[] = {
	{ .name = "a", .tensors = tensors, .n_tensors = 2 },
	{ .name = "b", .tensors = tensors + 2, .n_tensors = 2 },
};
static struct zr_manifest m;
static struct zr_ckpt_entry *entry;
static int64_t n_entries;
static unsigned char **values; /* [n_entries] */
static struct zr_st file;

static int make_file(void **unused)
{
	struct zr_model_decl decl = { .size = sizeof decl,
				      .n_units = 2,
				      .unit_stride = sizeof *units,
				      .tensor_stride = sizeof *tensors,
				      .units = units };
	struct zr_st_writer w;
	json_t *meta = json_object();
	char hex[17];
	int fd = mkstemp(path);
	(void)unused;
	close(fd);
	ckpt_manifest(&m, 1);
	zr_layout_free(&m.layout);
	assert_int_equal(zr_layout_make(&decl, &m.layout, NULL), 0);
	m.entry_blocks = 1000;
	entry = zr_entries(&m, 0, &n_entries);
	assert_non_null(entry);
	struct zr_st_tensor *t = calloc((size_t)n_entries, sizeof *t);
	char(*name)[ZR_ENTRY_NAME] = calloc((size_t)n_entries, sizeof *name);
	values = calloc((size_t)n_entries, sizeof *values);
	for (int64_t i = 0; i < n_entries; i++) {
		t[i] = zr_entry_tensor(&m, &entry[i], name[i]);
		values[i] = malloc(entry[i].bytes);
		for (uint64_t k = 0; k < entry[i].bytes; k++)
			values[i][k] = (unsigned char)((uint64_t)i * 29 + k * 7 + (k >> 11));
		json_object_set_new(
			meta, name[i],
			json_string(zr_hex(XXH3_64bits(values[i], entry[i].bytes), hex)));
	}
	assert_int_equal(zr_st_create(&w, path, t, n_entries, meta, NULL), 0);
	for (int64_t i = 0; i < n_entries; i++)
		zr_st_append(&w, values[i], entry[i].bytes);
	json_decref(meta);
	free(name);
	free(t);
	return zr_st_finish(&w, 1, NULL);
}

static int remove_file(void **unused)
{
	(void)unused;
	for (int64_t i = 0; i < n_entries; i++)
		free(values[i]);
	free(values);
	free(entry);
	ckpt_manifest_free(&m);
	return unlink(path);
}

static int open_file(void **unused)
{
	(void)unused;
	refuses = shorter = 0;
	direct = buffered = 0;
	return zr_st_open(path, &file, NULL);
}

static int close_file(void **unused)
{
	(void)unused;
	zr_st_close(&file);
	return 0;
}

static void leave_cache(void)
{
	assert_int_equal(fsync(file.fd), 0);
	assert_int_equal(posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
}

/* ---- who reads it ---- */

struct seen {
	const struct zr_ckpt_entry *next; /* one of the list that is read */
	int64_t n, stop_at;
	pthread_t caller;
};

static int look(void *arg, const struct zr_ckpt_entry *e, void *data, struct zr_error *err)
{
	struct seen *s = arg;
	unsigned char *p = data;
	const struct zr_ckpt_entry *own = entry;
	assert_true(pthread_equal(s->caller, pthread_self()));
	assert_ptr_equal(e, s->next);
	if (s->n == s->stop_at)
		return zr_err(err, ZR_EFIT, "not this one");
	while (own->at != e->at)
		own++;
	assert_int_equal((uintptr_t)p % 4096, 0);
	assert_memory_equal(p, values[own - entry], e->bytes);
	for (uint64_t i = e->bytes; i < (uint64_t)e->blocks * ZR_BLOCK * 4; i++)
		assert_int_equal(p[i], 0);
	memset(p, 0xee, e->bytes); /* it may */
	s->next++;
	s->n++;
	return 0;
}

static int64_t all_of(struct zr_reader *r, const struct zr_ckpt_entry *e, int64_t n,
		      int64_t stop_at, int want, struct zr_error *err)
{
	struct seen s = { .next = e, .stop_at = stop_at, .caller = pthread_self() };
	assert_int_equal(zr_reader_run(r, &m, &file, e, n, look, &s, err), want);
	return s.n;
}

static void reads_all(int cached)
{
	struct zr_reader *r = zr_reader_new(cached);
	assert_non_null(r);
	assert_int_equal(all_of(r, entry, n_entries, -1, 0, NULL), n_entries);
	zr_reader_free(r);
}

static void test_disk(void **unused)
{
	(void)unused;
	leave_cache();
	direct = buffered = 0;
	reads_all(0);
	print_message("# %ld requests past the page cache, %ld through it\n", direct, buffered);
	assert_true(direct == 0 || buffered == 0); /* where O_DIRECT is, for all of it */
	leave_cache();
	direct = 0;
	reads_all(1);
	assert_int_equal(direct, 0);
}

static void test_page_cache(void **unused)
{
	(void)unused;
	reads_all(1);
	direct = 0;
	reads_all(0); /* it is there now */
	assert_int_equal(direct, 0);
}

static void test_refused(void **unused)
{
	(void)unused;
	leave_cache();
	refuses = 1;
	reads_all(0);
}

static void test_short_reads(void **unused)
{
	(void)unused;
	shorter = 1;
	leave_cache();
	reads_all(0);
	reads_all(1);
}

static void test_some(void **unused)
{
	struct zr_ckpt_entry *some = calloc((size_t)n_entries, sizeof *some);
	struct zr_reader *r = zr_reader_new(0);
	int64_t n = 0;
	(void)unused;
	leave_cache();
	for (int64_t i = 0; i < n_entries; i++)
		if (i % 3 != 1)
			some[n++] = entry[i];
	assert_int_equal(all_of(r, some, n, -1, 0, NULL), n);
	assert_int_equal(all_of(r, some + n - 1, 1, -1, 0, NULL), 1); /* with the same reader */
	assert_int_equal(all_of(r, some, 0, -1, 0, NULL), 0);
	zr_reader_free(r);
	free(some);
}

static void test_failing_caller(void **unused)
{
	struct zr_reader *r = zr_reader_new(0);
	(void)unused;
	for (int64_t i = 0; i < n_entries; i += 4) {
		struct zr_error err = { 0 };
		assert_int_equal(all_of(r, entry, n_entries, i, ZR_EFIT, &err), i);
		assert_string_equal(err.text, "not this one");
	}
	zr_reader_free(r);
}

/* What was before it may have been handed out; it was not. */
static void test_damage(void **unused)
{
	struct zr_reader *r = zr_reader_new(0);
	int fd = open(path, O_RDWR);
	(void)unused;
	for (int64_t i = 0; i < n_entries; i += 5) {
		struct zr_error err = { 0 };
		char name[ZR_ENTRY_NAME];
		off_t at = (off_t)(file.data + entry[i].at + entry[i].bytes - 1);
		unsigned char good = values[i][entry[i].bytes - 1], bad = good ^ 4;
		zr_entry_tensor(&m, &entry[i], name);
		assert_int_equal(pwrite(fd, &bad, 1, at), 1);
		if (i % 2)
			leave_cache();
		assert_true(all_of(r, entry, n_entries, -1, ZR_EINVAL, &err) <= i);
		if (!strstr(err.text, name) || !strstr(err.text, "is damaged: checksum "))
			fail_msg("%d %s: %s", (int)i, name, err.text);
		assert_int_equal(pwrite(fd, &good, 1, at), 1);
	}
	assert_int_equal(fsync(fd), 0);
	close(fd);
	assert_int_equal(all_of(r, entry, n_entries, -1, 0, NULL), n_entries);
	zr_reader_free(r);
}

static void test_cut_short(void **unused)
{
	struct zr_reader *r = zr_reader_new(0);
	(void)unused;
	for (int i = 0; i < 2; i++) {
		struct zr_error err = { 0 };
		assert_int_equal(truncate(path, (off_t)(file.data + (i ? entry[0].bytes / 2 :
									 entry[n_entries - 1].at))),
				 0);
		leave_cache();
		assert_true(all_of(r, entry, n_entries, -1, ZR_EINVAL, &err) < n_entries);
		if (!strstr(err.text, "cut short in tensor "))
			fail_msg("%s", err.text);
	}
	zr_reader_free(r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_file, close_file)
	const struct CMUnitTest tests[] = {
		TEST(test_disk),        TEST(test_page_cache), TEST(test_refused),
		TEST(test_short_reads), TEST(test_some),       TEST(test_failing_caller),
		TEST(test_damage),      TEST(test_cut_short),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
