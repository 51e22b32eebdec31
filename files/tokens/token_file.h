/* SPDX-License-Identifier: Apache-2.0
 *
 * token_file.h - writing a file of tokens with llm.c's header: 256 int32, {magic, version, tokens,
 * 0 ...}, then uint16 (magic 20240520, version 1) or uint32 (20240801, 7). It is called PATH.tmp
 * until it is complete. Little-endian hosts only. [main]
 */
#ifndef ZR_FILES_TOKEN_FILE_H
#define ZR_FILES_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

#define ZR_TOKEN_FILE_MOST INT32_MAX /* tokens, as llm.c reads the header */

struct zr_token_file;

/* width: bytes of a token, 2 or 4. raw: without the header, and so without a limit. path is
 * borrowed. */
int zr_token_file_create(const char *path, int width, int raw, struct zr_token_file **out,
			 struct zr_error *err);
/* Adds ids, which fit the width. */
int zr_token_file_put(struct zr_token_file *f, const int32_t *ids, size_t n, struct zr_error *err);
int64_t zr_token_file_tokens(const struct zr_token_file *f);
/* keep: makes the file durable and gives it its name; else, and on failure, removes it. Frees f;
 * NULL is fine. */
int zr_token_file_close(struct zr_token_file *f, int keep, struct zr_error *err);

#endif
