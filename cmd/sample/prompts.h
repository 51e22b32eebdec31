/* SPDX-License-Identifier: Apache-2.0
 *
 * prompts.h - a file of prompts. [main]
 */
#ifndef ZR_CMD_SAMPLE_PROMPTS_H
#define ZR_CMD_SAMPLE_PROMPTS_H

#include <stddef.h>

#include "core/base/error.h"

struct zr_prompt {
	char *text; /* owned */
	size_t bytes;
};

struct zr_prompts {
	struct zr_prompt *at;
	size_t n, cap;
};

/* A prompt a line, empty ones left out; or, where the first line with anything on it begins with {,
 * JSONL: objects with a text "prompt". "-": standard input. zr_prompts_free also after a
 * failure. */
int zr_prompts_read(const char *path, struct zr_prompts *p, struct zr_error *err);
void zr_prompts_free(struct zr_prompts *p);

#endif
