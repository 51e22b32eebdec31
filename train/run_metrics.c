/* SPDX-License-Identifier: Apache-2.0
 *
 * run_metrics.c - see run_metrics.h.
 */
#include "train/run_metrics.h"

#include <math.h>

#include "train/fit.h"

/* Two of each set that was evaluated after the step, in the order of the sets. */
static uint32_t of_evals(const struct zr_run_step *s, struct zr_metric *m)
{
	uint32_t n = 0;

	for (int i = 0; i < s->evals->n; i++) { /* 17 at most: there is room */
		const struct zr_run_set *e = &s->evals->set[i];
		if (e->at != s->step)
			continue;

		m[n++] = (struct zr_metric){ e->key[0], e->last.loss };
		if (*e->key[1])
			m[n++] = (struct zr_metric){ e->key[1], e->last.accuracy };
	}

	return n;
}

/* The loss on the held-out part in other units. */
static uint32_t of_held_out(const struct zr_run_step *s, struct zr_metric *m)
{
	uint32_t n = 0;

	for (int i = 0; i < s->evals->n; i++) {
		const struct zr_run_set *set = &s->evals->set[i];
		const struct zr_eval_result *e = &set->last;
		if (*set->name || set->at != s->step)
			continue;

		m[n++] = (struct zr_metric){ "val_perplexity", exp(e->loss) };
		if (e->bytes > 0)
			m[n++] = (struct zr_metric){ "val_bits_per_byte", zr_eval_per_byte(e) };
	}

	return n;
}

uint32_t zr_run_metrics(const struct zr_run_step *s, struct zr_metric m[ZR_METRICS_PER_STEP])
{
	const struct zr_step_result *r = s->result;
	uint32_t n = 0;

	m[n++] = (struct zr_metric){ "loss", (double)r->loss };
	if (s->setup->facts.decl.aux_loss)
		m[n++] = (struct zr_metric){ "aux_loss", r->aux_loss };
	n += of_evals(s, m + n);
	m[n++] = (struct zr_metric){ "lr", r->lr };
	m[n++] = (struct zr_metric){ "grad_norm", r->grad_norm };
	if (s->setup->facts.train->qk_clip) {
		m[n++] = (struct zr_metric){ "max_score", r->max_score };
		m[n++] = (struct zr_metric){ "clipped_heads", (double)r->clipped_heads };
	}
	if (s->setup->facts.types.scaled)
		m[n++] = (struct zr_metric){ "loss_scale", r->scale };
	m[n++] = (struct zr_metric){ "tokens_per_s", s->pace->tokens_per_s };
	m[n++] = (struct zr_metric){ "memory", (double)zr_process_memory() };
	m[n++] = (struct zr_metric){ "skipped", r->action == ZR_STEP_SKIP };
	n += zr_pace_metrics(s->pace, m + n);
	n += of_held_out(s, m + n);
	for (int i = 0; s->part && i < ZR_PARTS; i++)
		m[n++] = (struct zr_metric){ zr_part_metric[i], s->part->of[i] };
	if (s->part && isfinite(s->part->idle))
		m[n++] = (struct zr_metric){ ZR_IDLE_METRIC, s->part->idle };
	return n;
}
