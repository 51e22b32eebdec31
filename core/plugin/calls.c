/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - the functions of every interface by name, in the order of its struct: '?' is before
 * those that may be NULL, '+' before those that may be only where the one before them is.
 * tests/system/contract.sh compares it with the headers. The last one without '?' or '+' of a
 * stable interface never changes: it is the least that a plugin of any release has.
 */
#include <string.h>

#include "core/plugin/loader.h"
#include "core/setup.h" /* the headers of all roles */

#define FROM(draft, role, first) "zr." #role "/1", offsetof(struct zr_##role##_v1, first), draft
const struct zr_calls zr_calls[] = {
	{ FROM(1, boot, info), { "info", "?put", "+get", "?fence", "?abort" } },
	{ FROM(1, comm, post),
	  { "post", "test", "wait", "?mem_alloc", "+mem_free", "?mem_peer", "abort", "bytes_sent",
	    "?mem_view", "?sums", "?held" } },
	{ FROM(1, device, info),
	  { "info", "ops", "mem_alloc", "mem_free", "copy", "sync", "?copy_start", "+copy_wait",
	    "?native_stream", "?mem_pin", "+mem_unpin", "?copy_now" } },
	{ FROM(1, model, declare), { "declare", "bytes", "forward", "backward", "?logits" } },
	{ FROM(0, adapter, path), { "?path", "?config", "?options", "?merge_with", "+merge" } },
	{ FROM(0, data, info),
	  { "info", "prepare", "batch", "?decode", "?encode", "?file", "?targets", "?count" } },
	{ FROM(0, zero, groups), { "groups", "at" } },
	{ FROM(1, offload, info),
	  { "info", "make", "discard", "read", "write", "?map", "test", "wait", "drain" } },
	{ FROM(0, optimizer, states),
	  { "states", "step", "?partial", "?step_whole", "?upgrade", "?whole_work" } },
	{ FROM(0, scheduler, value), { "value" } },
	{ FROM(0, precision, info), { "info", "start", "next" } },
	{ FROM(1, activation, choose), { "choose" } },
	{ FROM(0, monitor, metrics), { "metrics", "?flush", "?resume" } },
	{ 0 },
};

zr_plugin_fn *zr_call_at(const struct zr_calls *c, const void *table, int i)
{
	uint32_t at = c->first + (uint32_t)i * sizeof(zr_plugin_fn *);
	return at + sizeof(zr_plugin_fn *) <= *(const uint32_t *)table ?
		       *(zr_plugin_fn *const *)((const char *)table + at) :
		       NULL;
}

const struct zr_calls *zr_calls_of(const char *id)
{
	const struct zr_calls *c = zr_calls;
	while (c->id && strcmp(c->id, id))
		c++;
	return c;
}

uint32_t zr_calls_least(const struct zr_calls *c)
{
	uint32_t least = sizeof(uint32_t);
	for (uint32_t i = 0; c->name[i]; i++)
		least = strchr("?+", *c->name[i]) ?
				least :
				c->first + (i + 1) * (uint32_t)sizeof(zr_plugin_fn *);
	return least;
}

const char *zr_calls_lack(const struct zr_calls *c, const void *table)
{
	for (int i = 0; c->name[i]; i++)
		if (!zr_call_at(c, table, i) && *c->name[i] != '?' &&
		    (*c->name[i] != '+' || zr_call_at(c, table, i - 1)))
			return c->name[i] + (*c->name[i] == '+');
	return NULL;
}
