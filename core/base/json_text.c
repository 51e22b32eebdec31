/* SPDX-License-Identifier: Apache-2.0
 *
 * json_text.c - see json_text.h.
 */
#include "core/base/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"

/* 15 digits are enough for what someone wrote with 15 or less, 17 for every number. */
char *zr_json_text(const json_t *j, size_t flags)
{
	char *text = NULL;
	json_error_t why;
	int same = 0;
	for (size_t digits = 15; j && !same && digits <= 17; digits++) {
		free(text);
		text = zr_json_dump(j, flags | JSON_REAL_PRECISION(digits));
		json_t *back = text ? zr_json_load(text, strlen(text), 0, &why) : NULL;
		if (!back) /* out of memory */
			break;
		same = json_equal(j, back);
		json_decref(back);
	}

	if (!same) {
		free(text);
		text = NULL;
	}
	return text;
}

int zr_json_print(json_t *j, size_t flags, const char *what, struct zr_error *err)
{
	char *text = zr_json_dump(j, flags);
	json_decref(j);
	if (!text)
		return zr_err(err, ZR_ENOMEM, "%s as JSON: out of memory, or a name is not UTF-8",
			      what);
	puts(text);
	free(text);
	return 0;
}
