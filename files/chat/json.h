/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - one line of JSON, read where it lies: texts lose their escapes in place, and nothing but
 * a list of values is allocated, which is used again for the next line. [any]
 */
#ifndef ZR_CHAT_JSON_H
#define ZR_CHAT_JSON_H

#include <stddef.h>
#include <stdint.h>

enum { ZR_JSON_NULL, ZR_JSON_BOOL, ZR_JSON_NUMBER, ZR_JSON_TEXT, ZR_JSON_LIST, ZR_JSON_OBJECT };

struct zr_json_value {
	int type;
	int truth;       /* of a bool; of a number: it is not 0 */
	const char *p;   /* text, UTF-8, n bytes of it; may contain 0 */
	size_t n;
	const char *key; /* of an object's member, key_n bytes; else NULL */
	size_t key_n;
	uint32_t child, next; /* 0: none */
};

struct zr_json_line {
	struct zr_json_value *v; /* v[0] is the value of the line */
	uint32_t n, room;
	char why[160];   /* what is wrong with it */
};

/* Reads n bytes and overwrites them; returns 0, ZR_EINVAL with `why`, or ZR_ENOMEM. */
int zr_json_line(struct zr_json_line *l, char *p, size_t n);
void zr_json_line_free(struct zr_json_line *l);

/* Members and elements: NULL at the end. */
const struct zr_json_value *zr_json_child(const struct zr_json_line *l,
					  const struct zr_json_value *v);
const struct zr_json_value *zr_json_next(const struct zr_json_line *l,
					 const struct zr_json_value *v);
const char *zr_json_type(const struct zr_json_value *v); /* "a text", ... */

#endif
