/* SPDX-License-Identifier: Apache-2.0
 *
 * save.c - see checkpoint.h. A save goes through these phases, and all ranks enter each together:
 *
 *   begin    rank 0 checks the space and makes the directory; then every rank opens its file
 *   WRITE    the files are written and read back, by a thread or by this one
 *   COMMIT   rank 0 writes the manifest, reads it back, gives the directory its name and prunes, or
 *            removes it if a rank failed
 *
 * The words that ranks exchange at the end of WRITE and COMMIT say whether all are done, and what
 * failed.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/pool.h"
#include "files/checkpoint/writer.h"

enum { IDLE, WRITE, COMMIT };

struct zr_saver {
	struct zr_session *s;
	const struct zr_checkpoint_opts *o;
	char dir[PATH_MAX];
	int overlap; /* a thread may write */
	struct zr_saver_stats stats;
	struct zr_ckpt_word *words;

	/* of the save that goes on */
	int phase;
	struct zr_manifest m;
	char tmp[PATH_MAX]; /* its directory while it is written */
	struct zr_ckpt_writer *writer;
	struct zr_ckpt_word mine;     /* result of the phase's job on this rank */
	int lock;                     /* on the directory, rank 0 */
	int whole;                    /* no rank failed to write */
	double start, stall, entered; /* entered: when training came here last */
	pthread_t thread;
	int running, ended; /* a thread was started; under `mutex`: its job is done */
	pthread_mutex_t mutex;
};

static int is_rank_0(const struct zr_saver *v)
{
	return v->s->setup->facts.process.rank == 0;
}

/* ---- jobs: by a thread, or at once ---- */

static void commit_job(struct zr_saver *v)
{
	struct zr_error err = { 0 };

	if (!is_rank_0(v))
		return;
	if (!v->whole || zr_ckpt_commit(v->dir, &v->m, v->o->keep_best, &err))
		zr_ckpt_abandon(v->dir, v->m.step);
	else if (zr_ckpt_prune(v->dir, v->m.step, (int64_t)v->o->keep, NULL, &err))
		zr_logf(ZR_LOG_WARN, "checkpoint", "%s", err.text);
	if (err.code && v->whole)
		zr_ckpt_say(&v->mine, &err);
	zr_ckpt_close(v->lock);
	v->lock = -1;
}

static void do_job(struct zr_saver *v)
{
	if (v->phase == WRITE)
		zr_writer_run(v->writer);
	else
		commit_job(v);
}

static void *thread_main(void *arg)
{
	struct zr_saver *v = arg;

	do_job(v);
	pthread_mutex_lock(&v->mutex);
	v->ended = 1;
	pthread_mutex_unlock(&v->mutex);
	return NULL;
}

static void start_job(struct zr_saver *v, int phase)
{
	sigset_t old;

	v->phase = phase;
	v->mine = (struct zr_ckpt_word){ 0 };
	v->ended = 0;
	zr_pool_mask(&old);
	v->running = v->overlap && (phase == WRITE || is_rank_0(v)) &&
		     !pthread_create(&v->thread, NULL, thread_main, v);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!v->running)
		do_job(v);
}

static int is_done(struct zr_saver *v)
{
	pthread_mutex_lock(&v->mutex);
	int done = !v->running || v->ended;
	pthread_mutex_unlock(&v->mutex);
	return done;
}

static void join_job(struct zr_saver *v)
{
	if (v->running)
		pthread_join(v->thread, NULL);
	v->running = 0;
	if (v->writer)
		zr_writer_close(v->writer, &v->mine);
	v->writer = NULL;
}

/* The update is about to change a sub-group. */
static void before_update(void *arg, const struct zr_subgroup *p)
{
	struct zr_saver *v = arg;
	if (v->writer)
		v->stall += zr_writer_before_update(v->writer, p);
}

/* ---- phases ---- */

/* Data of all files, which are as one file of one rank, and more than their headers can be. */
static uint64_t bytes_of_all(struct zr_manifest m)
{
	uint64_t headers = (uint64_t)m.world << 14, sum = 0;
	int64_t n;

	m.world = 1;
	struct zr_ckpt_entry *e = zr_entries(&m, 0, &n);
	if (e && n)
		sum = e[n - 1].at + e[n - 1].bytes;
	free(e);
	return sum + sum / 1000 + headers;
}

