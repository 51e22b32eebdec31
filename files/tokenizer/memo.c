/* SPDX-License-Identifier: Apache-2.0
 *
 * memo.c - see memo.h.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "files/tokenizer/memo.h"

#define LARGE_PAGE ((size_t)1 << 21)

#define BYTES (ZR_MEMO_TEXTS * sizeof(struct zr_memo))

struct zr_memo *zr_memo_open(void)
{
	char *p = mmap(NULL, BYTES + LARGE_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	size_t before = -(uintptr_t)p % LARGE_PAGE;
	if (before)
		munmap(p, before);
	munmap(p + before + BYTES, LARGE_PAGE - before);
	madvise(p + before, BYTES, MADV_HUGEPAGE); /* texts are all over it */
	return (struct zr_memo *)(p + before);
}

void zr_memo_close(struct zr_memo *m)
{
	if (m)
		munmap(m, BYTES);
}

void zr_memo_put(struct zr_memo *at, int kind, const char *p, size_t n, const int32_t *ids,
		 size_t count)
{
	if (count > ZR_MEMO_IDS)
		return;
	at[1] = at[0];
	at->n = (uint8_t)(n | (unsigned)kind);
	at->ids = (uint8_t)count;
	memcpy(at->bytes, p, n);
	memcpy(at->id, ids, count * sizeof *ids);
}
