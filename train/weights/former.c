/* SPDX-License-Identifier: Apache-2.0
 *
 * former.c - see former.h.
 */
#include "train/weights/former.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMER "moments"
#define NOW    "states"

/* How lines of these sections, their groups and hosts begin that are written otherwise now, up to a
 * blank or their end; NULL: the line is gone. Those of 8 bits have `states = 8bit` among the keys
 * that a run writes. What a device did with its two keys were checks for tests. */
static const struct {
	const char *section, *former, *now;
} lines[] = {
	{ "[optimizer", FORMER, NOW },
	{ "[optimizer", "plugin = adamw8", "plugin = adamw" },
	{ "[optimizer", "plugin = lion8", "plugin = lion" },
	{ "[device", "separate", NULL },
	{ "[device", "late_copies", NULL },
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

static size_t length(const char *line)
{
	const size_t n = strcspn(line, "\n");
	return n + (line[n] == '\n');
}

static int begins(const char *line, const char *with)
{
	return !strncmp(line, with, strlen(with));
}

/* Appends what a line begins with now; how many bytes of the line that was. */
static size_t renamed(const char *section, const char *line, char **to)
{
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		const size_t n = strlen(lines[i].former);
		if (!begins(section, lines[i].section) || !begins(line, lines[i].former) ||
		    !strchr(" \n", line[n]))
			continue;
		if (!lines[i].now)
			return length(line);

		*to = stpcpy(*to, lines[i].now);
		return n;
	}
	return 0;
}

/* No name of today is longer than the former one. */
char *zr_former_text(const char *ini)
{
	char *text = malloc(strlen(ini) + 1), *to = text;
	const char *section = "";
	size_t some = 0;

	while (text && *ini) {
		if (*ini == '[')
			section = ini;

		const size_t whole = length(ini), done = renamed(section, ini, &to);
		const size_t rest = whole - done;
		memcpy(to, ini + done, rest);
		to += rest;
		ini += whole;
		some += done;
	}

	if (text)
		*to = 0;
	if (!some) {
		free(text);
		return NULL;
	}

	return text;
}
