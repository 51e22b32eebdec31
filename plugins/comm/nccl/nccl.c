/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.c - collectives between GPUs through NCCL; see nccl.h. The ranks meet by way of boot.
 */
#define _GNU_SOURCE
#include "nccl.h"

#include "cuda_missing.h"
#include "plugins/descriptor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- meeting --------------------------------------------------------------------- */

static int take_roles(struct zr_inst *c)
{
	const struct zr_host *h = c->h;
	c->boot = h->get(h, "zr.boot/1", &c->boot_inst);
	c->dev = NULL;
	if (ZR_HAS(h, struct zr_host, get))
		c->dev = h->get(h, "zr.device/1", &c->dev_inst);
	if (!c->boot || !c->boot->put || !c->boot->get)
		return zr_fail(h, ZR_ENOTSUP,
			       "boot offers no key-value area through which %d ranks could meet",
			       c->world);
	if (!c->dev || !ZR_HAS(c->dev, struct zr_device_v1, native_stream) ||
	    !c->dev->native_stream)
		return zr_fail(h, ZR_ENOTSUP,
			       "this device has no CUDA streams: NCCL moves memory of GPUs, so set "
			       "[device] plugin = cuda");

	c->compute = c->dev->native_stream(c->dev_inst, NULL);
	return nn_cuda(c, cudaGetDevice(&c->gpu), "cudaGetDevice");
}

static int same_gpu(struct zr_inst *c, int32_t other, const char *gpu)
{
	int32_t first = c->rank, second = other;
	if (other < c->rank) {
		first = other;
		second = c->rank;
	}
	return zr_fail(c->h, ZR_EINVAL,
		       "ranks %d and %d have the same GPU %s, which NCCL refuses: give each rank "
		       "its own, or set [comm] plugin = local, which goes through host memory",
		       first, second, gpu);
}

/* NCCL refuses two ranks on one GPU, and says so in other words. */
static int check_gpus(struct zr_inst *c)
{
	char mine[64] = "", theirs[64], key[32];
	int32_t first = c->group[ZR_GROUP_NODE].first, n = c->group[ZR_GROUP_NODE].size;
	int rc = nn_cuda(c, cudaDeviceGetPCIBusId(mine, sizeof mine, c->gpu),
			 "cudaDeviceGetPCIBusId");
	snprintf(key, sizeof key, "nccl.gpu.%d", c->rank);
	if (!rc)
		rc = c->boot->put(c->boot_inst, key, mine, sizeof mine);
	for (int32_t r = first; !rc && r < first + n; r++) {
		snprintf(key, sizeof key, "nccl.gpu.%d", r);
		rc = c->boot->get(c->boot_inst, key, theirs, sizeof theirs, c->o->timeout);
		theirs[sizeof theirs - 1] = 0;
		if (!rc && r != c->rank && !strcmp(mine, theirs))
			rc = same_gpu(c, r, mine);
	}
	return rc;
}

/* How many ids the ranks of a world meet by: a rank leads those of an id to each other. */
static int32_t ids_of(int32_t world)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
	return (world + NN_RANKS_PER_ID - 1) / NN_RANKS_PER_ID;
#else
	(void)world;
	return 1;
#endif
}

static void key_of_id(char *key, size_t room, int32_t number)
{
	snprintf(key, room, "nccl.id.%d", number);
}

/* The first rank of those that an id leads makes it. */
static int make_id(struct zr_inst *c, int32_t ids)
{
	ncclUniqueId id;
	char key[32];
	if (c->rank % NN_RANKS_PER_ID || c->rank / NN_RANKS_PER_ID >= ids)
		return ZR_OK;

	memset(&id, 0, sizeof id);
	int rc = nn_nccl(c, NULL, ncclGetUniqueId(&id), "ncclGetUniqueId");
	if (rc)
		return rc;

	key_of_id(key, sizeof key, c->rank / NN_RANKS_PER_ID);
	return c->boot->put(c->boot_inst, key, &id, sizeof id);
}

static int take_ids(struct zr_inst *c, ncclUniqueId *id, int32_t ids)
{
	int rc = make_id(c, ids);

	for (int32_t i = 0; !rc && i < ids; i++) {
		char key[32];
		key_of_id(key, sizeof key, i);
		rc = c->boot->get(c->boot_inst, key, &id[i], sizeof id[i], c->o->timeout);
	}

	return rc;
}

