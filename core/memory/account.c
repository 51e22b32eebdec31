/* SPDX-License-Identifier: Apache-2.0
 *
 * account.c - the ledger. Lines are made by the first take of their name; there are few of them.
 */
#include "core/memory/account.h"

#include <string.h>

static struct zr_account_line *line_of(struct zr_account *a, int tier, const char *what)
{
	for (int i = 0; i < a->n; i++)
		if (a->line[i].tier == tier && !strcmp(a->line[i].what, what))
			return &a->line[i];
	if (a->n == ZR_ACCOUNT_MAX)
		return &a->line[ZR_ACCOUNT_MAX - 1]; /* the last line then holds the rest: sums stay right */
	struct zr_account_line *l = &a->line[a->n++];
	*l = (struct zr_account_line){ .what = what, .tier = tier };
	return l;
}

void zr_account_take(struct zr_account *a, int tier, const char *what, uint64_t bytes)
{
	struct zr_account_line *l = line_of(a, tier, what);
	l->held += bytes;
	if (l->held > l->peak)
		l->peak = l->held;
}

void zr_account_give(struct zr_account *a, int tier, const char *what, uint64_t bytes)
{
	line_of(a, tier, what)->held -= bytes;
}
