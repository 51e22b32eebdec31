/* SPDX-License-Identifier: Apache-2.0
 *
 * former.c - see former.h.
 */
#include "train/weights/former.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION "[optimizer" /* and its groups */
#define FORMER  "moments"
#define NOW     "states"

/* How lines of these sections begin that are written otherwise now, up to a blank or their end.
 * Those of 8 bits have `states = 8bit` among the keys that a run writes. */
static const struct {
	const char *former, *now;
} lines[] = {
	{ FORMER, NOW },
	{ "plugin = adamw8", "plugin = adamw" },
	{ "plugin = lion8", "plugin = lion" },
};

void zr_former_settings(json_t *saved, const json_t *here)
{
	const size_t n = strlen("." FORMER);
	const char *key;
	json_t *value;
	void *next;

	json_object_foreach_safe(saved, next, key, value)
	{
		const size_t len = strlen(key);
		char now[300];
		if (len < n || strcmp(key + len - n, "." FORMER))
			continue;

		snprintf(now, sizeof now, "%.*s." NOW, (int)(len - n), key);
		if (json_object_get(here, now) && !json_object_set(saved, now, value))
			json_object_del(saved, key);
	}
}

/* Appends what a line begins with now; how many bytes of the line that was. */
static size_t renamed(const char *line, char **to)
{
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		const size_t n = strlen(lines[i].former);
		if (strncmp(line, lines[i].former, n) || !strchr(" \n", line[n]))
			continue;

		*to = stpcpy(*to, lines[i].now);
		return n;
	}
	return 0;
}

/* No name of today is longer than the former one. */
char *zr_former_text(const char *ini)
{
	char *text = malloc(strlen(ini) + 1), *to = text;
	int inside = 0;
	size_t some = 0;

	while (text && *ini) {
		if (*ini == '[')
			inside = !strncmp(ini, SECTION, strlen(SECTION));

		if (inside) {
			const size_t begins = renamed(ini, &to);
			some += begins;
			ini += begins;
		}

		size_t n = strcspn(ini, "\n");
		n += ini[n] == '\n';
		memcpy(to, ini, n);
		to += n;
		ini += n;
	}

	if (text)
		*to = 0;
	if (!some) {
		free(text);
		return NULL;
	}

	return text;
}
