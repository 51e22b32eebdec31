/* SPDX-License-Identifier: Apache-2.0
 *
 * streams.c - see faults.h: fopen whose reads and writes are ours; those inside the C library
 * cannot be interposed.
 */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STREAMS 64

static struct {
	FILE *file;
	int fd;
} stream[STREAMS]; /* what fileno must know */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *cookie_of(int fd)
{
	return (void *)((intptr_t)fd + 1);
}

static int fd_of(const void *cookie)
{
	return (int)((intptr_t)cookie - 1);
}

/* Keeps on until all is written, as the C library's own streams. */
static ssize_t put(void *cookie, const char *data, size_t bytes)
{
	size_t at = 0;
	while (at < bytes) {
		long n = fault_write(fd_of(cookie), data + at, bytes - at);
		if (n < 0)
			break;
		at += (size_t)n;
	}
	return (ssize_t)at;
}

static ssize_t get(void *cookie, char *data, size_t bytes)
{
	return fault_read(fd_of(cookie), data, bytes);
}

static int seek(void *cookie, off64_t *at, int whence)
{
	off64_t to = lseek64(fd_of(cookie), *at, whence);
	if (to >= 0)
		*at = to;
	return to < 0 ? -1 : 0;
}

static int end(void *cookie)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < STREAMS; i++)
		if (stream[i].file && stream[i].fd == fd_of(cookie))
			stream[i].file = NULL;
	pthread_mutex_unlock(&lock);
	return fault_close(fd_of(cookie));
}

static int flags_of(const char *mode)
{
	int both = strchr(mode, '+') != NULL, flags = both         ? O_RDWR :
						      *mode == 'r' ? O_RDONLY :
								     O_WRONLY;
	flags |= *mode == 'w' ? O_CREAT | O_TRUNC : *mode == 'a' ? O_CREAT | O_APPEND : 0;
	return flags | (strchr(mode, 'e') ? O_CLOEXEC : 0) | (strchr(mode, 'x') ? O_EXCL : 0);
}

static void remember(FILE *f, int fd)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < STREAMS; i++)
		if (!stream[i].file) {
			stream[i].file = f;
			stream[i].fd = fd;
			break;
		}
	pthread_mutex_unlock(&lock);
}

VISIBLE FILE *fopen(const char *path, const char *mode)
{
	cookie_io_functions_t fns = { get, put, seek, end };
	char plain[4] = { *mode, strchr(mode, '+') ? '+' : 0, 0 };
	int fd = fault_open(AT_FDCWD, path, flags_of(mode), 0666);
	FILE *f = fd < 0 ? NULL : fopencookie(cookie_of(fd), plain, fns);
	if (!f && fd >= 0)
		close(fd);
	if (f)
		remember(f, fd);
	return f;
}

VISIBLE FILE *fopen64(const char *, const char *) __attribute__((alias("fopen")));

VISIBLE int fileno(FILE *f)
{
	int fd = -1;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < STREAMS; i++)
		if (stream[i].file == f)
			fd = stream[i].fd;
	pthread_mutex_unlock(&lock);
	return fd >= 0 ? fd : fileno_unlocked(f);
}
