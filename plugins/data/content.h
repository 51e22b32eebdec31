/* SPDX-License-Identifier: Apache-2.0
 *
 * content.h - told by its first bytes, a file that somebody gives as text and that is none.
 */
#ifndef ZR_DATA_CONTENT_H
#define ZR_DATA_CONTENT_H

#include <zeroth/plugin.h>

/* Refuses a file that begins with these n bytes, decompressed, and is no text: tokens, a binary
 * file, JSON. The message says what to use. A file that is text but for something far behind
 * passes. */
int content_check(const struct zr_host *h, const char *name, const uint8_t *p, int64_t n);

#endif
