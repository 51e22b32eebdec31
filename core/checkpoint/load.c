/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - see checkpoint.h: a checkpoint of any world, stage and tier into a session of any other. Each rank opens the
 * files that have something it holds, reads the entries whole that overlap that, and checks them before it looks inside.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/checkpoint/checkpoint.h"
#include "core/log.h"
#include "core/piece.h"
#include "core/replay.h"

/* ---- what ranks tell each other ---- */

void zr_ckpt_say(struct zr_ckpt_word *w, const struct zr_error *e)
{
	w->code = e->code;
	snprintf(w->text, sizeof w->text, "%.990s", e->text);
}

int zr_ckpt_share(struct zr_session *s, const struct zr_ckpt_word *mine, struct zr_ckpt_word *words, const struct zr_ckpt_word **bad,
		  struct zr_error *err)
{
	struct zr_comm_seg seg = { .send = mine, .recv = words, .count = sizeof *mine / sizeof(int64_t) };
	zr_ticket ticket;
	int rc = 0;
	s->err = err;
	if (zr_alone(s))
		*words = *mine;
	else
		rc = zr_collective(s, ZR_COMM_ALL_GATHER, ZR_GROUP_WORLD, ZR_I64, &seg, 1, -1, -1, &ticket);
	if (!rc && !zr_alone(s))
		rc = zr_complete(s, ticket);
	*bad = NULL;
	for (int32_t r = s->setup->process.world - 1; !rc && r >= 0; r--)
		if (words[r].code)
			*bad = &words[r];
	return rc;
}

/* ---- one checkpoint ---- */

struct load {
	struct zr_session *s;
	struct zr_manifest here, saved;
	char path[PATH_MAX];
	float *losses;
	struct zr_ckpt_word *words;
};

/* Blocks [*lo, *hi) of an entry that this rank holds. */
static void held_of(const struct load *l, const struct zr_ckpt_entry *e, int64_t *lo, int64_t *hi)
{
	const struct zr_place *t = &l->here.layout.tensor[e->tensor];
	int64_t held, n, first = t->offset / ZR_BLOCK + e->first;
	zr_held(l->s, t->unit, &held, &n);
	*lo = held > first ? held - first : 0;
	*hi = held + n - first < e->blocks ? held + n - first : e->blocks;
}

/* An entry on its way from the file: a thread reads and checks the next one while this one goes to its place. */
struct reading {
	const struct zr_manifest *m;
	const struct zr_st *file;
	const struct zr_ckpt_entry *e;
	char *buf;     /* the entry, and the rest of its last block */
	uint64_t room;
	pthread_t thread;
	int threaded, rc;
	struct zr_error err;
};

static void *read_entry(void *arg)
{
	struct reading *r = arg;
	r->rc = zr_ckpt_read(r->m, r->file, r->e, r->buf, &r->err);
	return NULL;
}

static uint64_t room_of(const struct zr_ckpt_entry *e)
{
	uint64_t whole = (uint64_t)e->blocks * ZR_BLOCK * 4;
	return whole > e->bytes ? whole : e->bytes;
}

static void begin_reading(struct reading *r, const struct zr_manifest *m, const struct zr_st *file, const struct zr_ckpt_entry *e)
{
	uint64_t room = room_of(e);
	sigset_t all, old;
	r->m = m, r->file = file, r->e = e;
	r->rc = r->threaded = 0;
	if (room > r->room) {
		free(r->buf);
		r->buf = aligned_alloc(4096, (room + 4095) / 4096 * 4096);
		r->room = r->buf ? room : 0;
	}
	if (!r->buf) {
		r->rc = zr_err(&r->err, ZR_ENOMEM, "out of memory for an entry of %llu bytes", (unsigned long long)room);
		return;
	}
	sigfillset(&all); /* signals are the control thread's */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r->threaded = !pthread_create(&r->thread, NULL, read_entry, r);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!r->threaded)
		read_entry(r);
}

static int end_reading(struct reading *r, struct zr_error *err)
{
	if (r->threaded)
		pthread_join(r->thread, NULL);
	r->threaded = 0;
	return r->rc ? zr_err(err, r->rc, "%s", r->err.text) : 0;
}

