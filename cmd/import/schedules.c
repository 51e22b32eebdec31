/* SPDX-License-Identifier: Apache-2.0
 *
 * schedules.c - see hf.h: transformers' schedules, which are plugins of the same names here, and
 * their warm-up. transformers rounds a share of the updates up. Axolotl counts the updates itself:
 * it rounds a share down, makes 2 updates of 1, and takes at most 100 where nothing is given.
 */
#include "cmd/import/hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of [scheduler], and what a schedule must be given there, or NULL. */
static const struct {
	const char *name, *needs, *or_needs;
} schedules[] = {
	{ "linear", NULL, NULL },
	{ "cosine", NULL, NULL },
	{ "cosine_with_restarts", NULL, NULL },
	{ "polynomial", NULL, NULL },
	{ "constant", NULL, NULL },
	{ "constant_with_warmup", NULL, NULL },
	{ "inverse_sqrt", NULL, NULL },
	{ "cosine_with_min_lr", "min_lr", "min_lr_rate" },
	{ "cosine_warmup_with_min_lr", "min_lr", "min_lr_rate" },
	{ "warmup_stable_decay", "num_decay_steps", "num_decay_steps" },
};
#define SCHEDULES (sizeof schedules / sizeof *schedules)

/* Schedules that follow what a run measures: none here does. */
static const char *const measured[] = { "greedy", "reduce_lr_on_plateau" };

static int is_of_deepspeed(struct zr_import *im)
{
	return !!zr_import_find(im, im->deepspeed, "scheduler.type");
}

IMPORT_MAP(hf_scheduler)
{
	const char *name = zr_import_word(s);

	if (is_of_deepspeed(im))
		return zr_import_no_effect(s, "DeepSpeed's configuration names the schedule");

	for (size_t i = 0; i < SCHEDULES; i++)
		if (!strcmp(schedules[i].name, name))
			return zr_import_put(im, s, k->to, name, NULL);
	for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
		if (!strcmp(measured[i], name))
			return zr_import_impossible(
				s, "it follows measured losses; no schedule here does");

	return zr_import_impossible(s, "there is no such schedule here");
}

IMPORT_MAP(hf_schedule_option)
{
	char *text = NULL;

	if (is_of_deepspeed(im))
		return zr_import_no_effect(s, "DeepSpeed's configuration names the schedule");

	int rc = zr_import_text(s->value, &text);
	if (!rc)
		rc = zr_import_put(im, s, k->to, text, NULL);
	free(text);
	return rc;
}

/* ---- the warm-up ---- */

/* A number of updates, or a share of them. */
struct warmup {
	struct zr_setting *from; /* NULL: a default */
	long long count;         /* where share is 0 */
	double share;
	int rounds_down, least, most; /* of a share; 0: as transformers */
};

static struct warmup warmup_of_transformers(struct zr_setting *steps, struct zr_setting *ratio)
{
	const double given = zr_import_number(steps, 0);
	if (given >= 1)
		return (struct warmup){ .from = steps, .count = (long long)given };
	if (given > 0)
		return (struct warmup){ .from = steps, .share = given };
	return (struct warmup){ .from = ratio ? ratio : steps,
				.share = zr_import_number(ratio, 0) };
}

static struct warmup warmup_of_axolotl(struct zr_setting *steps, struct zr_setting *ratio)
{
	struct warmup w = { .rounds_down = 1, .least = 2 };

	if (steps) {
		w = warmup_of_transformers(steps, NULL);
		if (zr_import_number(steps, 0) == 1)
			w.count = 2;
		return w;
	}

	w.from = ratio;
	w.share = zr_import_number(ratio, 0.03);
	w.most = ratio ? 0 : 100;
	return w;
}

/* The number of updates, where that of the run is known. */
static long long count_of(const struct warmup *w, double run)
{
	if (!(w->share > 0))
		return w->count;

	const double product = w->share * run;
	long long n = (long long)(w->rounds_down ? floor(product) : ceil(product));
	if (n > 0 && n < w->least)
		n = w->least;
	return w->most && n > w->most ? w->most : n;
}

static int put_number(struct zr_import *im, struct zr_setting *s, const char *to, long long n,
		      const char *note)
{
	char text[32];
	snprintf(text, sizeof text, "%lld", n);
	return zr_import_put(im, s, to, text, note);
}

/* A share stays one: how many updates there are may follow from the data. */
static int put_share(struct zr_import *im, const struct warmup *w, const char *note)
{
	char *text = NULL;
	json_t *share = json_real(w->share);
	int rc = share ? zr_import_text(share, &text) : ZR_ENOMEM;

	json_decref(share);
	if (!rc)
		rc = zr_import_put(im, w->from, "scheduler.warmup_ratio", text, note);
	free(text);

	if (!rc && w->rounds_down)
		rc = zr_import_put(im, NULL, "scheduler.warmup_rounding", "down",
				   "as Axolotl rounds");
	if (!rc && w->least)
		rc = put_number(im, NULL, "scheduler.warmup_least_steps", w->least,
				"Axolotl makes 2 of 1");
	if (!rc && w->most)
		rc = put_number(im, NULL, "scheduler.warmup_most_steps", w->most, note);
	return rc;
}

