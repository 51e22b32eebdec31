/* SPDX-License-Identifier: Apache-2.0
 *
 * restart.c - see restart.h.
 */
#define _GNU_SOURCE
#include "train/run/restart.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "files/checkpoint/dir.h"
#include "train/beat.h"
#include "train/run/signals.h"
#include "train/run/supervise.h"

#define LONGEST_NAP 32 /* seconds, after five attempts that finished no step */

struct restarts {
	const struct zr_restart_how *how;
	struct zr_beat *beat;
	const char *resume; /* as the user gave it, or NULL */
	int given;          /* number of overrides that the user gave */
	int ranks;
	int vain; /* attempts in sequence that finished no step */
	char from[PATH_MAX + 32];
	char text[ZR_RESTART_OVERRIDES][PATH_MAX + 16];
};

/* With --min-ranks, the next lower number of ranks that divides the batch. */
static int next_ranks(const struct restarts *r)
{
	const struct zr_beat *b = r->beat;
	const int least = r->how->min_ranks;

	for (int n = r->ranks - 1; least && b->batch && n >= least; n--)
		if (b->batch % (b->micro * n) == 0)
			return n;
	return r->ranks;
}

static void override(struct restarts *r, const char *key, const char *value)
{
	int i = *r->how->n_overrides - r->given;
	snprintf(r->text[i], sizeof r->text[i], "%s=%s", key, value);
	r->how->overrides[(*r->how->n_overrides)++] = r->text[i];
}

/* Keeps the batch of a step, even if it was derived from the number of ranks. */
static void keep_batch(struct restarts *r)
{
	char number[32];

	if (!r->beat->batch)
		return;

	snprintf(number, sizeof number, "%lld", (long long)r->beat->batch);
	override(r, "train.train_batch_size", number);
	snprintf(number, sizeof number, "%lld", (long long)r->beat->micro);
	override(r, "train.micro_batch_size", number);
	override(r, "train.gradient_accumulation_steps", "auto");
}

/* Continues in the existing run directory, from its checkpoint if this run has saved one, else from
 * the start. */
static void go_on(struct restarts *r)
{
	const struct zr_beat *b = r->beat;
	const char **resume = r->how->resume;
	struct stat st;
	int there = *b->dir && !stat(b->dir, &st);

	*r->how->n_overrides = r->given;
	*resume = r->resume;
	if (there)
		override(r, "run.dir", b->dir);
	if (there && (atomic_load(&b->saved) || !r->resume))
		*resume = "auto";

	const int is_auto = *resume && !strcmp(*resume, "auto");
	int64_t step = -1;
	if (is_auto && *b->checkpoints)
		step = zr_ckpt_named(b->checkpoints, "latest");
	if (step >= 0)
		snprintf(r->from, sizeof r->from, "step %lld", (long long)step);
	else
		snprintf(r->from, sizeof r->from, "%s",
			 *resume && !is_auto ? *resume : "the beginning");

	r->ranks = next_ranks(r);
	keep_batch(r);
}

/* Whether it slept the whole time: a signal that ends the training may come meanwhile. */
static int nap(int seconds)
{
	struct timespec left = { seconds, 0 };
	sigset_t set, old;

	zr_signals_of_end(&set);
	sigprocmask(SIG_BLOCK, &set, &old);
	int sig = sigtimedwait(&set, NULL, &left);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return sig < 0;
}

static int nap_seconds(const struct restarts *r)
{
	return r->vain < 5 ? 1 << r->vain : LONGEST_NAP;
}

/* Called after attempt i ended. Returns whether there is another attempt. */
static int again(struct restarts *r, int i, const struct zr_crew_end *end)
{
	if (!end->died || i >= r->how->restarts)
		return 0;

	r->vain = atomic_load(&r->beat->steps) ? 0 : r->vain + 1;
	go_on(r);
	fprintf(stderr, "zeroth: restart %d of %d: %s; goes on from %s with %d rank%s in %d s\n",
		i + 1, r->how->restarts, end->text, r->from, r->ranks, r->ranks == 1 ? "" : "s",
		nap_seconds(r));
	return 1;
}

/* How a training goes on that a death ended, where there is a checkpoint of it. */
static void advise(const struct restarts *r)
{
	const struct zr_beat *b = r->beat;

	const int64_t step = *b->checkpoints ? zr_ckpt_named(b->checkpoints, "latest") : -1;
	if (step < 0 || !*b->dir)
		return;

	fprintf(stderr, "; -o run.dir=%s --resume auto goes on from step %lld", b->dir,
		(long long)step);
	if (!r->how->restarts)
		fputs(", --restarts N does so by itself", stderr);
}

int zr_restart_train(const struct zr_restart_how *how,
		     int (*rank_main)(int rank, void *arg, struct zr_error *why), void *arg)
{
	struct restarts r = { .how = how,
			      .beat = zr_beat_new(),
			      .resume = *how->resume,
			      .given = *how->n_overrides,
			      .ranks = how->ranks };
	struct zr_crew_end end;
	int code = 4;

	if (!r.beat) {
		fprintf(stderr, "zeroth: cannot start %d ranks: %s\n", how->ranks, strerror(errno));
		return 4;
	}

	for (int i = 0;; i++) {
		const struct zr_crew_how crew = { r.ranks, rank_main, arg, how->watchdog,
						  &r.beat->count };
		atomic_store(&r.beat->steps, 0);
		code = zr_supervise_crew(&crew, &end);
		if (!again(&r, i, &end))
			break;
		if (!nap(nap_seconds(&r)))
			return 130;
	}

	if (*end.text)
		fprintf(stderr, "zeroth: %s", end.text);
	if (*end.text && end.died)
		advise(&r);
	if (*end.text)
		putc('\n', stderr);
	zr_beat_free();
	return code;
}
