/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - JSON that is built whole or not at all: what could not be made is NULL, and so is all
 * that has it. [any]
 */
#ifndef ZR_CORE_BASE_JSON_H
#define ZR_CORE_BASE_JSON_H

#include <jansson.h>

#include "core/base/error.h"

/* Take the value; where that fails, or it is NULL, *to goes and is NULL from then on. */
void zr_json_put(json_t **to, const char *key, json_t *value);
void zr_json_add(json_t **to, json_t *value);
/* `otherwise` for what is not UTF-8 and so has no JSON. NULL: out of memory. */
json_t *zr_json_string(const char *text, const char *otherwise);
/* The object that the text of a file is, or an error with file, line and column. */
int zr_json_object(const char *text, size_t n, const char *path, json_t **to, struct zr_error *err);
/* The object, without duplicate keys, in a file of at most `most` bytes. */
int zr_json_file(const char *path, size_t most, json_t **to, struct zr_error *err);
/* The same; *to is NULL where there is no such file. */
int zr_json_file_if_there(const char *path, size_t most, json_t **to, struct zr_error *err);
/* Of a text without duplicate keys; flags: 0 or JSON_ALLOW_NUL. NULL: *why says why not, and errno
 * is ENOMEM if that was it: jansson alone would lose a character. */
json_t *zr_json_load(const char *text, size_t bytes, size_t flags, json_error_t *why);
/* All of its text, owned, or NULL with errno ENOMEM: jansson alone may lose a key where memory
 * ends. */
char *zr_json_dump(const json_t *j, size_t flags);

#endif