/* The first entry from i on of which this rank holds something, or n. */
static int64_t needed(const struct load *l, const struct zr_ckpt_entry *e, int64_t i, int64_t n)
{
	int64_t lo = 0, hi = 1;
	for (; i < n && e[i].tensor >= 0; i++) {
		held_of(l, &e[i], &lo, &hi);
		if (lo < hi)
			break;
	}
	return i;
}

static int place_entry(struct load *l, const struct reading *r, struct zr_error *err)
{
	const struct zr_ckpt_entry *e = r->e;
	int64_t lo, hi;
	if (e->tensor < 0) {
		memcpy(l->losses, r->buf, e->bytes);
		return 0;
	}
	held_of(l, e, &lo, &hi);
	memset(r->buf + e->bytes, 0, room_of(e) - e->bytes);
	l->s->err = err;
	return zr_entry_put(l->s, e, lo, hi - lo, r->buf + zr_entry_offset(l->s, e, lo));
}

static int load_entries(struct load *l, const struct zr_st *file, const struct zr_ckpt_entry *e, int64_t n, struct zr_error *err)
{
	struct reading both[2] = { 0 };
	int64_t i = needed(l, e, 0, n);
	int rc = 0;
	if (i < n)
		begin_reading(&both[0], &l->saved, file, &e[i]);
	for (int turn = 0; !rc && i < n; turn = !turn) {
		rc = end_reading(&both[turn], err);
		i = needed(l, e, i + 1, n);
		if (!rc && i < n)
			begin_reading(&both[!turn], &l->saved, file, &e[i]);
		rc = rc ? rc : place_entry(l, &both[turn], err);
	}
	for (int k = 0; k < 2; k++) {
		end_reading(&both[k], NULL);
		free(both[k].buf);
	}
	return rc;
}

static int load_file(struct load *l, int32_t rank, struct zr_error *err)
{
	struct zr_st file;
	int64_t n;
	int rc = zr_ckpt_open(&l->saved, l->path, rank, &file, err);
	if (rc)
		return rc;
	struct zr_ckpt_entry *e = zr_entries(&l->saved, rank, &n);
	rc = e ? load_entries(l, &file, e, n, err) : zr_err(err, ZR_ENOMEM, "out of memory for the entries of a file");
	free(e);
	zr_st_close(&file);
	return rc;
}

/* Whether a rank's file has anything that this rank holds. */
static int concerns(const struct load *l, int32_t rank)
{
	if (l->saved.layout.n_units != l->here.layout.n_units) /* it was written when a unit could be frozen in part */
		return 1;
	for (int32_t u = 0; u < l->here.layout.n_units; u++) {
		int64_t first, n, held, count;
		zr_layout_shard(&l->saved.layout.unit[u], rank, l->saved.world, &first, &n);
		zr_held(l->s, u, &held, &count);
		if (n > 0 && count > 0 && first < held + count && held < first + n)
			return 1;
	}
	return rank == 0; /* it has the losses */
}

/* What this rank needs of a checkpoint. *refused: it may be whole, but training cannot go on from it. */
static int load_here(struct load *l, int *refused, struct zr_error *err)
{
	const struct zr_train_opts *t = l->s->setup->train;
	struct zr_error why = { 0 };
	int rc = zr_manifest_read(l->path, &l->saved, err);
	*refused = rc == ZR_ENOTSUP;
	if (rc)
		return rc;
	rc = zr_manifest_accepts(&l->here, &l->saved, 0, &why);
	if (!rc && l->saved.step > (int64_t)t->steps)
		rc = zr_err(&why, ZR_EINVAL, "it is at step %lld, and [train] steps = %lld", (long long)l->saved.step, (long long)t->steps);
	if (rc) {
		*refused = 1;
		return zr_err(err, rc, "%s: cannot go on from here: %s", l->path, why.text);
	}
	for (int32_t r = 0; !rc && r < l->saved.world; r++)
		if (concerns(l, r))
			rc = load_file(l, r, err);
	return rc;
}

static int take_over(struct load *l, struct zr_error *err)
{
	struct zr_session *s = l->s;
	s->step = l->saved.step;
	s->applied = l->saved.applied;
	s->scale = l->saved.scale;
	if (s->setup->process.rank == 0)
		zr_manifest_accepts(&l->here, &l->saved, 1, NULL);
	return zr_replay_publish(s, err);
}

