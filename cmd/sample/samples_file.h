/* SPDX-License-Identifier: Apache-2.0
 *
 * samples_file.h - samples.txt of a run directory: texts that its model drew, which zeroth report
 * shows. [main]
 */
#ifndef ZR_CMD_SAMPLE_SAMPLES_FILE_H
#define ZR_CMD_SAMPLE_SAMPLES_FILE_H

#include "cmd/sample/draw.h"
#include "cmd/sample/token_text.h"

#define ZR_SAMPLES_FILE "samples.txt"

/* A text on its way there. */
struct zr_kept_text {
	struct zr_char_writer out; /* out.f is NULL where none is kept */
	char *text;
	size_t bytes;
};

int zr_kept_begin(struct zr_kept_text *k, struct zr_error *err);

/* Appends the text with a line above it that says how it was drawn, by one write, and frees it;
 * rc is returned, and where it is not 0 nothing is appended. */
int zr_kept_end(struct zr_kept_text *k, const char *run, const struct zr_draw *draw, int rc,
		struct zr_error *err);

#endif
