/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - see checkpoint.h: a checkpoint of any world, stage and tier into a session of any other.
 * Each rank opens the files that have something it holds, reads the entries whole that overlap
 * that, and checks them before it looks inside.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/numbers.h"
#include "core/exec/exec.h"
#include "core/memory/subgroup.h"
#include "core/persistent.h"
#include "files/checkpoint/checkpoint.h"
#include "files/checkpoint/reader.h"

void (*zr_renamed_settings)(json_t *saved, const json_t *here);

/* ---- what ranks tell each other ---- */

void zr_ckpt_say(struct zr_ckpt_word *w, const struct zr_error *e)
{
	w->code = e->code;
	snprintf(w->text, sizeof w->text, "%.990s", e->text);
}

int zr_ckpt_share(struct zr_session *s, const struct zr_ckpt_word *mine, struct zr_ckpt_word *words,
		  const struct zr_ckpt_word **bad, struct zr_error *err)
{
	struct zr_comm_seg seg = { .send = mine,
				   .recv = words,
				   .count = sizeof *mine / sizeof(int64_t) };
	struct zr_comm_op o = { .size = sizeof o,
				.kind = ZR_COMM_ALL_GATHER,
				.group = ZR_GROUP_WORLD,
				.dtype = ZR_I64,
				.n_seg = 1,
				.seg = &seg,
				.tag = { .step = s->step + 1, .op = -1, .unit = -1 } };

	*words = *mine;
	int rc = 0;
	if (s->setup->facts.process.world != 1)
		rc = zr_comm_run(s, &o, err);
	*bad = NULL;
	for (int32_t r = s->setup->facts.process.world - 1; !rc && r >= 0; r--)
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
	struct zr_best *best;
	struct zr_ckpt_word *words;
	struct zr_reader *reader;
	uint32_t told; /* states that people know to be converted, as bits */
};

/* Blocks [*lo, *hi) of an entry that this rank holds. */
static void held_of(const struct load *l, const struct zr_ckpt_entry *e, int64_t *lo, int64_t *hi)
{
	const struct zr_place *t = &l->here.layout.tensor[e->tensor];
	const struct zr_share *held = &l->s->setup->plan.unit[t->unit].held;
	*lo = held->first - t->offset / ZR_BLOCK - e->first;
	*hi = *lo + held->n;
	zr_intersect(0, e->blocks, lo, hi);
}

static int is_other(const struct zr_ckpt_optimizer *here, const struct zr_ckpt_optimizer *saved,
		    int32_t i)
{
	return here->state_version != saved->state_version ||
	       here->state[i].dtype != saved->state[i].dtype ||
	       here->state[i].block_bytes != saved->state[i].block_bytes;
}

/* Says once that a state is kept in another type than it was. */
static void tell_conversion(struct load *l, const char *optimizer, uint32_t bit, int32_t was,
			    const struct zr_state *is)
{
	int32_t now = is->dtype ? is->dtype : ZR_U8;

	if (!(l->told & bit) && l->s->setup->facts.process.rank == 0)
		zr_logf(ZR_LOG_WARN, "resume",
			"state %s of optimizer %s was kept in %s and is converted to %s", is->name,
			optimizer, zr_dtype_find(was, NULL)->name, zr_dtype_find(now, NULL)->name);
	l->told |= bit;
}

/* Blocks [from, end) of an entry whose state was of another version or type. */
static int convert_entry(struct load *l, const struct zr_ckpt_entry *e, int64_t from, int64_t end,
			 char *data, struct zr_error *err)
{
	const struct zr_ckpt_optimizer *was = &l->saved.optimizer[l->saved.optimizer_of[e->tensor]];
	const struct zr_ckpt_state *st = &was->state[e->state];
	struct zr_optimizer *o =
		&l->s->setup->roles.optimizer[zr_optimizer_of(&l->s->setup->roles, e->tensor)];
	const struct zr_optimizer_v1 *v = o->it.vtbl;
	const struct zr_state *is = zr_optimizer_state(o, (uint32_t)e->state);
	struct zr_buf old[ZR_STATES_MAX] = { 0 }, now[ZR_STATES_MAX] = { 0 };
	int rc = 0;

	const struct zr_tensor *t = l->here.layout.tensor[e->tensor].decl;
	char *to = malloc(ZR_CHUNK * (size_t)zr_state_bytes_of(o, (uint32_t)e->state, t) + 1);
	if (!to)
		return zr_err(err, ZR_ENOMEM, "out of memory for states of another type");

	tell_conversion(l, was->id, 1u << (o->first_state + (uint32_t)e->state), st->dtype, is);
	for (int64_t at = from, n; !rc && at < end; at += n) {
		n = end - at;
		if (n > ZR_CHUNK)
			n = ZR_CHUNK;
		old[e->state] =
			(struct zr_buf){ data + zr_ckpt_state_bytes(&l->saved, e->tensor, e->state,
								    at, at * ZR_BLOCK),
					 (uint64_t)(n * ZR_BLOCK),
					 st->dtype == ZR_U8 ? 0 : st->dtype, ZR_MEM_HOST };
		now[e->state] =
			(struct zr_buf){ to, (uint64_t)(n * ZR_BLOCK), is->dtype, ZR_MEM_HOST };
		rc = v->upgrade(o->it.inst, was->state_version, old, o->n_states, now);
		rc = zr_instance_failed(&o->it, rc, "upgrade", err);
		if (!rc)
			rc = zr_entry_put(l->s, e, at, n, to, err);
	}

	free(to);
	return rc;
}

