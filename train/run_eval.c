/* SPDX-License-Identifier: Apache-2.0
 *
 * run_eval.c - see run_eval.h.
 */
#include "train/run_eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether [train] eval_batches take only a part of what is held out. */
static int is_part(const struct zr_setup *p, const struct zr_data_info *held_out)
{
	int64_t all =
		ZR_HAS(held_out, struct zr_data_info, val_sequences) ? held_out->val_sequences : 0;
	int64_t batches = (all + p->facts.batch.micro - 1) / p->facts.batch.micro;
	return all <= 0 || (int64_t)p->facts.train->eval_batches < batches;
}

static int add_set(struct zr_eval_sets *e, struct zr_source *from, struct zr_error *err)
{
	const struct zr_setup *p = e->session->setup;
	uint64_t want = from->it.section->sequences;
	struct zr_run_set *r = &e->set[e->n < ZR_EVAL_SETS ? e->n : ZR_EVAL_SETS];
	int held_out = !*from->name;
	int64_t n = (int64_t)p->facts.train->eval_batches;

	if (held_out && !from->info.val_tokens)
		return 0;
	if (e->n > ZR_EVAL_SETS)
		return zr_err(err, ZR_EINVAL, "[%s] is one set to evaluate on too many: %d at most",
			      from->it.section->name, ZR_EVAL_SETS);

	*r = (struct zr_run_set){ .name = from->name, .set = { from, n, 0 }, .at = -1 };
	snprintf(r->key[0], sizeof r->key[0], held_out ? "val_loss" : "eval.%s.loss", r->name);
	if (!held_out)
		snprintf(r->key[1], sizeof r->key[1], "eval.%s.accuracy", r->name);
	e->n++;
	if (held_out && is_part(p, &from->info))
		return 0;
	return zr_eval_once(p, from, held_out || want == ZR_AUTO_COUNT ? 0 : (int64_t)want, &r->set,
			    err);
}

/* The set that patience and keep_best go by. */
static int find_best_by(struct zr_eval_sets *e, struct zr_error *err)
{
	const struct zr_setup *p = e->session->setup;
	const struct zr_checkpoint_opts *o = zr_config_find(p->cfg, "checkpoint")->opts;
	const char *name = p->facts.train->best_by;
	int asked = *name || p->facts.train->patience || o->keep_best;

	for (int i = 0; i < e->n; i++)
		if (asked && !strcmp(e->set[i].name, name))
			e->best_by = &e->set[i];
	if (!asked || (e->best_by && p->facts.train->eval_every))
		return 0;
	if (!p->facts.train->eval_every)
		return zr_config_blame(p->cfg, "train", ZR_EINVAL, err,
				       "eval_every = 0: patience and [checkpoint] keep_best need "
				       "evaluations");
	if (*name)
		return zr_config_blame(p->cfg, "train", ZR_EINVAL, err,
				       "best_by = %s: there is no "
				       "[eval.%s]",
				       name, name);
	return zr_config_blame(p->cfg, "train", ZR_EINVAL, err,
			       "best_by: nothing of [data] is "
			       "held out that patience or [checkpoint] keep_best could go by: name "
			       "an [eval.NAME] here");
}

int zr_run_evals_open(struct zr_session *s, struct zr_eval_sets *out, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	int rc = 0;

	*out = (struct zr_eval_sets){ .session = s, .best = ZR_BEST_NONE };
	for (int32_t i = 0; !rc && i < p->roles.n_sources; i++)
		rc = add_set(out, &p->roles.source[i], err);
	if (rc)
		return rc;
	return find_best_by(out, err);
}

int zr_best_note(struct zr_best *b, double loss, int64_t step, int counts)
{
	const int best = b->step < 0 ? !isnan(loss) : loss < b->loss;
	if (best) {
		b->loss = loss;
		b->step = step;
	}

	if (counts && loss < b->lowest) {
		b->lowest = loss;
		b->since = 0;
	} else if (counts) {
		b->since++;
	}
	return best;
}

int zr_run_eval(struct zr_eval_sets *e, struct zr_run_set *set, int64_t step,
		const struct zr_eval_how *how, struct zr_error *err)
{
	const int64_t every = (int64_t)e->session->setup->facts.train->eval_every;

	int rc = zr_evaluate(e->session, &set->set, how, &set->last, err);
	if (rc)
		return rc;

	set->at = step;
	if (step > 0 && set == e->best_by)
		e->improved = zr_best_note(&e->best, set->last.loss, step,
					   every > 0 && step % every == 0);
	return 0;
}

int zr_run_all_evals(struct zr_eval_sets *e, int64_t step, const struct zr_eval_how *how,
		     struct zr_error *err)
{
	int rc = zr_session_exchange(e->session, err);

	e->improved = 0;
	for (int i = 0; !rc && i < e->n; i++) {
		struct zr_run_set *r = &e->set[i];
		rc = zr_run_eval(e, r, step, how, err);
		if (!e->times)
			r->first = r->last;
	}
	if (!rc)
		rc = zr_session_exchange(e->session, err);

	if (!e->times)
		e->from = step;
	e->at = step;
	e->times += !rc;
	return rc;
}

int zr_run_evals_stop(const struct zr_eval_sets *e, char *why, size_t size)
{
	int64_t patience = (int64_t)e->session->setup->facts.train->patience;
	if (!patience || !e->best_by || e->best.since < patience)
		return 0;

	char than[64];
	if (isinf(e->best.lowest))
		snprintf(than, sizeof than, "that is a number");
	else if (e->best.lowest == e->best.loss)
		snprintf(than, sizeof than, "than %.4f, that of step %lld", e->best.loss,
			 (long long)e->best.step);
	else
		snprintf(than, sizeof than, "than %.4f", e->best.lowest);
	snprintf(why, size, "%lld evaluation%s without a %s%s loss %s", (long long)e->best.since,
		 e->best.since == 1 ? "" : "s", isinf(e->best.lowest) ? "" : "lower ",
		 *e->best_by->name ? e->best_by->name : "validation", than);
	return 1;
}
