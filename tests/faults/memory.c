/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c - see faults.h: memory, threads and processes.
 */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int fails(void)
{
	return fault_point(FAULT_ALLOC, NULL) == FAULT_FAIL;
}

VISIBLE void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

VISIBLE void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

VISIBLE void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}

VISIBLE void *aligned_alloc(size_t align, size_t n)
{
	return fails() ? NULL : __libc_memalign(align, n);
}

VISIBLE int posix_memalign(void **out, size_t align, size_t n)
{
	int old = errno;
	void *p = aligned_alloc(align, n);
	errno = old;
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}

VISIBLE void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
	static void *(*next)(void *, size_t, int, int, int, off_t);
	if (!next)
		next = (void *(*)(void *, size_t, int, int, int, off_t))fault_next("mmap");
	return fault_point(FAULT_MMAP, NULL) == FAULT_FAIL ? MAP_FAILED :
							     next(at, n, prot, flags, fd, off);
}

VISIBLE int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			   void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	if (!next)
		next = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
				void *))fault_next("pthread_create");
	return fault_point(FAULT_THREAD, NULL) == FAULT_FAIL ? fault_error() :
							       next(thread, attr, fn, arg);
}

VISIBLE pid_t fork(void)
{
	static pid_t (*next)(void);
	if (!next)
		next = (pid_t(*)(void))fault_next("fork");
	return fault_point(FAULT_FORK, NULL) == FAULT_FAIL ? -1 : next();
}
