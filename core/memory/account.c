/* SPDX-License-Identifier: Apache-2.0
 *
 * account.c - the ledger. A name's first bytes make its line; there are few of them.
 */
#include "core/memory/account.h"

#include <string.h>

void zr_account_add(struct zr_account *a, int tier, const char *what, int64_t bytes)
{
	int i = 0;
	while (i < a->n && (a->line[i].tier != tier || strcmp(a->line[i].what, what)))
		i++;
	if (i == ZR_ACCOUNT_MAX)
		i--; /* the last line then holds the rest: sums stay right */
	else if (i == a->n)
		a->line[a->n++] = (struct zr_account_line){ .what = what, .tier = tier };
	struct zr_account_line *l = &a->line[i];
	l->held += (uint64_t)bytes;
	if (l->held > l->peak)
		l->peak = l->held;
}
