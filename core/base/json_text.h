/* SPDX-License-Identifier: Apache-2.0
 *
 * json_text.h - JSON for people: 1e-5 and 0.0003, not 1.0000000000000001e-5 and
 * 0.00029999999999999997. [main]
 */
#ifndef ZR_CORE_BASE_JSON_TEXT_H
#define ZR_CORE_BASE_JSON_TEXT_H

#include <jansson.h>

#include "core/base/error.h"

/* With as few digits as all its numbers need to read back as they are. Returned owned; NULL: out of
 * memory, or j is NULL. */
char *zr_json_text(const json_t *j, size_t flags);

/* Takes j and prints all of its text to stdout, or says that `what` has none. */
int zr_json_print(json_t *j, size_t flags, const char *what, struct zr_error *err);

#endif