/* Settings of a warm-up that is not theirs have no effect. */
static int finish_others(struct zr_import *im, const struct hf_names *n,
			 const struct zr_setting *used, const char *why)
{
	static const char *const keys[] = { "warmup_steps", "warmup_ratio" };
	int rc = 0;

	for (int i = 0; !rc && i < 2; i++) {
		struct zr_setting *s = zr_import_find(im, n->kind, keys[i]);
		if (s && s != used && s->fate != ZR_FATE_REFUSED)
			rc = zr_import_no_effect(s, why);
	}

	return rc;
}

/* DeepSpeed's schedule with `auto`: transformers fills in a number of updates. */
static int put_for_deepspeed(struct zr_import *im, const struct hf_names *n, const struct warmup *w,
			     const char *note)
{
	const double run = zr_import_number(zr_import_find(im, n->kind, "max_steps"), -1);
	if (w->share > 0 && !(run > 0) && w->from)
		return zr_import_fate(w->from, ZR_FATE_REFUSED,
				      "how many steps that is depends on the data, and a schedule "
				      "of DeepSpeed takes a number: give warmup_steps as one, or "
				      "max_steps");
	if (w->share > 0 && !(run > 0))
		return zr_import_fate(zr_import_find(im, im->deepspeed, "scheduler.type"),
				      ZR_FATE_REFUSED,
				      "its warm-up is a share of steps that follow from the data: "
				      "give warmup_steps, or max_steps");

	const long long count = count_of(w, run);
	return put_number(im, w->from, "scheduler.warmup_num_steps", count > 0 ? count : 1, note);
}

static int finish_warmup(struct zr_import *im, const struct hf_names *n)
{
	struct zr_setting *steps = zr_import_find(im, n->kind, "warmup_steps");

	struct zr_setting *ratio = zr_import_find(im, n->kind, "warmup_ratio");
	if (n->is_axolotl && zr_import_number(steps, 0) != 0 && zr_import_number(ratio, 0) != 0)
		return zr_import_impossible(
			ratio, "Axolotl takes no warmup_steps beside it: give one of them");

	const struct warmup w = n->is_axolotl ? warmup_of_axolotl(steps, ratio) :
						warmup_of_transformers(steps, ratio);
	const char *note = w.from ? NULL : n->note;
	int rc;
	if (is_of_deepspeed(im))
		rc = put_for_deepspeed(im, n, &w, note);
	else if (w.share > 0)
		rc = put_share(im, &w, note);
	else
		rc = put_number(im, w.from, "scheduler.warmup_num_steps", w.count, note);
	if (rc)
		return rc;
	return finish_others(im, n, w.from, "the other of the two counts");
}

/* ---- the schedule ---- */

/* What transformers asks for beside the name. */
static int finish_needs(struct zr_import *im, struct zr_setting *name, const char *plugin)
{
	for (size_t i = 0; i < SCHEDULES; i++) {
		char to[64], or_to[64];
		if (strcmp(schedules[i].name, plugin) || !schedules[i].needs)
			continue;

		snprintf(to, sizeof to, "scheduler.%s", schedules[i].needs);
		snprintf(or_to, sizeof or_to, "scheduler.%s", schedules[i].or_needs);
		if (zr_import_given(im, to) || zr_import_given(im, or_to))
			continue;
		return zr_import_fate(name, ZR_FATE_REFUSED,
				      "transformers asks for %s in lr_scheduler_kwargs",
				      schedules[i].needs);
	}

	return 0;
}

int hf_finish_schedule(struct zr_import *im, const struct hf_names *n)
{
	const char *plugin = zr_import_given(im, "scheduler.plugin");
	struct zr_setting *name = zr_import_find(im, n->kind, n->scheduler);
	const int theirs = is_of_deepspeed(im);
	int rc = 0;

	if (!plugin && (name || theirs))
		return 0; /* refused */
	if (!plugin) {
		plugin = n->scheduler_default;
		rc = zr_import_put(im, NULL, "scheduler.plugin", plugin, n->note);
	}

	if (!rc && name && !theirs)
		rc = finish_needs(im, name, plugin);
	if (rc)
		return rc;
	if (!strcmp(plugin, "constant") || (theirs && strncmp(plugin, "warmup", 6)))
		return finish_others(im, n, NULL, "the schedule has no warm-up");
	if (zr_import_given(im, "scheduler.warmup_num_steps"))
		return finish_others(im, n, NULL, "DeepSpeed's configuration says how long");
	return finish_warmup(im, n);
}
