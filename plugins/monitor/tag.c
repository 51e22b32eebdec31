/* SPDX-License-Identifier: Apache-2.0
 *
 * tag.c - see tag.h.
 */
#include "tag.h"

#include <stdio.h>
#include <string.h>

static const char *const named[][2] = {
	{ "tokens_per_s", "speed/tokens_per_s" },
	{ "mfu", "speed/mfu" },
	{ "mfu_product", "speed/mfu_product" },
	{ "possible", "speed/possible" },
	{ "elapsed", "time/elapsed" },
	{ "memory", "memory/process" },
	{ "tokens", "progress/tokens" },
	{ "epoch", "progress/epoch" },
};

/* What the end of a name says; it goes. */
static const char *const ends[][2] = {
	{ "_seconds", "time" },
	{ "_s", "time" },
	{ "_bytes", "memory" },
};

void tag_of(const char *metric, char tag[TAG_ROOM])
{
	const size_t n = strlen(metric);

	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (!strcmp(metric, named[i][0])) {
			snprintf(tag, TAG_ROOM, "%s", named[i][1]);
			return;
		}
	if (!strncmp(metric, "val_", 4)) {
		snprintf(tag, TAG_ROOM, "val/%s", metric + 4);
		return;
	}

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		const size_t e = strlen(ends[i][0]);
		if (n > e && !strcmp(metric + n - e, ends[i][0])) {
			snprintf(tag, TAG_ROOM, "%s/%.*s", ends[i][1], (int)(n - e), metric);
			return;
		}
	}

	/* [eval.NAME] */
	if ((n > 5 && !strcmp(metric + n - 5, "_loss")) ||
	    (n > 9 && !strcmp(metric + n - 9, "_accuracy")))
		snprintf(tag, TAG_ROOM, "eval/%s", metric);
	else
		snprintf(tag, TAG_ROOM, "train/%s", metric);
}
