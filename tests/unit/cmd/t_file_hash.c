/* SPDX-License-Identifier: Apache-2.0
 *
 * t_file_hash.c - a hash tells a file's bytes from others, also of a file that changed after this
 * process had hashed it, and of more files than it remembers.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/file_hash.h"

enum { LARGE = (64 << 20) + 1 };

/* A file without a name. */
static int made(void)
{
	char path[] = "/tmp/zeroth-hash-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	unlink(path);
	return fd;
}

static void put(int fd, const char *text, off_t at)
{
	assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
}

static uint64_t hash_of(int fd, int whole, int64_t bytes)
{
	struct zr_file_hash f = { .name = "a file" };
	assert_int_equal(zr_file_hash(fd, &f, whole), 0);
	assert_int_equal(f.bytes, bytes);
	return f.hash;
}

static void equal_bytes(void **state)
{
	int a = made(), b = made(), c = made();
	(void)state;

	put(a, "text", 0);
	put(b, "text", 0);
	put(c, "test", 0);
	assert_true(hash_of(a, 0, 4) == hash_of(b, 0, 4));
	assert_true(hash_of(a, 0, 4) == hash_of(a, 1, 4));
	assert_true(hash_of(a, 0, 4) != hash_of(c, 0, 4));
	close(a);
	close(b);
	close(c);
}

/* Its size stays what it was; its times say that it was written. */
static void changed_bytes(void **state)
{
	int fd = made();
	const struct timespec day = { .tv_sec = 86400 }, times[] = { day, day };
	(void)state;

	put(fd, "text", 0);
	const uint64_t before = hash_of(fd, 0, 4);
	put(fd, "test", 0);
	futimens(fd, times);
	const uint64_t after = hash_of(fd, 0, 4);
	assert_true(before != after);

	put(fd, "text", 0);
	assert_true(hash_of(fd, 0, 4) == before);
	close(fd);
}

/* Byte 3,000,000 is none of the samples of this size. */
static void samples(void **state)
{
	int fd = made();
	(void)state;

	assert_int_equal(ftruncate(fd, LARGE), 0);
	const uint64_t sampled = hash_of(fd, 0, LARGE), whole = hash_of(fd, 1, LARGE);
	put(fd, "x", 3000000);
	assert_true(hash_of(fd, 0, LARGE) == sampled);
	assert_true(hash_of(fd, 1, LARGE) != whole);
	close(fd);
}

static void many_files(void **state)
{
	enum { N = 150 };
	uint64_t hash[N];
	int fd[N];
	char text[16];
	(void)state;

	for (int i = 0; i < N; i++) {
		fd[i] = made();
		snprintf(text, sizeof text, "%04d", i);
		put(fd[i], text, 0);
		hash[i] = hash_of(fd[i], 0, 4);
		assert_true(!i || hash[i] != hash[i - 1]);
	}

	for (int i = 0; i < N; i++) {
		assert_true(hash_of(fd[i], 0, 4) == hash[i]);
		close(fd[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_bytes),
		cmocka_unit_test(changed_bytes),
		cmocka_unit_test(samples),
		cmocka_unit_test(many_files),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
