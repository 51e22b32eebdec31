/* SPDX-License-Identifier: Apache-2.0
 *
 * input.h - a file of text read in pieces, decompressed if it is gzip or zstd (told by its
 * content), or standard input. A compressed file that expands much further than text does is
 * refused on the way.
 * [main]
 */
#ifndef ZR_CHAT_INPUT_H
#define ZR_CHAT_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

struct zr_input;

/* "-": standard input */
int zr_input_open(const char *path, struct zr_input **out, struct zr_error *err);
/* Up to n bytes to p; *got = 0 at the end. */
int zr_input_read(struct zr_input *in, void *p, size_t n, size_t *got, struct zr_error *err);
/* bytes of the file that were read, as they are in the file */
uint64_t zr_input_at(const struct zr_input *in);
void zr_input_close(struct zr_input *in); /* NULL is fine */

#endif
