/* SPDX-License-Identifier: Apache-2.0
 *
 * slowread.c - to be preloaded: what a file system may do to small reads, those of at most 64 bytes
 * by pread.
 *   ZR_SLOWREAD=eintr  every second one is interrupted by a signal
 *   ZR_SLOWREAD=short  each gives 3 bytes at most
 *   ZR_SLOWREAD=eio N  the Nth fails
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

__attribute__((visibility("default"))) ssize_t pread(int fd, void *mem, size_t bytes, off_t at)
{
	static ssize_t (*next)(int, void *, size_t, off_t);
	static long n;
	const char *how = getenv("ZR_SLOWREAD");
	if (!next)
		next = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
	if (!how || bytes > 64)
		return next(fd, mem, bytes, at);
	n++;
	if ((!strcmp(how, "eintr") && n % 2) || (!strncmp(how, "eio ", 4) && n == atol(how + 4))) {
		errno = how[1] == 'i' && how[2] == 'o' ? EIO : EINTR;
		return -1;
	}
	return next(fd, mem, !strcmp(how, "short") && bytes > 3 ? 3 : bytes, at);
}
