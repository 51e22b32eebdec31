/* SPDX-License-Identifier: Apache-2.0
 *
 * boot.c - boot of ranks that are threads of one process: keys and values under a lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zeroth/boot.h>

#include "embed/engine.h"

struct value {
	struct value *next;
	uint64_t bytes;
	char key[64];
	char data[];
};

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int ranks;
	struct value *values;
	uint64_t came;      /* to all fences so far */
	char aborted[1024]; /* "": nobody has failed */
};

struct zr_inst {
	const struct zr_host *h;
	struct meeting *m;
	int32_t rank, per_node;
	uint64_t fences; /* that this rank has come to */
};

struct threads_opts {
	int64_t ranks_per_node;
};

struct meeting *meeting_new(int ranks)
{
	struct meeting *m = calloc(1, sizeof *m);
	pthread_condattr_t attr;

	if (!m)
		return NULL;

	m->ranks = ranks;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&m->changed, &attr);
	pthread_condattr_destroy(&attr);
	return m;
}

void meeting_free(struct meeting *m)
{
	if (!m)
		return;

	for (struct value *v = m->values, *next; v; v = next) {
		next = v->next;
		free(v);
	}

	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static int threads_info(struct zr_inst *inst, struct zr_boot_info *info)
{
	info->rank = inst->rank;
	info->world = info->machine_ranks = inst->m->ranks;
	info->local_rank = inst->rank % inst->per_node;
	info->local_world = inst->per_node;
	info->node = inst->rank / inst->per_node;
	info->nodes = inst->m->ranks / inst->per_node;
	if (gethostname(info->host, sizeof info->host))
		info->host[0] = 0;
	info->host[sizeof info->host - 1] = 0;
	return ZR_OK;
}

static int threads_put(struct zr_inst *inst, const char *key, const void *data, uint64_t bytes)
{
	struct meeting *m = inst->m;

	struct value *v = calloc(1, sizeof *v + bytes);
	if (!v)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory");

	snprintf(v->key, sizeof v->key, "%s", key);
	memcpy(v->data, data, v->bytes = bytes);
	pthread_mutex_lock(&m->lock);
	v->next = m->values;
	m->values = v;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	return ZR_OK;
}

static struct timespec in(double seconds)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	seconds = seconds < 1e9 ? seconds : 1e9;
	t.tv_sec += (time_t)seconds;
	t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* The lock is held. Returns once more than `fence` have come, or the key (if not NULL) is there. */
static int wait_for(struct zr_inst *inst, const char *key, uint64_t fence, double timeout_s,
		    const struct value **found)
{
	struct meeting *m = inst->m;
	const struct timespec until = in(timeout_s);

	for (;;) {
		if (*m->aborted)
			return zr_fail(inst->h, ZR_EPEER, "%s", m->aborted);

		for (const struct value *v = key ? m->values : NULL; v; v = v->next)
			if (!strcmp(v->key, key))
				return *found = v, 0;
		if (!key && m->came >= fence)
			return 0;
		if (pthread_cond_timedwait(&m->changed, &m->lock, &until) == ETIMEDOUT)
			return zr_fail(inst->h, ZR_EPEER, "timeout: waited %.0f s for other ranks",
				       timeout_s);
	}
}

static int threads_get(struct zr_inst *inst, const char *key, void *data, uint64_t bytes,
		       double timeout_s)
{
	const struct value *v = NULL;

	pthread_mutex_lock(&inst->m->lock);
	int rc = wait_for(inst, key, 0, timeout_s, &v);
	if (!rc && v->bytes != bytes)
		rc = zr_fail(inst->h, ZR_EINVAL, "key %s has %llu bytes, not %llu", key,
			     (unsigned long long)v->bytes, (unsigned long long)bytes);
	if (!rc)
		memcpy(data, v->data, bytes);
	pthread_mutex_unlock(&inst->m->lock);
	return rc;
}

static int threads_fence(struct zr_inst *inst, double timeout_s)
{
	struct meeting *m = inst->m;

	pthread_mutex_lock(&m->lock);
	m->came++;
	pthread_cond_broadcast(&m->changed);
	int rc = wait_for(inst, NULL, ++inst->fences * (uint64_t)m->ranks, timeout_s, NULL);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

static void threads_abort(struct zr_inst *inst, const char *why)
{
	struct meeting *m = inst->m;

	pthread_mutex_lock(&m->lock);
	if (!*m->aborted)
		snprintf(m->aborted, sizeof m->aborted, "rank %d stopped: %s", inst->rank, why);
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

static int threads_stopped(struct zr_inst *inst, char *why, uint64_t room)
{
	struct meeting *m = inst->m;

	pthread_mutex_lock(&m->lock);
	const int is_stopped = *m->aborted != 0;
	if (is_stopped)
		snprintf(why, room, "%s", m->aborted);
	pthread_mutex_unlock(&m->lock);
	return is_stopped;
}

static int threads_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct threads_opts *o = opts;

	(void)h;
	(void)facts;
	if (o->ranks_per_node == ZR_AUTO_I64)
		o->ranks_per_node = rank_here ? rank_here->engine->n : 1;
	return ZR_OK;
}

static int threads_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct threads_opts *o = opts;

	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	*inst = (struct zr_inst){ .h = h,
				  .m = rank_here->engine->meeting,
				  .rank = rank_here->number };
	inst->per_node = o->ranks_per_node < inst->m->ranks ? (int32_t)o->ranks_per_node :
							      inst->m->ranks;
	if (inst->m->ranks % inst->per_node) {
		int rc = zr_fail(h, ZR_EINVAL,
				 "ranks_per_node = %d: %d ranks do not fill nodes of "
				 "that size",
				 inst->per_node, inst->m->ranks);
		free(inst);
		return rc;
	}

	*out = inst;
	return ZR_OK;
}

static void threads_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_boot_v1 vtbl = {
	.size = sizeof vtbl,
	.info = threads_info,
	.put = threads_put,
	.get = threads_get,
	.fence = threads_fence,
	.abort = threads_abort,
	.stopped = threads_stopped,
};
static const struct zr_iface ifaces[] = { { "zr.boot/1", &vtbl }, { NULL, NULL } };
static const struct zr_opt opts[] = {
	ZR_OPT(struct threads_opts, ranks_per_node, ZR_T_I64, ZR_O_AUTO, "auto", 1,
	       ZEROTH_MAX_RANKS, "ranks",
	       "Plays nodes of so many ranks each on one machine; auto: all ranks are one node."),
};
static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "boot",
	.id = "threads",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Ranks that are threads of one process.",
	.ifaces = ifaces,
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.opt_stride = sizeof *opts,
	.opts_size = sizeof(struct threads_opts),
	.resolve = threads_resolve,
	.create = threads_create,
	.destroy = threads_destroy,
};
static const struct zr_desc *const descs[] = { &desc, NULL };
const struct zr_entry threads_entry = {
	.magic = ZR_MAGIC,
	.size = sizeof(struct zr_entry),
	.abi_major = ZR_ABI_MAJOR,
	.abi_minor = ZR_ABI_MINOR,
	.draft = ZR_DRAFT_REVISION,
	.build = __VERSION__,
	.descs = descs,
};
