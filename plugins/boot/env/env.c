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

static int take_ranks(struct zr_inst *b)
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

	int rc = *b->o->directory ? ze_join(b) : zt_join(b);
	if (rc)
		return rc;

	return take_nodes(b);
}

/* ---- the role -------------------------------------------------------------------- */

static int env_info(struct zr_inst *b, struct zr_boot_info *info)
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

static int env_put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes)
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

static int env_get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout)
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

static int env_fence(struct zr_inst *b, double timeout)
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

static void env_abort(struct zr_inst *b, const char *why)
{
	if (b->tcp)
		zt_stop(b, why);
	else
		ze_stop(b, why);
}

/* ---- life ------------------------------------------------------------------------ */

static void env_destroy(struct zr_inst *b)
{
	zt_leave(b);
	ze_leave(b);
	ze_close(b);
	free(b->all);
	free(b->here);
	free(b);
}

static int env_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *b = calloc(1, sizeof *b);
	if (!b)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	b->h = h;
	b->o = opts;
	b->meeting = b->run = -1;
	int rc = take_environment(h, &b->mine);
	if (!rc)
		rc = take_ranks(b);
	if (rc) {
		env_destroy(b);
		return rc;
	}

	*out = b;
	return 0;
}

static const struct zr_boot_v1 vtbl = {
	.size = sizeof vtbl,
	.info = env_info,
	.put = env_put,
	.get = env_get,
	.fence = env_fence,
	.abort = env_abort,
};

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
	       "that the others use; all, if no interface has that."),
	ZR_OPT(struct env_opts, token, ZR_T_PATH, 0, "", 0, 0, "",
	       "File whose first line is a secret that all ranks share, which nobody but its owner "
	       "may read. Without one, ZEROTH_TOKEN has it. Who does not know it cannot join."),
	ZR_OPT(struct env_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others to join ends the run, naming them."),
};

PLUGIN(boot, "env", &vtbl, .version = "1",
       .summary = "Ranks by environment variables: RANK, WORLD_SIZE, or those of SLURM, PMI or "
		  "Open MPI.",
       PLUGIN_OPTIONS(struct env_opts, opts), .create = env_create, .destroy = env_destroy);