/* By one id as every NCCL does it, by several as from 2.23 on. */
static int join_world(struct zr_inst *c, ncclUniqueId *id, int32_t ids)
{
	struct nn_group *g = &c->group[ZR_GROUP_WORLD];
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t e;
	config.blocking = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
	if (ids > 1) {
		e = ncclCommInitRankScalable(&g->comm, g->size, g->rank, ids, id, &config);
		return nn_finish(c, g->comm, e, "ncclCommInitRankScalable");
	}
#endif
	(void)ids;
	e = ncclCommInitRankConfig(&g->comm, g->size, id[0], g->rank, &config);
	return nn_finish(c, g->comm, e, "ncclCommInitRankConfig");
}

static int meet(struct zr_inst *c)
{
	const int32_t ids = ids_of(c->world);
	ncclUniqueId *id = calloc((size_t)ids, sizeof *id);
	if (!id)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	int rc = take_ids(c, id, ids);
	if (!rc)
		rc = join_world(c, id, ids);
	free(id);
	return rc;
}

static int connect(struct zr_inst *c)
{
	struct nn_group *world = &c->group[ZR_GROUP_WORLD], *node = &c->group[ZR_GROUP_NODE];
	int rc = meet(c);
	if (!rc)
		rc = nn_talk_open(c, world);
	if (rc)
		return rc;
	if (node->size < world->size)
		return nn_split(c, node, node->first);

	node->comm = world->comm;
	node->talk = world->talk;
	return ZR_OK;
}

static int make_events(struct zr_inst *c)
{
	int rc = nn_cuda(c, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking),
			 "cudaStreamCreate");
	if (!rc)
		rc = nn_cuda(c, cudaEventCreateWithFlags(&c->ready, cudaEventDisableTiming),
			     "cudaEventCreate");
	for (int i = 0; !rc && i < NN_WINDOW; i++)
		rc = nn_cuda(c, cudaEventCreateWithFlags(&c->pend[i].over, cudaEventDisableTiming),
			     "cudaEventCreate");
	if (rc)
		return rc;
	return nn_halves_open(c);
}

static int take_groups(struct zr_inst *c)
{
	const struct zr_host *h = c->h;
	int rc = comm_check_place(h);
	if (rc)
		return rc;

	c->rank = h->rank;
	c->world = h->world;
	c->group[ZR_GROUP_SELF] = (struct nn_group){ .first = h->rank, .size = 1 };
	c->group[ZR_GROUP_NODE] = (struct nn_group){ .first = h->rank - h->local_rank,
						     .size = h->local_world,
						     .rank = h->local_rank };
	c->group[ZR_GROUP_WORLD] = (struct nn_group){ .size = h->world, .rank = h->rank };
	return ZR_OK;
}

/* ---- instance -------------------------------------------------------------------- */

static void end_comm(struct zr_inst *c, ncclComm_t comm)
{
	if (comm && !c->broken && !nn_finish(c, comm, ncclCommFinalize(comm), "ncclCommFinalize"))
		nn_nccl(c, NULL, ncclCommDestroy(comm), "ncclCommDestroy");
}

/* Ends well if nothing is outstanding anywhere; a communicator that others hang in is aborted. */
static void leave(struct zr_inst *c)
{
	for (int i = 0; i < NN_WINDOW && !c->broken; i++)
		if (c->pend[i].used && !c->pend[i].waited)
			nn_stop(c, ZR_EPEER, "rank %d stopped with operations outstanding",
				c->rank);
	if (c->broken) {
		nn_tell(c);
		return;
	}

	nn_tell_left(c);
	for (int i = 0; i < NN_RANGES; i++)
		nn_range_drop(c, i);
	for (int k = NN_GROUPS - 1; k >= 0; k--) {
		struct nn_group *g = &c->group[k];
		if (k != ZR_GROUP_WORLD && g->comm == c->group[ZR_GROUP_WORLD].comm)
			continue;

		if (g->talk)
			end_comm(c, g->talk->comm);
		end_comm(c, g->comm);
	}
}

static void free_groups(struct zr_inst *c)
{
	struct nn_group *world = &c->group[ZR_GROUP_WORLD];
	for (int k = 0; k < NN_GROUPS; k++) {
		struct nn_group *g = &c->group[k];
		if (g->talk && (g == world || g->talk != world->talk))
			nn_talk_close(c, g->talk);
		free(g->ranks);
	}
}

