/* SPDX-License-Identifier: Apache-2.0
 *
 * search.c - see trial.h: which stage, tiers, micro-batch, recomputation and states fit the
 * memories, and which of them is fastest. The batch of a step stays what CONF says. Updates in the
 * backward are tried, too: where CONF clips gradients they train something else, so that is said
 * apart, with what clipping costs. Where nothing fits, adapters are tried, on the model as it is
 * and on one in 4 bits: they train something else as well.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/plan/trial.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "train/fit.h"
#include "train/forecast/print.h"

#define MICROS 7 /* 1, 2, 4, ... 64 */
#define WORD   64

static const char *const recompute[] = { "activation.plugin=keep", "activation.plugin=recompute" };
static const char *const states[] = { "optimizer.states=fp32", "optimizer.states=8bit" };
static const char *const adapters[][3] = {
	{ NULL },
	{ "adapter.plugin=lora", NULL },
	{ "adapter.plugin=lora", "model.store=nf4", NULL },
};

/* The fastest that fits. */
struct fastest {
	int fit; /* how many do */
	struct zr_trial best;
	char word[2][WORD]; /* what its sets point to */
};

struct search {
	const struct zr_plan_args *a;
	struct zr_rate_source *rates;
	struct zr_error *err;
	int ranks, separate, narrow;
	int64_t sequences; /* of a step */
	char memory[WORD]; /* "device.memory=N" as --device says */
	int planned;
	int clips;
	struct fastest same;      /* of those that train what CONF says */
	struct fastest unclipped; /* of those that do not clip gradients as it does */
};

/* What one trial sets beside stage and tiers. */
struct choice {
	int micro, again, narrow, adapter, early;
};

/* What a row of stage and tiers comes to. */
struct row {
	int fits;
	double seconds;
	char why[512]; /* of the least that does not fit */
	double over;   /* by which part of the memory */
};

static double lack(const char *what, uint64_t need, uint64_t have, char *why, size_t size,
		   double least)
{
	char a[32], b[32];

	double over = have ? (double)need / (double)have : 0;
	if (over > 1 && over > least)
		snprintf(why, size, "needs %s of %s %s", zr_bytes_text(need, a),
			 zr_bytes_text(have, b), what);
	return over > least ? over : least;
}

/* By how much the fullest memory is over; at most 1: it fits. */
static double over(const struct search *s, const struct zr_trial *t, char *why, size_t size)
{
	uint64_t host = s->a->host ? s->a->host : zr_memory_at_start();
	double most =
		lack("device memory", t->device, t->separate ? s->a->device : 0, why, size, 0);
	most = lack("host memory", t->machine, host, why, size, most);
	return lack("disk", t->disk * (uint64_t)s->ranks, s->a->disk, why, size, most);
}

/* Of what fits, the faster one. */
static void keep(struct fastest *f, const struct zr_trial *t, const char word[2][WORD])
{
	f->fit++;
	if (f->best.forecast && f->best.f.seconds <= t->f.seconds)
		return;

	f->best = *t;
	memcpy(f->word, word, sizeof f->word);
	for (int i = 0; i < ZR_TRIAL_SETS && t->set[i]; i++)
		for (int k = 0; k < 2; k++)
			if (t->set[i] == word[k])
				f->best.set[i] = f->word[k];
}

static void note_row(struct row *r, const struct zr_trial *t, double by, const char *why)
{
	if (by <= 1) {
		if (!r->fits || t->f.seconds < r->seconds)
			r->seconds = t->f.seconds;
		r->fits = 1;
	} else if (!r->fits && (!(r->over > 0) || by < r->over)) {
		r->over = by;
		snprintf(r->why, sizeof r->why, "%s", why);
	}
}

/* With more memory than there is a device may add up micro-batches which it has no room for: then
 * the plan is made again with what there is. */
static int run_trial(const struct search *s, struct zr_trial *t)
{
	struct zr_trial first = *t;

	int rc = zr_trial_run(s->a, s->rates, t, s->err);
	if (rc || !s->a->device || !t->device_sums || t->device <= s->a->device)
		return rc;

	*t = first;
	t->set[0] = s->memory; /* in place of 1T */
	return zr_trial_run(s->a, s->rates, t, s->err);
}

static void set_choice(const struct search *s, struct zr_trial *t, const struct choice *c,
		       char word[2][WORD])
{
	snprintf(word[0], WORD, "train.train_batch_size=%lld", (long long)s->sequences);
	snprintf(word[1], WORD, "train.micro_batch_size=%d", c->micro);
	zr_trial_set(t, word[0]);
	zr_trial_set(t, word[1]);
	zr_trial_set(t, "train.gradient_accumulation_steps=auto");
	if (c->early && s->clips)
		zr_trial_set(t, "train.gradient_clipping=0");
	zr_trial_set(t, recompute[c->again]);
	zr_trial_set(t, s->narrow ? states[c->narrow] : NULL);
	zr_trial_set_all(t, adapters[c->adapter]);
}