static int check_space(const struct zr_saver *v, struct zr_error *err)
{
	struct statvfs fs;
	uint64_t need = bytes_of_all(v->m), have;

	if (statvfs(v->dir, &fs))
		return zr_err(err, ZR_EIO, "%s: %s", v->dir, strerror(errno));

	have = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (need <= have)
		return 0;

	return zr_err(err, ZR_EIO,
		      "%s: a checkpoint needs %.1f MiB, the disk has %.1f MiB left: "
		      "make room, lower [checkpoint] keep or choose another dir",
		      v->dir, (double)need / 0x1p20, (double)have / 0x1p20);
}

/* Training has waited since it came here. */
static void count_stall(struct zr_saver *v)
{
	double now = zr_now();
	v->stall += now - v->entered;
	v->entered = now;
}

static void note_failure(struct zr_saver *v, int32_t rank, const char *why)
{
	v->stats.failed++;
	snprintf(v->stats.why, sizeof v->stats.why, "%.*s", (int)sizeof v->stats.why - 1, why);
	if (is_rank_0(v))
		zr_logf(ZR_LOG_ERROR, "checkpoint",
			"step %lld is not saved: rank %d: %s; training goes on",
			(long long)v->m.step, rank, why);
}

static void note_success(struct zr_saver *v)
{
	const double seconds = v->entered - v->start; /* both end at the same time */

	v->stats.saved++;
	v->stats.last = v->m.step;
	v->stats.bytes = zr_ckpt_bytes(&v->m);
	v->stats.seconds += seconds;
	v->stats.stall += v->stall;
	if (is_rank_0(v))
		zr_logf(ZR_LOG_INFO, "checkpoint",
			"step %lld saved in %.3f s, of which training "
			"waited %.3f s: %.1f MiB in %s/step-%08lld",
			(long long)v->m.step, seconds, v->stall, (double)v->stats.bytes / 0x1p20,
			v->dir, (long long)v->m.step);
}

static void end_save(struct zr_saver *v)
{
	v->phase = IDLE;
	v->s->before_update = NULL;
	zr_manifest_free(&v->m);
}

/* Every rank has a file of which all know size and hash, or one says why not. */
static void end_write(struct zr_saver *v, const struct zr_ckpt_word *bad)
{
	v->whole = !bad;
	for (int32_t r = 0; r < v->m.world; r++)
		v->m.file[r] = (struct zr_ckpt_file){ (uint64_t)v->words[r].bytes,
						      (uint64_t)v->words[r].hash };
	if (bad)
		note_failure(v, (int32_t)(bad - v->words), bad->text);
	v->s->before_update = NULL;
	start_job(v, COMMIT);
}

static void end_commit(struct zr_saver *v, const struct zr_ckpt_word *bad)
{
	count_stall(v);
	if (bad)
		note_failure(v, (int32_t)(bad - v->words), bad->text);
	else if (v->whole)
		note_success(v);
	end_save(v);
}

/* One exchange: whether all ranks have done the job of this phase. */
static int advance(struct zr_saver *v, struct zr_error *err)
{
	const struct zr_ckpt_word *bad;
	struct zr_ckpt_word unfinished = { 0 };
	int done = is_done(v), all = 1;
	if (done) {
		join_job(v);
		v->mine.done = 1;
	}

	int rc = zr_ckpt_share(v->s, done ? &v->mine : &unfinished, v->words, &bad, err);
	for (int32_t r = 0; !rc && r < v->s->setup->facts.process.world; r++)
		all &= (int)v->words[r].done;
	if (rc || !all)
		return rc;
	if (v->phase == WRITE)
		end_write(v, bad);
	else
		end_commit(v, bad);

	return 0;
}

int zr_saver_poll(struct zr_saver *v, struct zr_error *err)
{
	v->entered = zr_now();
	int rc = 0;
	if (v->phase != IDLE)
		rc = advance(v, err);
	count_stall(v);
	return rc;
}

int zr_saver_finish(struct zr_saver *v, struct zr_error *err)
{
	int rc = 0;

	v->entered = zr_now();
	while (!rc && v->phase != IDLE) {
		join_job(v);
		rc = advance(v, err);
	}

	return rc;
}

/* ---- begin ---- */

/* Rank 0, before the others may open their files. */
static int prepare(struct zr_saver *v, struct zr_error *err)
{
	int rc = zr_ckpt_begin(v->dir, v->m.step, &v->lock, err);
	if (rc || !(rc = check_space(v, err)))
		return rc;

	zr_ckpt_abandon(v->dir, v->m.step);
	close(v->lock);
	v->lock = -1;
	return rc;
}