static void nccl_destroy(struct zr_inst *c)
{
	nn_watch_end(c);
	pthread_mutex_lock(&c->lock);
	if (c->group[ZR_GROUP_WORLD].comm)
		leave(c);
	pthread_mutex_unlock(&c->lock);
	free_groups(c);
	nn_halves_close(c);
	for (int i = 0; i < NN_WINDOW; i++)
		if (c->pend[i].over)
			nn_gave_back(c, cudaEventDestroy(c->pend[i].over), "cudaEventDestroy");
	if (c->ready)
		nn_gave_back(c, cudaEventDestroy(c->ready), "cudaEventDestroy");
	if (c->stream)
		nn_gave_back(c, cudaStreamDestroy(c->stream), "cudaStreamDestroy");
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static int nccl_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *c = calloc(1, sizeof *c);
	if (!c)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	c->h = h;
	c->o = opts;
	pthread_mutex_init(&c->lock, NULL);
	int rc = take_groups(c);
	if (!rc && h->world > 1) {
		pthread_mutex_lock(&c->lock);
		rc = take_roles(c);
		if (!rc)
			rc = check_gpus(c);
		if (!rc)
			rc = make_events(c);
		if (!rc)
			rc = connect(c);
		if (!rc)
			rc = nn_range_add(c, NN_SCRATCH, c->scratch, nn_scratch_bytes(c->world));
		pthread_mutex_unlock(&c->lock);
		if (!rc)
			rc = nn_watch_start(c);
	}

	if (rc)
		nccl_destroy(c);
	else
		*out = c;
	return rc;
}

static void nccl_abort(struct zr_inst *c, const char *why)
{
	pthread_mutex_lock(&c->lock);
	if (!c->broken)
		nn_stop(c, ZR_EPEER, "rank %d stopped: %s", c->rank, why);
	pthread_mutex_unlock(&c->lock);
}

static uint64_t nccl_bytes_sent(struct zr_inst *c)
{
	return atomic_load_explicit(&c->moved, memory_order_relaxed);
}

static int nccl_probe(const struct zr_host *h)
{
	char text[512];
	int count;
	if (cuda_missing(&count, text, sizeof text))
		return zr_fail(h, ZR_ENOTSUP, "%s", text);
	return ZR_OK;
}

static const char *nccl_sums(const void *opts)
{
	static char text[32];
	int v = 0;
	if (((const struct nccl_opts *)opts)->sums == NN_SUMS_ORDERED)
		return NULL;
	if (ncclGetVersion(&v) != ncclSuccess)
		return "NCCL";
	snprintf(text, sizeof text, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
	return text;
}

/* Of a world whose nodes are smaller, or the same. */
static uint64_t nccl_held_on_device(const void *options, int32_t world)
{
	(void)options;
	if (world == 1)
		return 0;
	return nn_scratch_bytes(world) + 2 * nn_talk_bytes(world);
}

static const struct zr_comm_v1 vtbl = {
	.size = sizeof vtbl,
	.mem = ZR_MEM_HOST | ZR_MEM_DEVICE,
	.post = nn_post,
	.test = nn_test,
	.wait = nn_wait,
	.abort = nccl_abort,
	.bytes_sent = nccl_bytes_sent,
	.sums = nccl_sums,
	.exchange = nn_exchange,
	.group = nn_group,
	.held_on_device = nccl_held_on_device,
	.mem_lend = nn_lend,
	.mem_take_back = nn_take_back,
};

static const char *const sums[] = { "ordered", "nccl", NULL }; /* NN_SUMS_* in order */
static const struct zr_opt opts[] = {
	ZR_OPT(struct nccl_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "An operation that takes longer ends the run; it counts from when it was posted, so "
	       "it includes what the GPU computes before."),
	ZR_OPT_ENUM(
		struct nccl_opts, sums, ZR_O_NUMERIC, "ordered", sums,
		COMM_SUMS
		"nccl: by ncclReduceScatter, in an order that may depend on the number of ranks, "
		"on what connects them and on the version of NCCL: so may the bits."),
};

PLUGIN(comm, "nccl", &vtbl, .version = "1",
       .summary = "GPUs of one or many machines, through NCCL, also for what is on the host.",
       PLUGIN_OPTIONS(struct nccl_opts, opts), .create = nccl_create, .destroy = nccl_destroy,
       .probe = nccl_probe);
