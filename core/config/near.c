/* SPDX-License-Identifier: Apache-2.0
 *
 * near.c - "did you mean": distance of Damerau and Levenshtein (insert, delete, replace, swap
 * neighbours).
 */
#include <string.h>

#include "core/config/options.h"

#define LONGEST 64

static int distance(const char *a, int n, const char *b, int m)
{
	int row[3][LONGEST + 1];
	for (int j = 0; j <= m; j++)
		row[0][j] = j;
	for (int i = 1; i <= n; i++) {
		int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
		now[0] = i;
		for (int j = 1; j <= m; j++) {
			now[j] = up[j - 1] + !!strncasecmp(&a[i - 1], &b[j - 1], 1);
			if (up[j] + 1 < now[j])
				now[j] = up[j] + 1;
			if (now[j - 1] + 1 < now[j])
				now[j] = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1 < now[j])
				now[j] = up2[j - 2] + 1;
		}
	}
	return row[n % 3][m];
}

/* A third of the letters may be wrong, in any case. A word that is a part of one candidate only is
 * near it too; one that is as near to three is near none. */
const char *zr_nearest(const char *word, const char *const *candidates, int n)
{
	size_t len = strlen(word);
	const char *near = NULL, *part = NULL, *other = NULL; /* other: as near, and not the same */
	int best = len < 6 ? 2 : (int)len / 3 + 1, parts = 0, ties = 0;
	if (len > LONGEST)
		return NULL;

	for (int i = 0; i < n; i++) {
		size_t m = strlen(candidates[i]);
		int d = best;
		if (m <= LONGEST)
			d = distance(word, (int)len, candidates[i], (int)m);
		if (d < best) {
			near = other = candidates[i];
			best = d;
			ties = 0;
		} else if (near && d == best && strcmp(other, candidates[i])) {
			other = candidates[i];
			ties++;
		}
		if (len >= 4 && strstr(candidates[i], word))
			part = parts++ ? NULL : candidates[i];
	}
	return near && ties < 2 ? near : part;
}
