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

char *zr_former_text(const char *ini)
{
	char *text = malloc(strlen(ini) + 1), *to = text;
	int inside = 0, some = 0;

	while (text && *ini) {
		size_t n = strcspn(ini, "\n");
		n += ini[n] == '\n';
		if (*ini == '[')
			inside = !strncmp(ini, SECTION, strlen(SECTION));
		if (inside && !strncmp(ini, FORMER " =", strlen(FORMER " ="))) {
			to = stpcpy(to, NOW);
			ini += strlen(FORMER);
			n -= strlen(FORMER);
			some = 1;
		}

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
