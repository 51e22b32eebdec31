/* SPDX-License-Identifier: Apache-2.0
 *
 * env.c - boot of ranks that any launcher started: environment variables say who they are, and they
 * publish values through rank 0, or in a directory that all of them see. See env.h and tcp.h.
 */
#define _GNU_SOURCE
#include "tcp.h"
#include "plugins/descriptor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How launchers call things. The first whose rank is set is taken. */
struct names {
	const char *rank, *world, *local_rank, *local_world; /* NULL: it does not say */
	const char *job[2]; /* what tells one of its jobs from others, the same for all ranks */
};

static const struct names launchers[] = {
	{ "RANK",
	  "WORLD_SIZE",
	  "LOCAL_RANK",
	  "LOCAL_WORLD_SIZE",
	  { "TORCHELASTIC_RUN_ID", "MASTER_PORT" } },
	{ "OMPI_COMM_WORLD_RANK",
	  "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK",
	  "OMPI_COMM_WORLD_LOCAL_SIZE",
	  { "PMIX_NAMESPACE", NULL } },
	{ "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", { NULL, NULL } },
	/* SLURM_NTASKS: also of a batch script */
	{ "SLURM_PROCID",
	  "SLURM_STEP_NUM_TASKS",
	  "SLURM_LOCALID",
	  NULL,
	  { "SLURM_JOB_ID", "SLURM_STEP_ID" } },
};

/* ---- the environment ------------------------------------------------------------- */

/* 1 and *out, 0 if it is not set, or < 0. */
static int number(const struct zr_host *h, const char *name, int32_t *out)
{
	const char *text = NULL;

	if (name)
		text = getenv(name);
	char *end;
	if (!text || !*text)
		return 0;

	errno = 0;
	long v = strtol(text, &end, 10);
	if (errno || *end || v < 0 || v > MAX_RANKS)
		return zr_fail(h, ZR_EINVAL, "%s=%s is not a number from 0 to %d", name, text,
			       MAX_RANKS);

	*out = (int32_t)v;
	return 1;
}

/* How many ranks a node has, where the launcher says it for this one. */
static int take_local(const struct zr_host *h, const struct names *n, struct ze_hello *m)
{
	int rank = number(h, n->local_rank, &m->local_rank),
	    world = number(h, n->local_world, &m->local_world);
	if (rank < 0 || world < 0)
		return ZR_EINVAL;
	if (!rank || !world) {
		m->local_rank = m->local_world = 0;
		return 0;
	}

	if (m->local_rank >= m->local_world || m->local_rank > m->rank ||
	    m->rank - m->local_rank + m->local_world > m->world)
		return zr_fail(h, ZR_EINVAL,
			       "%s=%d, %s=%d: rank %d of %d cannot be rank %d of %d of a node",
			       n->local_rank, m->local_rank, n->local_world, m->local_world,
			       m->rank, m->world, m->local_rank, m->local_world);

	return 0;
}

static void take_job(const struct names *n, struct ze_hello *m)
{
	for (size_t i = 0; i < sizeof n->job / sizeof *n->job; i++) {
		const char *text = NULL;
		if (n->job[i])
			text = getenv(n->job[i]);
		if (text)
			m->job = ze_hash(m->job, text);
	}
}

static int take_environment(const struct zr_host *h, struct ze_hello *m)
{
	for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
		const struct names *n = &launchers[i];
		int rank = number(h, n->rank, &m->rank);
		if (!rank)
			continue;

		int world = number(h, n->world, &m->world);
		if (rank < 0 || world < 0)
			return ZR_EINVAL;
		if (!world)
			return zr_fail(h, ZR_EINVAL, "%s is set, but not %s", n->rank, n->world);
		if (m->rank >= m->world)
			return zr_fail(h, ZR_EINVAL, "%s=%d, %s=%d: ranks are numbered from 0",
				       n->rank, m->rank, n->world, m->world);

		take_job(n, m);
		return take_local(h, n, m);
	}

	zr_log(h, ZR_LOG_WARN,
	       "neither RANK nor another launcher's variable is set: one rank alone");
	m->rank = 0;
	m->world = 1;
	return 0;
}

/* ---- life ------------------------------------------------------------------------ */

static int env_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *b = ze_new(h, opts);
	if (!b)
		return ZR_ENOMEM;

	b->find = zt_find_said;
	int rc = take_environment(h, &b->mine);
	if (!rc)
		rc = ze_take_ranks(b);
	if (rc) {
		ze_destroy(b);
		return rc;
	}

	*out = b;
	return 0;
}

static const struct zr_opt opts[] = {
	ZR_OPT(struct env_opts, directory, ZR_T_PATH, 0, "", 0, 0, "",
	       "Where the ranks meet: a directory that all of them see. Without one they meet at a "
	       "port of rank 0. It may be one like /tmp, and of several runs: the ranks of a user "
	       "meet in zeroth-UID in it, which no other user may enter."),
	ZR_OPT(struct env_opts, address, ZR_T_STR, 0, "", 0, 0, "",
	       "Name or address of rank 0's machine, as the others reach it. Without one, "
	       "MASTER_ADDR says it, or the first host of SLURM_STEP_NODELIST."),
	ZR_OPT(struct env_opts, port, ZR_T_I64, 0, "0", 0, 65535, "",
	       "Where rank 0 listens. 0: MASTER_PORT, or the next one where torchrun's own store "
	       "is there; under Slurm one from 20000 to 29999 by the number of the job."),
	ZR_OPT(struct env_opts, interface, ZR_T_STR, 0, "", 0, 0, "",
	       "Network interface of rank 0 that it listens on, as eth0. Without one, the address "
	       "that the others use; all, if no interface has that, or only loopback and ranks of "
	       "other machines are expected."),
	ZR_OPT(struct env_opts, token, ZR_T_PATH, 0, "", 0, 0, "",
	       "File whose first line is a secret that all ranks share, which nobody but its owner "
	       "may read. Without one, ZEROTH_TOKEN has it. Who does not know it cannot join."),
	ZR_OPT(struct env_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others to join ends the run, naming them."),
};

PLUGIN(boot, "env", &ze_vtbl, .version = "1",
       .summary = "Ranks by environment variables: RANK, WORLD_SIZE, or those of SLURM, PMI or "
		  "Open MPI.",
       PLUGIN_OPTIONS(struct env_opts, opts), .create = env_create, .destroy = ze_destroy);
