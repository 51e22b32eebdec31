/* SPDX-License-Identifier: Apache-2.0
 *
 * unread.h - fields of records that nobody reads, counted by their names.
 */
#ifndef ZR_CHAT_UNREAD_H
#define ZR_CHAT_UNREAD_H

#include <stddef.h>
#include <stdint.h>

#define ZR_UNREAD      16 /* names at most */
#define ZR_UNREAD_NAME 48

struct zr_unread {
	struct {
		char name[ZR_UNREAD_NAME]; /* of a message's field: "messages." and its name */
		int64_t records;           /* that have it */
	} field[ZR_UNREAD];
	int n;
	int64_t more; /* times that a field found no place here */
};

/* Counts a field of one record; a second time of the same record it changes nothing. */
void zr_unread_see(struct zr_unread *of_record, const char *before, const char *name);
/* Adds what others counted. */
void zr_unread_add(struct zr_unread *to, const struct zr_unread *from);
/* "id (20 records), source (3 records)" in out; "": nothing. Returns out. */
const char *zr_unread_text(const struct zr_unread *u, char *out, size_t room);

#endif