/* Returns 1 if larger micro-batches need not be tried. */
static int try_choice(struct search *s, const struct zr_tiers *o, int stage, const struct choice *c,
		      struct row *r, int *rc)
{
	char word[2][WORD], why[320] = "";
	struct zr_trial t = { .ranks = s->ranks };
	const int other = c->early && s->clips;

	if (s->a->device)
		zr_trial_set(&t, "device.memory=1T"); /* whether it fits is judged here */
	zr_trial_set(&t, zr_trial_stage[stage]);
	if (c->early)
		zr_trial_set(&t, "zero.update_in_backward=yes");
	set_choice(s, &t, c, word);
	zr_trial_set_all(&t, o->set);
	*rc = run_trial(s, &t);
	if (c->early && t.refused)
		return 1;

	s->planned++;
	if (*rc || t.refused || !t.forecast) {
		if (!r->fits && !r->why[0])
			snprintf(r->why, sizeof r->why, "%s", t.refused ? t.why : s->rates->by);
		return 1;
	}

	const double by = over(s, &t, why, sizeof why);
	if (by <= 1)
		keep(other ? &s->unclipped : &s->same, &t, (const char(*)[WORD])word);
	if (!other)
		note_row(r, &t, by, why);
	return by > 1;
}

/* All micro-batches of a choice, from the smallest on. */
static int try_micros(struct search *s, const struct zr_tiers *o, int stage, struct choice c,
		      struct row *r)
{
	int rc = 0;

	for (int m = 0; !rc && m < MICROS; m++) {
		c.micro = 1 << m;
		if (s->sequences % ((int64_t)s->ranks << m) || try_choice(s, o, stage, &c, r, &rc))
			break;
	}
	return rc;
}

static int try_row(struct search *s, const struct zr_tiers *o, int stage, int adapter)
{
	struct row r = { 0 };
	char a[32];
	int rc = 0;

	for (int i = 0; !rc && i < 8; i++) {
		struct choice c = {
			.narrow = i & 1, .again = i >> 1 & 1, .early = i >> 2, .adapter = adapter
		};
		if (c.narrow <= s->narrow)
			rc = try_micros(s, o, stage, c, &r);
	}
	if (!rc && !s->a->json)
		printf("%-6d %-24s %s%s\n", stage, o->name, r.fits ? "fits: a step takes " : r.why,
		       r.fits ? zr_seconds_text(r.seconds, a) : "");
	return rc;
}

static int try_all(struct search *s, int adapter)
{
	static const char *const what[] = { "", "with LoRA on all linear maps\n",
					    "with LoRA on a base in 4 bits\n" };
	int rc = 0;

	if (!s->a->json)
		printf("%s%-6s %-24s\n", what[adapter], "stage", "offload");
	for (int stage = 0; stage < 4; stage++) /* one rank splits nothing */
		for (int o = 0; !rc && o < zr_n_trial_tiers && !(s->ranks == 1 && stage % 3); o++)
			if (zr_tiers_suit(&zr_trial_tiers[o], stage, s->separate))
				rc = try_row(s, &zr_trial_tiers[o], stage, adapter);
	return rc;
}

/* before: what was printed last, which may be of the same section; NULL: nothing. margin: what is
 * in front of each line. */
static void print_set(const char *set, const char *before, const char *margin)
{
	const char *eq = strchr(set, '='), *dot = eq;

	while (dot > set && *dot != '.')
		dot--;
	if (!before || strncmp(before, set, (size_t)(dot - set) + 1))
		printf("%s[%.*s]\n", margin, (int)(dot - set), set);
	printf("%s%.*s = %s\n", margin, (int)(eq - dot - 1), dot + 1, eq + 1);
}

static void print_sets(const struct fastest *f, const char *margin)
{
	const char *before = NULL;

	for (int i = 0; i < ZR_TRIAL_SETS && f->best.set[i]; i++)
		if (strncmp(f->best.set[i], "device.", 7)) {
			print_set(f->best.set[i], before, margin);
			before = f->best.set[i];
		}
}

