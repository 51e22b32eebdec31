/* SPDX-License-Identifier: Apache-2.0
 *
 * unread.c - see unread.h.
 */
#include "files/chat/unread.h"

#include <stdio.h>
#include <string.h>

static int find_field(const struct zr_unread *u, const char *name)
{
	for (int i = 0; i < u->n; i++)
		if (!strcmp(u->field[i].name, name))
			return i;

	return -1;
}

static void append(struct zr_unread *u, const char *name, int64_t records)
{
	if (u->n == ZR_UNREAD) {
		u->more += records;
		return;
	}

	snprintf(u->field[u->n].name, sizeof u->field->name, "%s", name);
	u->field[u->n++].records = records;
}

void zr_unread_see(struct zr_unread *of_record, const char *before, const char *name)
{
	char whole[ZR_UNREAD_NAME];

	snprintf(whole, sizeof whole, "%.15s%.30s", before, name);
	if (find_field(of_record, whole) < 0)
		append(of_record, whole, 1);
}

void zr_unread_add(struct zr_unread *to, const struct zr_unread *from)
{
	for (int i = 0; i < from->n; i++) {
		const int at = find_field(to, from->field[i].name);
		if (at < 0)
			append(to, from->field[i].name, from->field[i].records);
		else
			to->field[at].records += from->field[i].records;
	}

	to->more += from->more;
}

const char *zr_unread_text(const struct zr_unread *u, char *out, size_t room)
{
	size_t at = 0;

	*out = 0;
	for (int i = 0; i < u->n && at < room; i++)
		at += (size_t)snprintf(out + at, room - at, "%s%s (%lld record%s)", i ? ", " : "",
				       u->field[i].name, (long long)u->field[i].records,
				       u->field[i].records == 1 ? "" : "s");
	if (u->more && at < room)
		snprintf(out + at, room - at, ", and others");

	return out;
}
