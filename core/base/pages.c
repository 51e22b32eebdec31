/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.c - see pages.h.
 */
#include <stdint.h>
#include <sys/mman.h>

#include "core/base/pages.h"

#define LARGE_PAGE ((size_t)1 << 21)

static size_t whole_pages(size_t bytes)
{
	return (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

void *zr_pages_open(size_t bytes)
{
	size_t n = whole_pages(bytes);
	char *p = mmap(NULL, n + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p == MAP_FAILED)
		return NULL;

	size_t before = -(uintptr_t)p % LARGE_PAGE;
	if (before)
		munmap(p, before);
	munmap(p + before + n, LARGE_PAGE - before);
	madvise(p + before, n, MADV_HUGEPAGE);
	return p + before;
}

void zr_pages_close(void *p, size_t bytes)
{
	if (p)
		munmap(p, whole_pages(bytes));
}
