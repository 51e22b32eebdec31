/* SPDX-License-Identifier: Apache-2.0
 *
 * persistent.c - which units [zero] persistent names.
 */
#include "policy.h"

#include <fnmatch.h>
#include <string.h>

#define PATTERN 256

/* The next pattern of *list, cut to what a name can have; 0: there is none. */
static int next_pattern(const char **list, char pattern[PATTERN])
{
	const char *p = *list + strspn(*list, " \t");
	size_t n = strcspn(p, " \t");
	snprintf(pattern, PATTERN, "%.*s", (int)n, p);
	*list = p + n;
	return n > 0;
}

int persistent_names(const char *patterns, const char *name)
{
	char pattern[PATTERN];
	while (patterns && next_pattern(&patterns, pattern))
		if (!fnmatch(pattern, name, 0))
			return 1;

	return 0;
}

int persistent_check(const struct zr_host *h, const char *patterns, const struct zr_stage *s)
{
	char pattern[PATTERN];
	while (patterns && next_pattern(&patterns, pattern)) {
		int32_t u = 0, last = s->n_units - 1;
		if (strlen(pattern) == PATTERN - 1)
			return zr_fail(h, ZR_EINVAL, "persistent: a pattern of more than %d bytes",
				       PATTERN - 2);

		while (u <= last && fnmatch(pattern, s->name(s, u), 0))
			u++;
		if (u > last)
			return zr_fail(h, ZR_EINVAL,
				       "persistent: '%s' fits no unit; they are called like %s, %s "
				       "and %s",
				       pattern, s->name(s, 0), s->name(s, last < 1 ? last : 1),
				       s->name(s, last));
	}

	return ZR_OK;
}
