/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi.c - collectives between ranks that an MPI launcher started, on any number of machines; see
 * mpi.h.
 */
#define _GNU_SOURCE
#include "mpi.h"
#include "plugins/descriptor.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static int mpi_start(struct zr_inst *c)
{
	int there = 0, level = 0;
	MPI_Initialized(&there);
	if (!there) {
		if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
			return zr_fail(c->h, ZR_EIO, "MPI does not start");

		c->started = 1;
	}

	MPI_Query_thread(&level);
	if (level < MPI_THREAD_SERIALIZED)
		return zr_fail(c->h, ZR_ENOTSUP, "this MPI library does not work with threads");
	return 0;
}

static int take_groups(struct zr_inst *c, const struct zr_host *h)
{
	int rc = comm_check_place(h);
	if (rc)
		return rc;

	c->rank = h->rank;
	c->world = h->world;
	c->group[ZR_GROUP_SELF] = (struct zm_group){ .first = h->rank, .size = 1 };
	c->group[ZR_GROUP_NODE] = (struct zm_group){ .first = h->rank - h->local_rank,
						     .size = h->local_world,
						     .rank = h->local_rank };
	c->group[ZR_GROUP_WORLD] = (struct zm_group){ .size = h->world, .rank = h->rank };
	return 0;
}

static int take_memory(struct zr_inst *c)
{
	c->peer = calloc((size_t)c->world, sizeof *c->peer);
	c->note_req = malloc((size_t)c->world * sizeof(MPI_Request));
	c->source = malloc((size_t)c->h->workers * (size_t)c->world * sizeof *c->source);
	for (int32_t r = 0; c->note_req && r < c->world; r++)
		c->note_req[r] = MPI_REQUEST_NULL;
	if (c->peer && c->note_req && c->source)
		return 0;
	return zr_fail(c->h, ZR_ENOMEM, "no memory");
}

/* Connects every pair once, so that notes leave even when their sender makes no further call. */
static int connect(struct zr_inst *c)
{
	int32_t *ranks = malloc(2 * (size_t)c->world * sizeof *ranks);
	if (!ranks)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");
	for (int32_t r = 0; r < c->world; r++)
		ranks[r] = c->rank;
	int rc = MPI_Alltoall(ranks, 1, MPI_INT32_T, ranks + c->world, 1, MPI_INT32_T, c->notes);
	free(ranks);
	return zm_mpi_failed(c, rc, "MPI_Alltoall");
}

static int join(struct zr_inst *c)
{
	int size = 0, rc = mpi_start(c);
	if (rc)
		return rc;

	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size != c->world)
		return zr_fail(
			c->h, ZR_EINVAL,
			"MPI has %d process%s, boot says %d ranks: start them with mpirun or srun",
			size, size == 1 ? "" : "es", c->world);

	rc = take_memory(c);
	if (rc)
		return rc;
	if (MPI_Comm_split(MPI_COMM_WORLD, 0, c->rank, &c->notes) != MPI_SUCCESS)
		return zr_fail(c->h, ZR_EIO, "MPI_Comm_split failed");

	MPI_Comm_set_errhandler(c->notes, MPI_ERRORS_RETURN);
	rc = connect(c);
	if (!rc)
		rc = zm_group_split(c, &c->group[ZR_GROUP_WORLD], 0);
	if (rc)
		return rc;
	return zm_group_split(c, &c->group[ZR_GROUP_NODE], c->group[ZR_GROUP_NODE].first);
}

static int outstanding(const struct zr_inst *c)
{
	for (int i = 0; i < WINDOW; i++)
		if (c->pend[i].ticket)
			return 1;
	return 0;
}

/* Ends well if all ranks come to this with nothing outstanding; otherwise MPI stays as it is. */
static void leave(struct zr_inst *c)
{
	if (c->broken || c->notes == MPI_COMM_NULL)
		return;
	if (zm_enter(c) == 0 && outstanding(c))
		zm_stop(c, "rank %d stopped with operations outstanding", c->rank);
	if (!c->broken)
		zm_goodbye(c);
	if (c->broken)
		return;

	for (int k = ZR_GROUP_NODE; k < GROUPS; k++)
		zm_group_free(&c->group[k]);
	MPI_Comm_free(&c->notes);
	if (c->started)
		MPI_Finalize();
}

static void mpi_free(struct zr_inst *c)
{
	for (int i = 0; i < WINDOW; i++) {
		free(c->pend[i].all);
		free(c->pend[i].req);
		free(c->pend[i].counts);
		c->h->release(c->h, c->pend[i].staging);
	}

	for (int k = 0; k < GROUPS; k++) {
		c->h->release(c->h, c->group[k].pieces);
		free(c->group[k].ranks);
	}
	free(c->source);
	free(c->note_req);
	free(c->peer);
	free(c);
}

/* The launcher kills all ranks once one has failed: the one with the cause should be the first to
 * end. */
static void mpi_destroy(struct zr_inst *c)
{
	leave(c);
	if (c->follows)
		nanosleep(&(struct timespec){ 1, 0 }, NULL);
	mpi_free(c);
}

static int mpi_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *c = calloc(1, sizeof *c);
	if (!c)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	c->h = h;
	c->o = opts;
	c->notes = MPI_COMM_NULL;
	int rc = take_groups(c, h);
	if (!rc && h->world > 1)
		rc = join(c);
	if (rc) {
		if (c->started && !c->broken)
			MPI_Finalize();
		mpi_free(c);
		return rc;
	}

	*out = c;
	return 0;
}

/* [any] Carried out by the next call of the training thread, or the wait in progress. */
static void mpi_abort(struct zr_inst *c, const char *why)
{
	int none = 0;
	if (!atomic_compare_exchange_strong(&c->abort_state, &none, 1))
		return;
	snprintf(c->abort_why, sizeof c->abort_why, "%s", why);
	atomic_store(&c->abort_state, 2);
}

static uint64_t mpi_bytes_sent(struct zr_inst *c)
{
	return atomic_load_explicit(&c->received, memory_order_relaxed);
}

/* The first words of "Open MPI v4.1.4, package: ...". */
static const char *mpi_sums(const void *opts)
{
	static char text[MPI_MAX_LIBRARY_VERSION_STRING];
	int n;
	if (((const struct mpi_opts *)opts)->sums == SUMS_ORDERED ||
	    MPI_Get_library_version(text, &n) != MPI_SUCCESS)
		return NULL;
	text[strcspn(text, ",\t\n")] = 0;
	return text;
}

static const struct zr_comm_v1 vtbl = {
	.size = sizeof vtbl,
	.post = zm_post,
	.test = zm_test,
	.wait = zm_wait,
	.abort = mpi_abort,
	.bytes_sent = mpi_bytes_sent,
	.sums = mpi_sums,
	.exchange = zm_exchange,
	.group = zm_group,
};

static const char *const sums[] = { "ordered", "mpi", NULL }; /* SUMS_* in order */
static const struct zr_opt opts[] = {
	ZR_OPT(struct mpi_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others ends the run, naming them."),
	ZR_OPT_ENUM(
		struct mpi_opts, sums, ZR_O_NUMERIC, "ordered", sums,
		COMM_SUMS
		"mpi: by MPI_Ireduce_scatter_block, in an order that may depend on the number and "
		"place of ranks and on the version of MPI: so may the bits."),
};

PLUGIN(comm, "mpi", &vtbl, .version = "1", .summary = "Ranks on one or many machines, through MPI.",
       PLUGIN_OPTIONS(struct mpi_opts, opts), .create = mpi_create, .destroy = mpi_destroy);
