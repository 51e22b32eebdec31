/* SPDX-License-Identifier: Apache-2.0
 *
 * role.c - what ranks of boot do once it is known which one each is: they meet, find out who shares
 * a node, and publish values through rank 0 or in a directory.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- nodes ----------------------------------------------------------------------- */

static int same_node(const struct ze_hello *a, const struct ze_hello *b)
{
	if (a->local_world)
		return b->local_world && a->rank - a->local_rank == b->rank - b->local_rank;

	return !b->local_world && !strcmp(a->host, b->host);
}

/* Ranks of a node follow each other. */
static int take_nodes(struct zr_inst *b)
{
	struct zr_boot_info *i = &b->info;

	for (int32_t r = 0; r < i->world; r++) {
		int starts = r == 0 || !same_node(&b->all[r - 1], &b->all[r]);
		i->nodes += starts;
		i->node += starts && r > 0 && r <= i->rank;
		if (!same_node(&b->all[r], &b->mine))
			continue;
		if (i->local_world && starts)
			return zr_fail(
				b->h, ZR_EINVAL,
				"ranks of %s do not follow each other: rank %d is there, rank %d "
				"is not",
				b->mine.host, r, r - 1);

		i->local_rank += r < i->rank;
		i->local_world++;
	}

	return 0;
}

int ze_take_ranks(struct zr_inst *b)
{
	struct zr_boot_info *i = &b->info;

	i->rank = b->mine.rank;
	i->world = b->mine.world;
	if (gethostname(b->mine.host, sizeof b->mine.host))
		b->mine.host[0] = 0;
	/* a longer name is cut, perhaps without its end */
	b->mine.host[sizeof b->mine.host - 1] = 0;
	memcpy(i->host, b->mine.host, sizeof i->host);
	if (i->world == 1) {
		i->local_world = i->nodes = 1;
		return 0;
	}

	const int has_directory = b->o->directory && *b->o->directory;
	int rc = has_directory ? ze_join(b) : zt_join(b);
	if (rc)
		return rc;

	return take_nodes(b);
}

/* ---- the role -------------------------------------------------------------------- */

static int role_info(struct zr_inst *b, struct zr_boot_info *info)
{
	uint32_t size = info->size;
	*info = b->info;
	info->size = size;
	return 0;
}

/* Keys are file names; what could disturb there is written in hexadecimal digits. */
static const char *file_of(const char *key, char *out)
{
	size_t n = (size_t)sprintf(out, "key-");

	for (; *key; key++) {
		int plain = (*key >= '0' && *key <= '9') || (*key >= 'a' && *key <= 'z') ||
			    (*key >= 'A' && *key <= 'Z') || *key == '.';
		if (plain)
			n += (size_t)sprintf(out + n, "%c", *key);
		else
			n += (size_t)sprintf(out + n, "_%02x", (unsigned char)*key);
	}

	return out;
}

static int role_put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes)
{
	char file[3 * MAX_KEY + 8];

	if (!b->all)
		return zr_fail(b->h, ZR_ENOTSUP, "one rank alone has nobody to publish to");
	if (strlen(key) >= MAX_KEY || bytes > MAX_VALUE)
		return zr_fail(b->h, ZR_EINVAL, "key %s: %llu bytes are too many", key,
			       (unsigned long long)bytes);

	if (b->tcp)
		return zt_put(b, key, value, bytes);

	int rc = ze_write(b, b->run, b->id, file_of(key, file), value, bytes);
	if (rc == 0)
		return zr_fail(b->h, ZR_ESTATE, "key %s has a value already", key);

	return rc < 0 ? rc : 0;
}

static int has_key(struct zr_inst *b, struct ze_wish *w)
{
	char file[3 * MAX_KEY + 8];
	return ze_read_run(b, file_of(w->key, file), w->data, MAX_VALUE, &w->bytes);
}

static int role_get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout)
{
	char data[MAX_VALUE];
	struct ze_wish w = { .done = has_key, .key = key, .data = data };

	if (!b->all)
		return zr_fail(b->h, ZR_ENOTSUP, "one rank alone has nobody to ask");
	if (strlen(key) >= MAX_KEY)
		return zr_fail(b->h, ZR_EINVAL, "key %s is too long", key);
	if (b->tcp)
		return zt_get(b, key, value, bytes, timeout);

	int rc = ze_wait(b, &w, timeout);
	if (rc)
		return rc;
	if (w.bytes != bytes)
		return zr_fail(b->h, ZR_EINVAL, "key %s holds %llu bytes, not %llu", key,
			       (unsigned long long)w.bytes, (unsigned long long)bytes);

	memcpy(value, data, bytes);
	return 0;
}

/* Looks for a file of every rank that was not there the last time. */
static int all_marked(struct zr_inst *b, struct ze_wish *w)
{
	char name[NAME_ROOM];
	int all = 1;

	for (int32_t r = 0; r < b->mine.world; r++) {
		if (b->here[r])
			continue;

		int rc = ze_is_there(b, ze_name(name, w->data, r));
		if (rc < 0)
			return rc;

		b->here[r] = (unsigned char)rc;
		all &= rc;
	}

	return all;
}

static int role_fence(struct zr_inst *b, double timeout)
{
	char what[32], name[NAME_ROOM];
	struct ze_wish w = { .done = all_marked, .what = "to come to a fence", .data = what };

	if (!b->all)
		return 0;
	if (b->tcp)
		return zt_fence(b, timeout);

	snprintf(what, sizeof what, "fence%u", b->fences++);
	int rc = ze_write_new(b, ze_name(name, what, b->mine.rank), "", 0);
	if (rc)
		return rc;

	return ze_wait(b, &w, timeout);
}

static void role_abort(struct zr_inst *b, const char *why)
{
	if (b->tcp)
		zt_stop(b, why);
	else
		ze_stop(b, why);
}

static int role_stopped(struct zr_inst *b, char *why, uint64_t room)
{
	if (b->tcp)
		return zt_stopped(b, why, room);
	return ze_stopped(b, why, room);
}

/* ---- life ------------------------------------------------------------------------ */

void ze_destroy(struct zr_inst *b)
{
	zt_leave(b);
	ze_leave(b);
	ze_close(b);
	free(b->all);
	free(b->here);
	free(b);
}

struct zr_inst *ze_new(const struct zr_host *h, const void *opts)
{
	struct zr_inst *b = calloc(1, sizeof *b);
	if (!b) {
		zr_fail(h, ZR_ENOMEM, "no memory");
		return NULL;
	}

	b->h = h;
	b->o = opts;
	b->meeting = b->run = -1;
	return b;
}

const struct zr_boot_v1 ze_vtbl = {
	.size = sizeof ze_vtbl,
	.info = role_info,
	.put = role_put,
	.get = role_get,
	.fence = role_fence,
	.abort = role_abort,
	.stopped = role_stopped,
};