/* What clipping costs, where something is faster without. */
static void print_unclipped(const struct search *s)
{
	const struct zr_trial *t = &s->unclipped.best, *same = &s->same.best;
	char a[32];

	if (!s->unclipped.fit)
		return;

	if (s->same.fit && t->f.seconds >= same->f.seconds) {
		printf("\n; updates in the backward, without gradient_clipping, "
		       "would not be faster\n");
		return;
	}

	printf("\n; updates in the backward, without gradient_clipping: %s a step, %.4g tokens/s",
	       zr_seconds_text(t->f.seconds, a), t->tokens / t->f.seconds);
	if (s->same.fit)
		printf("; with it\n; a step takes %.0f %% longer",
		       100 * (same->f.seconds / t->f.seconds - 1));
	printf(". It trains something else:\n");
	print_sets(&s->unclipped, "; ");
}

static void print_best(const struct search *s)
{
	const struct zr_trial *t = &s->same.best;
	char a[32], b[32], c[32], d[32];

	printf("\n%d configurations planned, %d fit\n", s->planned, s->same.fit + s->unclipped.fit);
	if (s->same.fit) {
		printf("fastest: %s a step, %.4g tokens/s, bound by %s, by %s\n"
		       "         %s of device memory and %s of disk a rank, %s of host memory\n\n",
		       zr_seconds_text(t->f.seconds, a), t->tokens / t->f.seconds,
		       zr_forecast_queue_name(t->f.binding), s->rates->by,
		       zr_bytes_text(t->device, b), zr_bytes_text(t->disk, c),
		       zr_bytes_text(t->machine, d));
		printf("; in place of what %s says of these, and of all its [offload.X]\n",
		       s->a->operand);
		print_sets(&s->same, "");
	}

	print_unclipped(s);
}

static void put_fastest(json_t **j, const struct fastest *f)
{
	const struct zr_trial *t = &f->best;
	json_t *set = json_array();

	for (int i = 0; f->fit && i < ZR_TRIAL_SETS && t->set[i]; i++)
		if (strncmp(t->set[i], "device.", 7))
			zr_json_add(&set, json_string(t->set[i]));
	zr_json_put(j, "fit", json_integer(f->fit));
	zr_json_put(j, "options", set);
	if (!f->fit)
		return;

	zr_json_put(j, "seconds", json_real(t->f.seconds));
	zr_json_put(j, "tokens_per_s", json_real(t->tokens / t->f.seconds));
	zr_json_put(j, "binding", json_string(zr_forecast_queue_name(t->f.binding)));
	zr_json_put(j, "device_bytes", json_integer((json_int_t)t->device));
	zr_json_put(j, "host_bytes", json_integer((json_int_t)t->machine));
	zr_json_put(j, "disk_bytes", json_integer((json_int_t)t->disk));
}

static int print_json(const struct search *s)
{
	json_t *j = json_object(), *unclipped = json_object();

	zr_json_put(&j, "planned", json_integer(s->planned));
	put_fastest(&j, &s->same);
	if (s->clips) {
		put_fastest(&unclipped, &s->unclipped);
		zr_json_put(&j, "without_clipping", unclipped);
	} else {
		json_decref(unclipped);
	}
	return zr_json_print(j, JSON_INDENT(2), "the plan", s->err);
}

/* CONF as it is: its batch, and whether it can be planned at all. */
static int look(struct search *s)
{
	struct zr_trial t = { .ranks = s->ranks }, n = { .set = { states[1] }, .ranks = s->ranks };

	if (s->a->device)
		zr_trial_set(&t, "device.memory=1T");

	int rc = zr_trial_run(s->a, s->rates, &t, s->err);
	if (!rc)
		rc = zr_trial_run(s->a, s->rates, &n, s->err);
	if (rc || t.refused)
		return rc ? rc : zr_err(s->err, ZR_EINVAL, "%s", t.why);

	s->sequences = t.sequences;
	s->separate = t.separate;
	s->clips = t.clips;
	s->narrow = !n.refused;
	if (s->rates->known && t.forecast)
		return 0;
	return zr_err(s->err, ZR_EINVAL, "--fit: %s", s->rates->by);
}

int zr_plan_search(const struct zr_plan_args *a, struct zr_rate_source *rates, struct zr_error *err)
{
	struct search s = { .a = a, .rates = rates, .err = err, .ranks = a->ranks ? a->ranks : 1 };

	snprintf(s.memory, WORD, "device.memory=%" PRIu64, a->device);
	int rc = look(&s);
	for (int adapter = 0; !rc && !s.same.fit && adapter < 3; adapter++)
		rc = try_all(&s, adapter);
	if (!rc && a->json)
		rc = print_json(&s);
	else if (!rc)
		print_best(&s);
	if (rc || s.same.fit)
		return rc;
	return zr_err(err, ZR_EFIT, "nothing fits: of %d configurations none", s.planned);
}
