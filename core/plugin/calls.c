/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - the functions of every interface by name, in the order of its struct: '?' is before those that may be NULL,
 * '+' before those that may be only where the one before them is. tests/system/contract.sh compares it with the headers.
 */
#include <string.h>

#include "core/plugin/loader.h"
#include "core/setup.h" /* the headers of all roles */

#define FROM(role, first) "zr." #role "/1", offsetof(struct zr_##role##_v1, first)
const struct zr_calls zr_calls[] = {
	{ FROM(boot, info), { "info", "?put", "+get", "?fence", "?abort" } },
	{ FROM(comm, post), { "post", "test", "wait", "?mem_alloc", "+mem_free", "?mem_peer", "abort", "bytes_sent", "?mem_view", "?sums" } },
	{ FROM(device, info), { "info", "ops", "mem_alloc", "mem_free", "copy", "sync", "?copy_start", "+copy_wait", "?native_stream",
				"?mem_pin", "+mem_unpin", "?copy_now" } },
	{ FROM(model, declare), { "declare", "bytes", "forward", "backward", "?logits" } },
	{ FROM(adapter, path), { "?path", "?config", "?options", "?merge_with", "+merge" } },
	{ FROM(data, info), { "info", "prepare", "batch", "?decode", "?encode", "?file", "?targets", "?count" } },
	{ FROM(zero, groups), { "groups", "at" } },
	{ FROM(offload, info), { "info", "make", "discard", "read", "write", "?map", "test", "wait", "drain", "?buffers" } },
	{ FROM(optimizer, states), { "states", "step", "?partial", "?step_whole", "?upgrade", "?whole_work" } },
	{ FROM(scheduler, value), { "value" } },
	{ FROM(precision, info), { "info", "start", "next" } },
	{ FROM(activation, choose), { "choose" } },
	{ FROM(monitor, metrics), { "metrics", "?flush", "?resume" } }, { 0 },
};

zr_call *zr_call_at(const struct zr_calls *c, const void *table, int i)
{
	uint32_t at = c->first + (uint32_t)i * sizeof(zr_call *);
	return at + sizeof(zr_call *) <= *(const uint32_t *)table ? *(zr_call *const *)((const char *)table + at) : NULL;
}

const char *zr_calls_lack(const char *id, const void *table)
{
	const struct zr_calls *c = zr_calls;
	while (c->id && strcmp(c->id, id))
		c++;
	for (int i = 0; c->name[i]; i++)
		if (!zr_call_at(c, table, i) && *c->name[i] != '?' && (*c->name[i] != '+' || zr_call_at(c, table, i - 1)))
			return c->name[i] + (*c->name[i] == '+');
	return NULL;
}
