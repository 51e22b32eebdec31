/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi.c - boot of ranks that mpirun, srun or another launcher of MPI started; see mpi.h.
 */
#define _GNU_SOURCE
#include "mpi.h"
#include "plugins/descriptor.h"

#include <stdlib.h>
#include <string.h>

/* seconds that a rank that failed gives the others to come to their end, too */
#define GOODBYE  5.0
#define PATIENT  10.0 /* seconds between the lines of one that did not */
#define MAX_NODE 65536

struct mpi_opts {
	int64_t ranks_per_node;
};

/* What ranks tell each other to be numbered. */
struct place {
	int node, local; /* lowest MPI rank of the node, rank on the node */
};

static int mpi_info(struct zr_inst *b, struct zr_boot_info *info)
{
	uint32_t size = info->size;
	*info = b->info;
	info->size = size;
	return 0;
}

/* ---- who is where ---------------------------------------------------------------- */

static int find_place(struct place *p)
{
	MPI_Comm node;
	int rank = 0;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node) !=
	    MPI_SUCCESS)
		return -1;

	p->node = rank;
	MPI_Comm_rank(node, &p->local);
	MPI_Bcast(&p->node, 1, MPI_INT, 0, node);
	return MPI_Comm_free(&node) == MPI_SUCCESS ? 0 : -1;
}

/* Nodes in the order of their lowest MPI rank. */
static void number(struct zr_boot_info *info, const struct place *mine, const struct place *all)
{
	info->local_rank = mine->local;
	for (int r = 0; r < info->world; r++) {
		info->rank += all[r].node < mine->node ||
			      (all[r].node == mine->node && all[r].local < mine->local);
		info->node += all[r].node < mine->node && all[r].local == 0;
		info->nodes += all[r].local == 0;
		info->local_world += all[r].node == mine->node;
	}

	info->machine_ranks = info->local_world;
}

static int ranks_of(const struct place *all, int world, int node)
{
	int n = 0;
	for (int r = 0; r < world; r++)
		n += all[r].node == node;
	return n;
}

/* Cuts the nodes that were found into smaller ones. */
static int play_nodes(struct zr_inst *b, const struct place *all, int64_t per_node)
{
	struct zr_boot_info *i = &b->info;
	int32_t n = (int32_t)per_node, largest = 0;

	for (int r = 0; r < i->world; r++) {
		int ranks = ranks_of(all, i->world, all[r].node);
		if (ranks > largest)
			largest = ranks;
	}

	if (n >= largest)
		return 0;

	for (int r = 0; r < i->world; r++) {
		int ranks = ranks_of(all, i->world, all[r].node);
		if (ranks % n)
			return zr_fail(
				b->h, ZR_EINVAL,
				"ranks_per_node = %d: %d ranks do not fill nodes of that size", n,
				ranks);
	}

	i->node = i->rank / n; /* all nodes before this one hold whole ones */
	i->nodes = i->world / n;
	i->local_rank %= n;
	i->local_world = n;
	return 0;
}

static int take_ranks(struct zr_inst *b, int64_t per_node)
{
	struct place mine, *all = NULL;
	int rc = -1, length = 0;
	char host[MPI_MAX_PROCESSOR_NAME] = "";

	MPI_Comm_size(MPI_COMM_WORLD, &b->info.world);
	MPI_Get_processor_name(host, &length);
	snprintf(b->info.host, sizeof b->info.host, "%.*s", (int)sizeof b->info.host - 1, host);
	all = calloc((size_t)b->info.world, sizeof *all);
	b->got = calloc((size_t)b->info.world, sizeof *b->got);
	b->wanted = calloc((size_t)b->info.world, sizeof *b->wanted);
	if (all && b->got && b->wanted && !find_place(&mine) &&
	    MPI_Allgather(&mine, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD) == MPI_SUCCESS) {
		number(&b->info, &mine, all);
		rc = play_nodes(b, all, per_node);
		if (!rc && MPI_Comm_split(MPI_COMM_WORLD, 0, b->info.rank, &b->all) != MPI_SUCCESS)
			rc = zr_fail(b->h, ZR_EIO, "MPI_Comm_split failed");
	} else {
		rc = zr_fail(b->h, ZR_EIO, "MPI cannot tell which ranks share a node");
	}
	free(all);
	return rc;
}