/* A rank that cannot open its file has nothing to do but to say so. */
static void begin_write(struct zr_saver *v, const float *losses)
{
	struct zr_error err = { 0 };
	int rc = zr_ckpt_path(v->dir, v->m.step, 1, v->tmp, &err);
	if (!rc)
		rc = zr_writer_open(v->s, &v->m, v->tmp, losses, &v->writer, &err);
	if (!rc) {
		if (v->overlap) {
			v->s->before_update = before_update;
			v->s->before_update_arg = v;
		}

		start_job(v, WRITE);
		return;
	}

	v->phase = WRITE;
	v->mine = (struct zr_ckpt_word){ 0 };
	zr_ckpt_say(&v->mine, &err);
}

/* Whether the ranks may save: they have the same, and rank 0 can make the directory. *bad: the
 * first rank that cannot. */
static int agree_to_save(struct zr_saver *v, const struct zr_ckpt_word **bad, struct zr_error *err)
{
	struct zr_ckpt_word mine = { 0 };
	struct zr_error why = { 0 };
	int rc = zr_replicas_compare(v->s, v->words, bad, err);
	if (rc || *bad)
		return rc;

	if (is_rank_0(v) && prepare(v, &why))
		zr_ckpt_say(&mine, &why);
	return zr_ckpt_share(v->s, &mine, v->words, bad, err);
}

int zr_saver_save(struct zr_saver *v, const float *losses, const struct zr_best *best,
		  struct zr_error *err)
{
	const struct zr_ckpt_word *bad = NULL;
	int rc = zr_settle(v->s, err); /* what failed there is not this save's */

	if (!rc)
		rc = zr_saver_finish(v, err);
	if (rc)
		return rc;

	v->start = v->entered = zr_now();
	v->stall = 0;
	rc = zr_describe_session(v->s, &v->m, err);
	v->m.best = *best;
	if (!rc && !(v->m.file = calloc((size_t)v->m.world, sizeof *v->m.file)))
		rc = zr_err(err, ZR_ENOMEM, "out of memory for a manifest");
	if (!rc)
		rc = agree_to_save(v, &bad, err);
	if (!rc && bad)
		note_failure(v, (int32_t)(bad - v->words), bad->text);
	if (rc || bad) {
		end_save(v);
		return rc;
	}

	begin_write(v, losses);
	count_stall(v);
	if (!v->overlap)
		rc = zr_saver_finish(v, err);
	count_stall(v);
	return rc;
}

/* ---- opening and closing ---- */

/* Rank 0's path, in as many words as it takes. */
static int share_path(struct zr_saver *v, const char *dir, struct zr_error *err)
{
	const struct zr_ckpt_word *bad;
	const size_t part = sizeof bad->text - 1;
	int rc = 0;

	for (size_t at = 0; !rc && at + part < sizeof v->dir; at += part) {
		struct zr_ckpt_word mine = { 0 };
		if (is_rank_0(v) && at < strlen(dir))
			snprintf(mine.text, sizeof mine.text, "%.*s", (int)part, dir + at);
		rc = zr_ckpt_share(v->s, &mine, v->words, &bad, err);
		memcpy(v->dir + at, v->words[0].text, part);
	}

	return rc;
}

int zr_saver_open(struct zr_session *s, const char *dir, const struct zr_checkpoint_opts *o,
		  struct zr_saver **out, struct zr_error *err)
{
	struct zr_saver *v = calloc(1, sizeof *v);
	if (!v || !(v->words = calloc((size_t)s->setup->facts.process.world, sizeof *v->words))) {
		free(v);
		return zr_no_memory(err);
	}

	v->s = s;
	v->o = o;
	v->lock = -1;
	v->stats.last = -1;
	v->overlap = o->async && zr_entries_visible(s);
	pthread_mutex_init(&v->mutex, NULL);
	int rc = share_path(v, dir, err);
	if (rc) {
		zr_saver_close(v);
		return rc;
	}

	if (o->async && !v->overlap && is_rank_0(v))
		zr_logf(ZR_LOG_INFO, "checkpoint",
			"async = yes: saves wait all the same, because "
			"state lies where the host cannot address it");
	*out = v;
	return 0;
}

const struct zr_saver_stats *zr_saver_stats_of(const struct zr_saver *v)
{
	return &v->stats;
}

void zr_saver_close(struct zr_saver *v)
{
	if (!v)
		return;
	if (v->writer)
		zr_writer_stop(v->writer);
	join_job(v);
	if (v->phase != IDLE) {
		if (is_rank_0(v))
			zr_ckpt_abandon(v->dir, v->m.step);
		end_save(v);
	}

	zr_ckpt_close(v->lock);
	pthread_mutex_destroy(&v->mutex);
	free(v->words);
	free(v);
}