/* What every rank has: the losses or the persistent numbers. */
static int place_for_all(const struct load *l, const struct zr_ckpt_entry *e, const void *data,
			 struct zr_error *err)
{
	if (e->tensor == ZR_ENTRY_LOSSES) {
		memcpy(l->losses, data, e->bytes);
		return 0;
	}

	memcpy(zr_persistent_at(l->s), data, e->bytes);
	return zr_persistent_publish(l->s, err);
}

static int place_entry(void *arg, const struct zr_ckpt_entry *e, void *data, struct zr_error *err)
{
	struct load *l = arg;
	int64_t lo, hi;

	if (e->tensor < 0)
		return place_for_all(l, e, data, err);

	held_of(l, e, &lo, &hi);
	if (e->state >= 0 &&
	    is_other(&l->here.optimizer[l->here.optimizer_of[e->tensor]],
		     &l->saved.optimizer[l->saved.optimizer_of[e->tensor]], e->state))
		return convert_entry(l, e, lo, hi, data, err);

	return zr_entry_put(l->s, e, lo, hi - lo, (char *)data + zr_entry_offset(l->s, e, lo), err);
}

/* Leaves the entries of which this rank holds something; the losses and the persistent numbers are
 * everyone's. Returns how many there are. */
static int64_t keep_needed(const struct load *l, struct zr_ckpt_entry *e, int64_t n)
{
	int64_t lo = 0, hi = 1, kept = 0;

	for (int64_t i = 0; i < n; i++) {
		if (e[i].tensor >= 0)
			held_of(l, &e[i], &lo, &hi);
		if (e[i].tensor < 0 || lo < hi)
			e[kept++] = e[i];
	}

	return kept;
}

/* A rank's file, if it has anything that this rank holds. */
static int load_file(struct load *l, int32_t rank, struct zr_error *err)
{
	struct zr_st file;
	int64_t n;
	struct zr_ckpt_entry *e = zr_entries(&l->saved, rank, &n);
	int rc = 0;

	if (!e)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the entries of a file");
	if (!rc && (n = keep_needed(l, e, n))) {
		rc = zr_ckpt_open(&l->saved, l->path, rank, &file, err);
		if (!rc) {
			rc = zr_reader_run(l->reader, &l->saved, &file, e, n, place_entry, l, err);
			zr_st_close(&file);
		}
	}

	free(e);
	return rc;
}

/* What this rank needs of a checkpoint. *refused: it may be whole, but training cannot go on from
 * it. */
static int load_here(struct load *l, int *refused, struct zr_error *err)
{
	const struct zr_train_opts *t = l->s->setup->facts.train;
	struct zr_error why = { 0 };
	int rc = zr_manifest_read(l->path, &l->saved, err);

	*refused = rc == ZR_ENOTSUP || rc == ZR_ENOMEM;
	if (rc)
		return rc;
	if (zr_renamed_settings)
		zr_renamed_settings(l->saved.settings, l->here.settings);
	rc = zr_manifest_accepts(&l->here, &l->saved, 0, &why);
	if (!rc && l->saved.step > (int64_t)t->steps)
		rc = zr_err(&why, ZR_EINVAL, "it is at step %lld, and [train] steps = %lld",
			    (long long)l->saved.step, (long long)t->steps);
	if (rc) {
		*refused = 1;
		return zr_err(err, rc, "%s: cannot go on from here: %s", l->path, why.text);
	}

	for (int32_t r = 0; !rc && r < l->saved.world; r++)
		rc = load_file(l, r, err);
	*refused = rc == ZR_ENOMEM || rc == ZR_ENOTSUP; /* the checkpoint may be whole */
	return rc;
}

/* Scalars of the run of an optimizer, as the checkpoint has them of its tensors. */
static const double *run_of(const struct load *l, int32_t optimizer)
{
	for (int32_t i = 0; i < l->here.layout.n_tensors; i++)
		if (l->here.optimizer_of[i] == optimizer)
			return l->saved.optimizer[l->saved.optimizer_of[i]].run;
	return l->here.optimizer[optimizer].run;
}

