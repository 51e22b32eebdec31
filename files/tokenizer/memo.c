/* SPDX-License-Identifier: Apache-2.0
 *
 * memo.c - see memo.h.
 */
#include "files/tokenizer/memo.h"
#include "core/base/pages.h"

#define BYTES (ZR_MEMO_TEXTS * sizeof(struct zr_memo))

struct zr_memo *zr_memo_open(void)
{
	return zr_pages_open(BYTES);
}

void zr_memo_close(struct zr_memo *m)
{
	zr_pages_close(m, BYTES);
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