/* ---- life ------------------------------------------------------------------------ */

static int start(struct zr_inst *b)
{
	int there = 0, level = 0;

	MPI_Initialized(&there);
	if (there)
		return 0;
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
		return zr_fail(b->h, ZR_EIO, "MPI does not start");

	b->started = 1;
	return 0;
}

/* 1 if all ranks have come to their end: only then may MPI_Finalize be called, which waits for them
 * without limit. A rank that fails alone must be able to end, so that the launcher stops the
 * others. One that is done waits: its end without MPI_Finalize would have the launcher kill a rank
 * that still writes files. */
static int all_end(struct zr_inst *b)
{
	char name[MPI_MAX_OBJECT_NAME] = "";
	int length = 0, done = 0;
	double start = zb_now(), waited = 0, said = 0;
	MPI_Request req;

	MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
	if (!strcmp(name, BROKEN) || b->all == MPI_COMM_NULL ||
	    MPI_Ibarrier(b->all, &req) != MPI_SUCCESS)
		return 0;

	while (MPI_Test(&req, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done &&
	       (waited < GOODBYE || !atomic_load(&b->failed))) {
		waited = zb_now() - start;
		if (waited - said > PATIENT) {
			said = waited;
			zr_log(b->h, ZR_LOG_INFO,
			       "rank %d is done and waits for the others to end: %.0f s",
			       b->info.rank, waited);
		}

		zb_doze(waited);
	}

	if (!done)
		zr_log(b->h, ZR_LOG_WARN, "rank %d ends, other ranks do not", b->info.rank);

	return done;
}

/* [any] Stops nobody yet: a launcher that kills the others would keep them from saying why they
 * end. */
static void mpi_abort(struct zr_inst *b, const char *why)
{
	(void)why;
	atomic_store(&b->failed, 1);
}

static void mpi_destroy(struct zr_inst *b)
{
	int over = 0;

	MPI_Finalized(&over);
	if (!over && all_end(b)) {
		zb_free_values(b);
		MPI_Comm_free(&b->all);
		if (b->started)
			MPI_Finalize();
	}

	free(b->got);
	free(b->wanted);
	free(b);
}

static int mpi_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct mpi_opts *o = opts;
	struct zr_inst *b = calloc(1, sizeof *b);
	if (!b)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	b->h = h;
	b->all = MPI_COMM_NULL;
	int rc = start(b);
	if (!rc)
		rc = take_ranks(b, o->ranks_per_node);
	if (rc) {
		if (b->started) /* all ranks fail alike */
			MPI_Finalize();
		free(b->got);
		free(b->wanted);
		free(b);
		return rc;
	}

	*out = b;
	return 0;
}

static const struct zr_boot_v1 vtbl = {
	.size = sizeof vtbl,
	.info = mpi_info,
	.put = zb_put,
	.get = zb_get,
	.fence = zb_fence,
	.abort = mpi_abort,
};

/* auto: as many as there are. */
static int mpi_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts_)
{
	struct mpi_opts *o = opts_;

	(void)h;
	(void)facts; /* boot itself is the source of facts->world */
	if (o->ranks_per_node == ZR_AUTO_I64)
		o->ranks_per_node = MAX_NODE;

	return 0;
}

static const struct zr_opt opts[] = {
	ZR_OPT(struct mpi_opts, ranks_per_node, ZR_T_I64, ZR_O_AUTO, "auto", 1, MAX_NODE, "ranks",
	       "Plays smaller nodes: cuts those that MPI finds into so many ranks each; auto: "
	       "takes them as they are."),
};

PLUGIN(boot, "mpi", &vtbl, .version = "1",
       .summary = "Ranks started by mpirun, srun or another launcher of MPI.",
       PLUGIN_OPTIONS(struct mpi_opts, opts), .resolve = mpi_resolve, .create = mpi_create,
       .destroy = mpi_destroy);
