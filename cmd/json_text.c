/* SPDX-License-Identifier: Apache-2.0
 *
 * json_text.c - see json_text.h.
 */
#include "cmd/json_text.h"

#include <stdlib.h>

/* 15 digits are enough for what someone wrote with 15 or less, 17 for every number. */
char *zr_json_text(const json_t *j, size_t flags)
{
	char *text = NULL;
	int same = 0;
	for (size_t digits = 15; j && !same && digits <= 17; digits++) {
		free(text);
		text = json_dumps(j, flags | JSON_REAL_PRECISION(digits));
		json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
		same = !text || json_equal(j, back);
		json_decref(back);
	}
	return text;
}