/* Loads l->path on all ranks. *bad: the word of the first that could not. */
static int load_one(struct load *l, int *refused, const struct zr_ckpt_word **bad, struct zr_error *err)
{
	struct zr_ckpt_word mine = { 0 };
	struct zr_error why = { 0 };
	*refused = 0;
	if (load_here(l, refused, &why))
		zr_ckpt_say(&mine, &why);
	mine.done = *refused;
	int rc = zr_ckpt_share(l->s, &mine, l->words, bad, err);
	if (!rc && *bad)
		*refused = (int)(*bad)->done;
	if (!rc && !*bad)
		rc = take_over(l, err);
	zr_manifest_free(&l->saved);
	return rc;
}

/* ---- which one ---- */

/* The candidates in a directory, from the one that `latest` names down, then later ones: those belong to a training that
 * was left for an earlier checkpoint. Rank 0's view counts. */
static int64_t candidate(const int64_t *steps, int64_t n, int64_t latest, int64_t i)
{
	int64_t before = 0;
	while (before < n && (latest < 0 || steps[before] <= latest))
		before++;
	return i < before ? steps[before - 1 - i] : i < n ? steps[n - 1 - (i - before)] : -1;
}

static int agree(struct load *l, int64_t step, int64_t *agreed, struct zr_error *err)
{
	struct zr_ckpt_word mine = { .done = step };
	const struct zr_ckpt_word *bad;
	int rc = zr_ckpt_share(l->s, &mine, l->words, &bad, err);
	*agreed = l->words[0].done;
	return rc;
}

static void pass_over(const struct load *l, const struct zr_ckpt_word *bad)
{
	if (l->s->setup->process.rank == 0)
		zr_logf(ZR_LOG_WARN, "resume", "%s is not whole and is passed over: %s", l->path, bad->text);
}

static int load_newest(struct load *l, const char *dir, int64_t *step, struct zr_error *err)
{
	int64_t n, latest = zr_ckpt_latest(dir), *steps = zr_ckpt_steps(dir, &n);
	int rc = 0, refused = 0;
	const struct zr_ckpt_word *bad;
	struct zr_ckpt_word last = { 0 };
	for (int64_t i = 0; !rc; i++) {
		rc = agree(l, candidate(steps, n, latest, i), step, err);
		if (rc || *step < 0)
			break;
		rc = zr_ckpt_path(dir, *step, 0, l->path, err);
		if (!rc)
			rc = load_one(l, &refused, &bad, err);
		if (rc || !bad)
			break;
		last = *bad;
		if (refused)
			rc = zr_err(err, (int)last.code, "%s", last.text);
		else
			pass_over(l, bad);
	}
	free(steps);
	if (!rc && *step < 0 && last.code)
		rc = zr_err(err, ZR_EINVAL, "%s: none of its checkpoints is whole; the last reason: %s", dir, last.text);
	return rc;
}

static int load_exactly(struct load *l, const char *path, int64_t *step, struct zr_error *err)
{
	const struct zr_ckpt_word *bad;
	int refused;
	snprintf(l->path, sizeof l->path, "%s", path);
	int rc = load_one(l, &refused, &bad, err);
	*step = l->s->step;
	return rc || !bad ? rc : zr_err(err, (int)bad->code, "%s", bad->text);
}

static int is_checkpoint(const char *path)
{
	char file[PATH_MAX + 16];
	struct stat st;
	snprintf(file, sizeof file, "%s/manifest.json", path);
	return !stat(file, &st);
}

int zr_checkpoint_load(struct zr_session *s, const char *path, float *losses, int64_t *step, struct zr_error *err)
{
	struct load l = { .s = s, .losses = losses };
	int rc = zr_describe_session(s, &l.here, err);
	if (!rc && !(l.words = calloc((size_t)s->setup->process.world, sizeof *l.words)))
		rc = zr_err(err, ZR_ENOMEM, "out of memory");
	*step = -1;
	if (!rc)
		rc = is_checkpoint(path) ? load_exactly(&l, path, step, err) : load_newest(&l, path, step, err);
	free(l.words);
	zr_undescribe(&l.here);
	return rc;
}
