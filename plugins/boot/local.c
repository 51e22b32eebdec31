/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - boot of ranks on this machine: alone, or as one of the processes that a supervisor
 * started, which says so in ZEROTH_LOCAL_RANK, ZEROTH_LOCAL_WORLD and ZEROTH_LOCAL_FD, a memfd that
 * it has made. There the ranks keep keys and values.
 *
 * A rank finds all pages zero and needs nobody to prepare them. Whoever waits sleeps on the area's
 * bell, which rings with every change.
 */
#define _GNU_SOURCE
#include <zeroth/boot.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "plugins/descriptor.h"

#define MAX_RANKS 256
#define MAX_NODE  65536 /* as boot/mpi: a run that it started may be sampled here */
#define MAX_KEYS  256
#define REPORT    10.0 /* seconds between lines that say who is missing */

struct value {
	_Atomic uint32_t ready;
	uint32_t bytes;
	char key[64];
	char data[4096];
};

struct area {
	struct zr_local_head head;
	_Atomic uint32_t bell;
	_Atomic uint32_t used;              /* values claimed */
	_Atomic uint32_t aborted;           /* 1 somebody writes why, 2 why is there */
	_Atomic uint32_t joined[MAX_RANKS]; /* 1 once the rank's boot exists */
	_Atomic uint32_t fences[MAX_RANKS]; /* how many fences the rank has come to */
	char why[1024];
	struct value value[MAX_KEYS];
};

_Static_assert(sizeof(struct area) <= ZR_LOCAL_BYTES, "keys and values fit the memfd");

struct local_opts {
	int64_t ranks_per_node;
};

