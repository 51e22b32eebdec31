/* SPDX-License-Identifier: Apache-2.0
 *
 * Files written past the page cache: whatever the order, the sizes and what the file system allows,
 * what is in the file is what was written; what reads back as something else, or cannot be written,
 * is said. pread and pwrite are this file's own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>
#include <xxhash.h>

#include "files/direct/direct.h"

static char path[] = "direct-XXXXXX";
static int fd, direct, refuse, fails;
static int64_t flip = -1;

ssize_t pread(int f, void *to, size_t n, off_t at)
{
	long got = syscall(SYS_pread64, f, to, n, at);
	if (flip >= at && flip < at + got)
		((char *)to)[flip - at] ^= 1;
	return got;
}

ssize_t pwrite(int f, const void *from, size_t n, off_t at)
{
	if (fails) {
		errno = ENOSPC;
		return -1;
	}
	if (f == direct && refuse) {
		errno = EINVAL;
		return -1;
	}
	/* not all at once */
	return syscall(SYS_pwrite64, f, from, n > 3 * 4096 ? 2 * 4096 : n, at);
}

static int start(void **state)
{
	(void)state;
	strcpy(path, "direct-XXXXXX");
	fd = mkstemp(path);
	direct = open(path, O_RDWR | O_DIRECT);
	refuse = fails = 0;
	flip = -1;
	return fd < 0;
}

static int end(void **state)
{
	(void)state;
	close(fd);
	if (direct >= 0)
		close(direct);
	return unlink(path);
}

static char *random_bytes(size_t n)
{
	char *p = malloc(n);
	for (size_t i = 0; i < n; i++)
		p[i] = (char)(i * 2654435761u >> 13 ^ i);
	return p;
}

/* Writes `bytes` behind `skip` bytes, in steps; from the middle on first, if so. The result of the
 * close. */
static int write_all(const char *data, size_t skip, size_t bytes, size_t step, int middle_first,
		     uint64_t *bad)
{
	struct zr_direct *d = zr_direct_open(fd, direct, skip + bytes);
	XXH3_state_t *hash = XXH3_createState();
	size_t first = middle_first ? bytes / 2 : 0;
	assert_non_null(d);
	XXH3_64bits_reset(hash);
	for (size_t at = first, n; at < bytes; at += n) {
		n = bytes - at < step ? bytes - at : step;
		zr_direct_write(d, data + at, n, skip + at, hash);
	}
	for (size_t at = 0, n; at < first; at += n) {
		n = first - at < step ? first - at : step;
		zr_direct_write(d, data + at, n, skip + at, hash);
	}
	if (!middle_first)
		assert_true(XXH3_64bits_digest(hash) == XXH3_64bits(data, bytes));
	XXH3_freeState(hash);
	return zr_direct_close(d, bad);
}

static void check(size_t skip, size_t bytes, size_t step, int middle_first)
{
	char *data = random_bytes(bytes), *got = malloc(bytes + 1);
	uint64_t bad;
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(write_all(data, skip, bytes, step, middle_first, &bad), 0);
	assert_true(bad == UINT64_MAX);
	assert_int_equal(lseek(fd, 0, SEEK_END), skip + bytes);
	assert_int_equal(syscall(SYS_pread64, fd, got, bytes, skip), bytes);
	assert_memory_equal(got, data, bytes);
	free(data);
	free(got);
}

static void check_sizes(void)
{
	check(0, 1, 1, 0);
	check(104, 3000, 1000, 0);
	check(104, 5000, 999, 1);
	check(4096, 8192, 4096, 1);
	check(3272, 100000, 12345, 0);
	check(3272, 700001, 70000, 1);
	check(936, (9 << 20) + 77, 1 << 20, 0);
	check(936, (9 << 20) + 77, 99991, 1);
}

static void files_are_what_was_written(void **state)
{
	(void)state;
	check_sizes();
}

static void without_direct(void **state)
{
	int kept = direct;
	(void)state;
	refuse = 1; /* it opens, and then says no */
	check_sizes();
	direct = -1;
	check_sizes();
	direct = kept;
}

static void what_differs_is_said(void **state)
{
	static const int64_t place[] = { 936, 4095, 4096, 300000, 936 + 800000 - 1 };
	char *data = random_bytes(800000);
	uint64_t bad;
	(void)state;
	for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
		flip = place[i];
		assert_int_equal(write_all(data, 936, 800000, 50000, (int)i % 2, &bad), EIO);
		assert_int_equal(bad, flip);
	}
	free(data);
}

static void what_fails_is_said(void **state)
{
	char *data = random_bytes(800000);
	uint64_t bad;
	(void)state;
	fails = 1;
	assert_int_equal(write_all(data, 936, 800000, 50000, 0, &bad), ENOSPC);
	assert_true(bad == UINT64_MAX);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(files_are_what_was_written, start, end),
		cmocka_unit_test_setup_teardown(without_direct, start, end),
		cmocka_unit_test_setup_teardown(what_differs_is_said, start, end),
		cmocka_unit_test_setup_teardown(what_fails_is_said, start, end),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
