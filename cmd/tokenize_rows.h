/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize_rows.h - a file of rows, as lines of JSON or one JSON list: the text of each is a
 * document. [main]
 */
#ifndef ZR_CMD_TOKENIZE_ROWS_H
#define ZR_CMD_TOKENIZE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "files/chat/input.h"

struct zr_text_rows {
	const char *field; /* of a row: its text */
	/* Takes the text of a row, which may be empty and is valid during the call. Returns 0, or a
	 * negative code that ends the reading. */
	int (*take)(void *arg, const struct zr_text_rows *r, const char *text, size_t n);
	void *arg;
	const struct zr_input *in; /* that is read */
	const char *name;          /* of the file, for messages */
	int64_t line;              /* that is read, from 1 */
};

/* All rows of a file (plain, gzip or zstd; -: standard input). Empty lines are passed over. *read:
 * bytes of the file. */
int zr_text_rows_read(struct zr_text_rows *r, const char *path, uint64_t *read,
		      struct zr_error *err);

#endif