static int take_over(struct load *l, struct zr_error *err)
{
	struct zr_session *s = l->s;

	s->step = l->saved.step;
	s->applied = l->saved.applied;
	s->scale = l->saved.scale;
	*l->best = l->saved.best;
	for (int32_t k = 0; k < l->here.n_optimizers; k++)
		if (l->here.optimizer[k].n_run)
			zr_run_set(s, k, run_of(l, k));
	if (s->setup->facts.process.rank == 0)
		zr_manifest_accepts(&l->here, &l->saved, 1, NULL);

	return zr_run_program(s, ZR_S_VALUES, err);
}

/* Loads l->path on all ranks. *bad: the word of the first that could not. */
static int load_one(struct load *l, int *refused, const struct zr_ckpt_word **bad,
		    struct zr_error *err)
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

/* The candidates in a directory, from the one that `latest` names down, then later ones: those
 * belong to a training that was left for an earlier checkpoint. Rank 0's view counts. */
static int64_t candidate(const int64_t *steps, int64_t n, int64_t latest, int64_t i)
{
	int64_t before = 0;
	if (n < 0)
		return n - 1; /* -errno, and never -1 */

	while (before < n && (latest < 0 || steps[before] <= latest))
		before++;
	if (i < before)
		return steps[before - 1 - i];
	if (i < n)
		return steps[n - 1 - (i - before)];

	return -1;
}

static int agree(struct load *l, int64_t step, int64_t *agreed, struct zr_error *err)
{
	struct zr_ckpt_word mine = { .done = step };
	const struct zr_ckpt_word *bad;
	int rc = zr_ckpt_share(l->s, &mine, l->words, &bad, err);

	*agreed = l->words[0].done;
	if (rc || *agreed >= -1)
		return rc;

	return zr_err(err, ZR_EIO, "%s: rank 0 cannot read the directory: %s", l->path,
		      strerror((int)(-1 - *agreed)));
}

static int load_newest(struct load *l, const char *dir, int64_t *step, struct zr_error *err)
{
	int64_t n, latest = zr_ckpt_named(dir, "latest"), *steps = zr_ckpt_steps(dir, 0, &n);
	int rc = 0, refused = 0;
	const struct zr_ckpt_word *bad;
	struct zr_ckpt_word last = { 0 };

	snprintf(l->path, sizeof l->path, "%s", dir);
	if (n > 0 && candidate(steps, n, latest, 0) != latest &&
	    l->s->setup->facts.process.rank == 0)
		zr_logf(ZR_LOG_WARN, "resume",
			"%s/latest names no checkpoint: the newest whole one is taken", dir);
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
		else if (l->s->setup->facts.process.rank == 0)
			zr_logf(ZR_LOG_WARN, "resume", "%s is not whole and is passed over: %s",
				l->path, bad->text);
	}

	free(steps);
	if (!rc && *step < 0 && last.code)
		rc = zr_err(err, ZR_EINVAL,
			    "%s: none of its checkpoints is whole; the last reason: %s", dir,
			    last.text);

	return rc;
}

static int load_exactly(struct load *l, const char *path, int64_t *step, struct zr_error *err)
{
	const struct zr_ckpt_word *bad;
	int refused;

	snprintf(l->path, sizeof l->path, "%s", path);
	int rc = load_one(l, &refused, &bad, err);
	*step = l->s->step;
	if (rc || !bad)
		return rc;

	return zr_err(err, (int)bad->code, "%s", bad->text);
}

/* Whether the ranks of a node read the same entries. */
static int held_by_all(const struct zr_session *s)
{
	int all = 0;
	for (int32_t u = 0; u < s->setup->facts.layout.n_units; u++)
		all |= s->setup->facts.groups[u].state == ZR_GROUP_SELF;
	return all && zr_group_ranks(&s->setup->facts, ZR_GROUP_NODE) > 1;
}

int zr_checkpoint_load(struct zr_session *s, const char *path, float *losses, struct zr_best *best,
		       int64_t *step, struct zr_error *err)
{
	struct load l = { .s = s, .losses = losses, .best = best };
	char file[PATH_MAX + 16];
	int rc = zr_describe_session(s, &l.here, err);

	l.reader = zr_reader_new(held_by_all(s));
	if (!rc && (!l.reader ||
		    !(l.words = calloc((size_t)s->setup->facts.process.world, sizeof *l.words))))
		rc = zr_no_memory(err);
	*step = -1;
	snprintf(file, sizeof file, "%s/manifest.json", path);
	if (!rc) {
		if (access(file, F_OK))
			rc = load_newest(&l, path, step, err);
		else
			rc = load_exactly(&l, path, step, err);
	}

	free(l.words);
	zr_reader_free(l.reader);
	zr_manifest_free(&l.here);
	return rc;
}
