/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - the numbers of a step, under the names that `zeroth train` gives them.
 */
#include "embed/engine.h"

int rank_metrics(const struct rank *r, struct zr_metric m[ZR_METRICS_PER_STEP])
{
	const struct zr_step_result *s = &r->result;
	int n = 0;
	m[n++] = (struct zr_metric){ "loss", (double)s->loss };
	if (r->setup->decl.aux_loss)
		m[n++] = (struct zr_metric){ "aux_loss", s->aux_loss };
	m[n++] = (struct zr_metric){ "lr", s->lr };
	m[n++] = (struct zr_metric){ "grad_norm", s->grad_norm };
	if (r->setup->types.scaled)
		m[n++] = (struct zr_metric){ "loss_scale", s->scale };
	if (r->seconds > 0)
		m[n++] = (struct zr_metric){ "tokens_per_s", (double)s->tokens / r->seconds };
	m[n++] = (struct zr_metric){ "skipped", s->action == ZR_STEP_SKIP };
	for (int i = 0; r->evaluated && i < r->evals.n; i++) {
		const struct zr_run_set *e = &r->evals.set[i];
		if (!e->last.targets)
			continue;
		m[n++] = (struct zr_metric){ e->key[0], e->last.loss };
		if (*e->key[1])
			m[n++] = (struct zr_metric){ e->key[1], e->last.accuracy };
	}
	return n;
}
