/* SPDX-License-Identifier: Apache-2.0
 *
 * probe.c - see probe.h.
 */
#include "train/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/share.h"

/* NFS may remember for 30 s that a directory was not there. */
#define PATIENCE 35.0 /* seconds */

struct place {
	char host[64], dir[PATH_MAX], name[64]; /* of the file in dir */
};

static void path_of(const struct place *p, char path[PATH_MAX + 65])
{
	snprintf(path, PATH_MAX + 65, "%s/%s", p->dir, p->name);
}

/* Of rank 0. */
static int make_file(const char *dir, struct place *p, struct zr_error *err)
{
	char path[PATH_MAX + 65];
	uint64_t random;

	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return zr_err(err, ZR_EIO, "getrandom: %s", strerror(errno));

	snprintf(p->dir, sizeof p->dir, "%s", dir);
	snprintf(p->name, sizeof p->name, ".probe-%016llx", (unsigned long long)random);
	path_of(p, path);
	int no = zr_file_new(AT_FDCWD, path, "", 0, 0);
	if (no)
		return zr_file_failed(err, path, "cannot write", no);
	return 0;
}

static void remove_file(const struct place *p)
{
	char path[PATH_MAX + 65];
	path_of(p, path);
	unlink(path);
}

static int64_t sees(const struct place *first, const char *host)
{
	char path[PATH_MAX + 65];
	const int near = !strcmp(first->host, host);
	const struct timespec nap = { .tv_nsec = 200000000 };
	const double until = zr_now() + (near ? 0 : PATIENCE);

	path_of(first, path);
	while (access(path, F_OK)) {
		if (zr_now() >= until)
			return 0;

		nanosleep(&nap, NULL);
	}

	return 1;
}

/* all: the places of all ranks, of which the first has a path. */
static int look(struct zr_session *s, const struct place *all, struct zr_error *blind,
		struct zr_error *err)
{
	const int32_t world = s->setup->facts.process.world;
	const int64_t mine = sees(&all[0], s->setup->facts.ranks.host);

	int64_t *each = calloc((size_t)world, sizeof *each);
	if (!each)
		return zr_no_memory(err);

	int rc = zr_gather_bytes(s, &mine, each, sizeof mine, err);
	int32_t r = 0;
	while (!rc && r < world && each[r])
		r++;
	if (!rc && r < world)
		zr_err(blind, ZR_EINVAL,
		       "rank %d on %.63s does not see %.500s of rank 0 on %.63s, "
		       "where checkpoints go: [run] dir, or [checkpoint] dir, must be on storage "
		       "that all ranks share",
		       r, all[r].host, all[0].dir, all[0].host);
	free(each);
	return rc;
}

/* Rank 0 puts a file of a random name into its directory `dir`, which counts on rank 0 alone, and
 * removes it when the others have looked for it: on other machines than rank 0's for up to 35
 * seconds. *blind: the lowest rank that does not see it, as a text that is the same on all ranks;
 * its code is 0 if all do. Collective. */
static int probe_dir(struct zr_session *s, const char *dir, struct zr_error *blind,
		     struct zr_error *err)
{
	const int32_t world = s->setup->facts.process.world;
	const int rank0 = s->setup->facts.process.rank == 0;
	struct place mine = { .name = "" };

	if (world == 1)
		return 0;

	snprintf(mine.host, sizeof mine.host, "%s", s->setup->facts.ranks.host);
	int rc = rank0 ? make_file(dir, &mine, err) : 0;
	if (rc)
		return rc;

	struct place *all = calloc((size_t)world, sizeof *all);
	if (all)
		rc = zr_gather_bytes(s, &mine, all, sizeof mine, err);
	else
		rc = zr_no_memory(err);
	if (!rc)
		rc = look(s, all, blind, err);
	free(all);
	if (rank0)
		remove_file(&mine);
	return rc;
}

int zr_probe_checkpoints(struct zr_session *s, struct zr_error *err)
{
	const struct zr_config *cfg = s->setup->cfg;
	const struct zr_checkpoint_opts *o = zr_config_find(cfg, "checkpoint")->opts;
	const int due = o->every || o->keep_best, rank0 = s->setup->facts.process.rank == 0;
	struct zr_error blind = { 0 };
	char dir[PATH_MAX] = "";
	int rc = 0;

	if (!due && !o->on_signal)
		return 0;

	if (rank0 && strcmp(o->dir, "auto"))
		rc = zr_checkpoint_dir(cfg, dir, err);
	else if (rank0) /* which checkpoints/ is made in when the first one is written */
		snprintf(dir, sizeof dir, "%s", zr_rundir(cfg));
	if (!rc)
		rc = probe_dir(s, dir, &blind, err);
	if (rc || !blind.code)
		return rc;

	if (due)
		return zr_err(err, ZR_EINVAL, "%s", blind.text);
	if (rank0)
		zr_logf(ZR_LOG_WARN, "checkpoint", "%s", blind.text);
	return 0;
}
