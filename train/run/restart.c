/* SPDX-License-Identifier: Apache-2.0
 *
 * restart.c - see restart.h.
 */
#include "train/run/restart.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "train/beat.h"
#include "train/run/signals.h"

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

/* With --min-ranks, the next lower number of ranks that divides the batch, among those for which
 * there is a machine. */
static int next_ranks(const struct restarts *r, int left)
{
	const struct zr_beat *b = r->beat;
	const int least = r->how->min_ranks;
	const int most = left < r->ranks ? left : r->ranks - 1;

	for (int n = most; least && b->batch && n >= least; n--)
		if (b->batch % b->micro == 0 && b->batch / b->micro % n == 0)
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
static void go_on(struct restarts *r, int left)
{
	const struct zr_beat *b = r->beat;
	const char **resume = r->how->resume;

	*r->how->n_overrides = r->given;
	*resume = r->resume;
	if (b->there)
		override(r, "run.dir", b->dir);
	if (b->there && (atomic_load(&b->saved) || !r->resume))
		*resume = "auto";

	const int is_auto = *resume && !strcmp(*resume, "auto");
	if (is_auto && b->latest >= 0)
		snprintf(r->from, sizeof r->from, "step %lld", (long long)b->latest);
	else
		snprintf(r->from, sizeof r->from, "%s",
			 *resume && !is_auto ? *resume : "the beginning");

	r->ranks = next_ranks(r, left);
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
	if (!end->died || end->interrupted || i >= r->how->restarts)
		return 0;

	r->vain = atomic_load(&r->beat->steps) ? 0 : r->vain + 1;
	go_on(r, end->left);
	fprintf(stderr, "zeroth: restart %d of %d: %s; goes on from %s with %d rank%s in %d s\n",
		i + 1, r->how->restarts, end->text, r->from, r->ranks, r->ranks == 1 ? "" : "s",
		nap_seconds(r));
	return 1;
}

/* How a training goes on that a death ended, where there is a checkpoint of it. */
static void advise(const struct restarts *r)
{
	const struct zr_beat *b = r->beat;

	if (b->latest < 0 || !*b->dir)
		return;

	fprintf(stderr, "; -o run.dir=%s --resume auto goes on from step %lld", b->dir,
		(long long)b->latest);
	if (!r->how->restarts)
		fputs(", --restarts N does so by itself", stderr);
}

int zr_restart_train(const struct zr_restart_how *how)
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

	r.beat->latest = -1;
	for (int i = 0;; i++) {
		atomic_store(&r.beat->steps, 0);
		code = how->attempt(r.ranks, how->arg, &end);
		if (!again(&r, i, &end))
			break;
		if (!nap(nap_seconds(&r)))
			return 130;
	}

	if (*end.text)
		fprintf(stderr, "zeroth: %s", end.text);
	if (*end.text && end.died && !end.interrupted)
		advise(&r);
	if (*end.text)
		putc('\n', stderr);
	zr_beat_free();
	return code;
}
