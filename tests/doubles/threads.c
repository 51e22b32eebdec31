/* SPDX-License-Identifier: Apache-2.0
 *
 * threads.c - a boot plugin for ranks that are threads of one process, for t_threads: options say
 * who a rank is, and keys and values are in a table of the process, apart for each `run`.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zeroth/boot.h>

#define VALUES 64

struct threads_opts {
	int64_t rank, world, ranks_per_node, run;
};

struct zr_inst {
	const struct zr_host *h;
	const struct threads_opts *o;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct value {
	int64_t run;
	char key[64], data[4096];
} value[VALUES];
static int n_values;
static int64_t stopped; /* the last run that was */

static int threads_info(struct zr_inst *b, struct zr_boot_info *info)
{
	int32_t rank = (int32_t)b->o->rank, world = (int32_t)b->o->world,
		node = (int32_t)b->o->ranks_per_node;
	*info = (struct zr_boot_info){ .size = info->size,
				       .rank = rank,
				       .world = world,
				       .local_rank = rank % node,
				       .local_world = node,
				       .node = rank / node,
				       .nodes = world / node,
				       .machine_ranks = world };
	return 0;
}

static int threads_put(struct zr_inst *b, const char *key, const void *data, uint64_t bytes)
{
	int rc = 0;
	pthread_mutex_lock(&lock);
	if (n_values == VALUES || bytes > sizeof value[0].data) {
		rc = zr_fail(b->h, ZR_ENOMEM, "no room for the key %s", key);
	} else {
		struct value *v = &value[n_values++];
		v->run = b->o->run;
		snprintf(v->key, sizeof v->key, "%s", key);
		memcpy(v->data, data, bytes);
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static const struct value *find(int64_t run, const char *key)
{
	for (int i = 0; i < n_values; i++)
		if (value[i].run == run && !strcmp(value[i].key, key))
			return &value[i];
	return NULL;
}

static int threads_get(struct zr_inst *b, const char *key, void *data, uint64_t bytes,
		       double timeout)
{
	const struct value *v;
	struct timespec end;
	int rc = 0;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += (time_t)timeout;
	pthread_mutex_lock(&lock);
	while (!(v = find(b->o->run, key)) && stopped < b->o->run && !rc)
		rc = pthread_cond_timedwait(&changed, &lock, &end);
	if (v)
		memcpy(data, v->data, bytes);
	pthread_mutex_unlock(&lock);
	if (v)
		return 0;
	return zr_fail(b->h, ZR_EPEER,
		       rc ? "timeout: no key %s" : "no key %s: another rank stopped", key);
}

static void threads_abort(struct zr_inst *b, const char *why)
{
	(void)why;
	pthread_mutex_lock(&lock);
	stopped = b->o->run;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static int threads_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *b = malloc(sizeof *b);
	if (!b)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	*b = (struct zr_inst){ .h = h, .o = opts };
	*out = b;
	return 0;
}

static void threads_destroy(struct zr_inst *b)
{
	free(b);
}

static const struct zr_boot_v1 vtbl = { .size = sizeof vtbl,
					.info = threads_info,
					.put = threads_put,
					.get = threads_get,
					.abort = threads_abort };
static const struct zr_iface ifaces[] = { { "zr.boot/1", &vtbl }, { NULL, NULL } };

static const struct zr_opt opts[] = {
	ZR_OPT(struct threads_opts, rank, ZR_T_I64, 0, "0", 0, 255, "", "This rank."),
	ZR_OPT(struct threads_opts, world, ZR_T_I64, 0, "1", 1, 256, "", "Ranks in all."),
	ZR_OPT(struct threads_opts, ranks_per_node, ZR_T_I64, 0, "1", 1, 256, "",
	       "Ranks of a node."),
	ZR_OPT(struct threads_opts, run, ZR_T_I64, 0, "1", 1, ZR_HI, "",
	       "Which training of the process."),
};

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "boot",
	.id = "threads",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Ranks as threads of one process.",
	.ifaces = ifaces,
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.opt_stride = sizeof *opts,
	.opts_size = sizeof(struct threads_opts),
	.create = threads_create,
	.destroy = threads_destroy,
};
ZR_PLUGIN(&desc);