struct zr_inst {
	const struct zr_host *h;
	struct area *area; /* NULL: one rank alone */
	int32_t rank, world, per_node;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void ring(struct area *a)
{
	atomic_fetch_add(&a->bell, 1);
	syscall(SYS_futex, &a->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_until_rung(struct area *a, uint32_t seen)
{
	struct timespec t = { 0, 200000000 };
	syscall(SYS_futex, &a->bell, FUTEX_WAIT, seen, &t, NULL, 0);
}

/* ---- waiting --------------------------------------------------------------------- */

/* What somebody waits for; here() is 1 if rank r has done its part. */
struct wish {
	int (*done)(const struct zr_inst *inst, const struct wish *w);
	int (*here)(const struct zr_inst *inst, const struct wish *w, int32_t r);
	const char *key;
	struct value *found;
	uint32_t fence;
};

/* "0, 3, 4", or "" if all are here */
static void missing(const struct zr_inst *inst, const struct wish *w, char *out, size_t room)
{
	size_t n = 0;
	out[0] = 0;
	for (int32_t r = 0; r < inst->world && n < room; r++)
		if (!w->here(inst, w, r))
			n += (size_t)snprintf(out + n, room - n, "%s%d", n ? ", " : "", r);
}

static void say(const struct zr_inst *inst, const struct wish *w, double waited, char *text,
		size_t room)
{
	char ranks[200];

	missing(inst, w, ranks, sizeof ranks);
	if (*ranks)
		snprintf(text, room, "waited %.0f s for rank %s to join", waited, ranks);
	else
		snprintf(text, room, "waited %.0f s for the key %s", waited, w->key);
}

static int stopped(const struct zr_inst *inst)
{
	return zr_fail(inst->h, ZR_EPEER, "%s",
		       atomic_load(&inst->area->aborted) == 2 ? inst->area->why :
								"another rank stopped the run");
}

static int wait_for(const struct zr_inst *inst, struct wish *w, double timeout)
{
	double start = now(), said = start;
	char text[300];

	for (;;) {
		uint32_t seen = atomic_load(&inst->area->bell);
		if (atomic_load(&inst->area->aborted))
			return stopped(inst);
		if (w->done(inst, w))
			return 0;
		if (now() - start >= timeout) {
			say(inst, w, now() - start, text, sizeof text);
			return zr_fail(inst->h, ZR_EPEER, "timeout: %s", text);
		}

		if (now() - said >= REPORT) {
			said = now();
			say(inst, w, said - start, text, sizeof text);
			zr_log(inst->h, ZR_LOG_WARN, "%s", text);
		}

		sleep_until_rung(inst->area, seen);
	}
}

/* ---- the role -------------------------------------------------------------------- */

static int local_info(struct zr_inst *inst, struct zr_boot_info *info)
{
	info->rank = inst->rank;
	info->world = inst->world;
	info->local_rank = inst->rank % inst->per_node;
	info->local_world = inst->per_node;
	info->node = inst->rank / inst->per_node;
	info->nodes = inst->world / inst->per_node;
	info->machine_ranks = inst->world;
	if (gethostname(info->host, sizeof info->host))
		info->host[0] = 0;
	info->host[sizeof info->host - 1] = 0; /* a longer name is cut, perhaps without its end */
	return ZR_OK;
}

static struct value *find_value(struct area *a, const char *key)
{
	uint32_t n = atomic_load(&a->used);
	for (uint32_t i = 0; i < n && i < MAX_KEYS; i++)
		if (atomic_load(&a->value[i].ready) && !strcmp(a->value[i].key, key))
			return &a->value[i];

	return NULL;
}

static int local_put(struct zr_inst *inst, const char *key, const void *value, uint64_t bytes)
{
	struct area *a = inst->area;
	if (!a)
		return zr_fail(inst->h, ZR_ENOTSUP, "one rank alone has nobody to publish to");
	if (strlen(key) >= sizeof a->value[0].key || bytes > sizeof a->value[0].data)
		return zr_fail(inst->h, ZR_EINVAL, "key %s: %llu bytes are too many", key,
			       (unsigned long long)bytes);
	if (find_value(a, key))
		return zr_fail(inst->h, ZR_ESTATE, "key %s has a value already", key);

	uint32_t i = atomic_fetch_add(&a->used, 1);
	if (i >= MAX_KEYS)
		return zr_fail(inst->h, ZR_ENOMEM, "more than %d keys", MAX_KEYS);

	snprintf(a->value[i].key, sizeof a->value[i].key, "%s", key);
	memcpy(a->value[i].data, value, bytes);
	a->value[i].bytes = (uint32_t)bytes;
	atomic_store(&a->value[i].ready, 1);
	ring(a);
	return 0;
}

static int has_key(const struct zr_inst *inst, const struct wish *w)
{
	struct value *v = find_value(inst->area, w->key);
	((struct wish *)(uintptr_t)w)->found = v;
	return v != NULL;
}

static int has_joined(const struct zr_inst *inst, const struct wish *w, int32_t r)
{
	(void)w;
	return atomic_load(&inst->area->joined[r]) != 0;
}

static int local_get(struct zr_inst *inst, const char *key, void *value, uint64_t bytes,
		     double timeout)
{
	struct wish w = { .done = has_key, .here = has_joined, .key = key };

	if (!inst->area)
		return zr_fail(inst->h, ZR_ENOTSUP, "one rank alone has nobody to ask");

	int rc = wait_for(inst, &w, timeout);
	if (rc)
		return rc;
	if (w.found->bytes != bytes)
		return zr_fail(inst->h, ZR_EINVAL, "key %s holds %u bytes, not %llu", key,
			       w.found->bytes, (unsigned long long)bytes);

	memcpy(value, w.found->data, bytes);
	return 0;
}

static int at_fence(const struct zr_inst *inst, const struct wish *w, int32_t r)
{
	return (int32_t)(atomic_load(&inst->area->fences[r]) - w->fence) >= 0;
}

static int all_at_fence(const struct zr_inst *inst, const struct wish *w)
{
	for (int32_t r = 0; r < inst->world; r++)
		if (!at_fence(inst, w, r))
			return 0;
	return 1;
}

static int local_fence(struct zr_inst *inst, double timeout)
{
	struct wish w = { .done = all_at_fence, .here = at_fence, .key = "" };

	if (!inst->area)
		return 0;

	w.fence = atomic_fetch_add(&inst->area->fences[inst->rank], 1) + 1;
	ring(inst->area);
	return wait_for(inst, &w, timeout);
}

static void local_abort(struct zr_inst *inst, const char *why)
{
	uint32_t none = 0;
	struct area *a = inst->area;
	if (!a || !atomic_compare_exchange_strong(&a->aborted, &none, 1))
		return;

	snprintf(a->why, sizeof a->why, "rank %d stopped: %s", inst->rank, why);
	atomic_store(&a->aborted, 2);
	ring(a);
}

static int local_stopped(struct zr_inst *inst, char *why, uint64_t room)
{
	const struct area *a = inst->area;
	if (!a || atomic_load(&a->aborted) != 2)
		return 0;

	snprintf(why, room, "%s", a->why);
	return 1;
}

/* ---- life ------------------------------------------------------------------------ */

/* A number of the environment in [0, max], or -1. */
static int32_t number(const char *name, int32_t max)
{
	const char *text = getenv(name);
	char *end;
	long v = -1;

	if (text && *text)
		v = strtol(text, &end, 10);
	if (v < 0 || v > max || *end)
		return -1;

	return (int32_t)v;
}

/* Whether a descriptor is of the memfd that the supervisor made for so many ranks. Only that is
 * written to: no file on a disk has its seals. */
static int is_area(int fd, int32_t world)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct zr_local_head head;
	struct stat st;
	int has = fcntl(fd, F_GET_SEALS);

	return has >= 0 && (has & seals) == seals && !(has & F_SEAL_WRITE) && !fstat(fd, &st) &&
	       st.st_size == ZR_LOCAL_BYTES && pread(fd, &head, sizeof head, 0) == sizeof head &&
	       head.magic == ZR_LOCAL_MAGIC && head.world == world;
}

static int join(struct zr_inst *inst, const struct zr_host *h)
{
	int fd = number("ZEROTH_LOCAL_FD", INT_MAX);

	inst->rank = number("ZEROTH_LOCAL_RANK", MAX_RANKS);
	inst->world = number("ZEROTH_LOCAL_WORLD", MAX_RANKS);
	if (inst->world < 1 || inst->rank < 0 || inst->rank >= inst->world || fd < 0)
		return zr_fail(
			h, ZR_EINVAL,
			"ZEROTH_LOCAL_RANK, ZEROTH_LOCAL_WORLD (at most %d) and ZEROTH_LOCAL_FD "
			"belong together",
			MAX_RANKS);
	if (!is_area(fd, inst->world))
		return zr_fail(h, ZR_EINVAL,
			       "ZEROTH_LOCAL_FD=%d is not what zeroth train -n made for %d ranks: "
			       "it sets the ZEROTH_LOCAL_ variables, unset them",
			       fd, inst->world);

	void *m = mmap(NULL, sizeof *inst->area, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (m == MAP_FAILED)
		return zr_fail(h, ZR_EIO, "ZEROTH_LOCAL_FD=%d: %s", fd, strerror(errno));

	inst->area = m;
	atomic_store(&inst->area->joined[inst->rank], 1);
	ring(inst->area);
	return 0;
}

static int play_nodes(struct zr_inst *inst, const struct zr_host *h, int64_t per_node)
{
	if (per_node > inst->world)
		inst->per_node = inst->world;
	else
		inst->per_node = (int32_t)per_node;
	if (inst->world % inst->per_node)
		return zr_fail(h, ZR_EINVAL,
			       "ranks_per_node = %d: %d ranks do not fill nodes of that size",
			       inst->per_node, inst->world);

	return 0;
}

static void local_destroy(struct zr_inst *inst)
{
	if (inst->area)
		munmap(inst->area, sizeof *inst->area);
	free(inst);
}

static int local_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct local_opts *o = opts;
	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->world = 1;
	int supervised = getenv("ZEROTH_LOCAL_RANK") || getenv("ZEROTH_LOCAL_WORLD") ||
			 getenv("ZEROTH_LOCAL_FD");
	int rc = 0;
	if (supervised)
		rc = join(inst, h);
	if (!rc)
		rc = play_nodes(inst, h, o->ranks_per_node);
	if (rc) {
		local_destroy(inst);
		return rc;
	}

	*out = inst;
	return 0;
}

static const struct zr_boot_v1 vtbl = {
	.size = sizeof vtbl,
	.info = local_info,
	.put = local_put,
	.get = local_get,
	.fence = local_fence,
	.abort = local_abort,
	.stopped = local_stopped,
};

/* auto: the ranks of this machine are one node. */
static int local_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts_)
{
	struct local_opts *o = opts_;
	int32_t world = number("ZEROTH_LOCAL_WORLD", MAX_RANKS);

	(void)h;
	(void)facts; /* boot itself is the source of facts->world */
	if (o->ranks_per_node == ZR_AUTO_I64)
		o->ranks_per_node = world > 0 ? world : 1;

	return 0;
}

static const struct zr_opt opts[] = {
	ZR_OPT(struct local_opts, ranks_per_node, ZR_T_I64, ZR_O_AUTO, "auto", 1, MAX_NODE, "ranks",
	       "Plays nodes of so many ranks each on one machine; auto: all ranks are one node."),
};

PLUGIN(boot, "local", &vtbl, .version = "2",
       .summary = "Ranks on this machine: one process, or those of a supervisor.",
       PLUGIN_OPTIONS(struct local_opts, opts), .resolve = local_resolve, .create = local_create,
       .destroy = local_destroy);
