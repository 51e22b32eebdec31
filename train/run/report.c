/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - see report.h.
 */
#include "train/run/report.h"

#include <string.h>
#include <sys/resource.h>

#include "core/base/pool.h"
#include "train/adapter.h"
#include "train/fit.h"
#include "train/forecast/traffic.h"
#include "train/run/progress.h"
#include "train/run/signals.h"
#include "train/rundir.h"
#include "train/weights.h"

/* Bytes of host and device memory. */
static uint64_t planned(const struct zr_setup *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < s->account.n; i++) {
		const struct zr_account_line *l = &s->account.line[i];
		if (l->tier == ZR_TIER_HOST || l->tier == ZR_TIER_DEVICE)
			sum += l->peak;
	}

	return sum;
}

void zr_run_announce(const struct zr_trainer *t, FILE *out)
{
	const struct zr_setup *s = t->setup;
	char a[32], b[32];

	fprintf(out, "model   %s, %.2f M parameters\n", s->roles.model.section->plugin->desc->id,
		(double)s->facts.layout.parameters / 1e6);
	zr_adapter_announce(s, out);
	fprintf(out, "data    %s\n", s->roles.source->info.describe);
	for (int32_t i = 1; i < s->roles.n_sources; i++)
		fprintf(out, "eval    %s: %s\n", s->roles.source[i].name,
			s->roles.source[i].info.describe);
	fprintf(out, "device  %s (%s), %d thread%s", s->facts.device_info.name,
		s->facts.device_info.variant, zr_pool_size(s->facts.process.pool),
		zr_pool_size(s->facts.process.pool) == 1 ? "" : "s");
	if (*s->facts.near)
		fprintf(out, " near it, on processors %s", s->facts.near);
	if (s->facts.homes.on_host)
		fprintf(out, "; experts on the host (%s)", s->facts.host_info.variant);
	fputc('\n', out);
	if (s->facts.process.world > 1)
		fprintf(out, "ranks   %d, stage %s\n", s->facts.process.world,
			s->roles.zero.section->plugin->desc->id);
	if (s->plan.sums)
		fprintf(out, "sums    over ranks by %s: bits depend on its order\n", s->plan.sums);
	fprintf(out, "batch   %lld sequences of %lld tokens = %lld micro-batch%s of %lld\n",
		(long long)s->facts.batch.train, (long long)s->facts.batch.length,
		(long long)s->facts.batch.slots, s->facts.batch.slots == 1 ? "" : "es",
		(long long)s->facts.batch.micro);
	fprintf(out, "memory  %s planned%s, %s available\n", zr_bytes_text(planned(s), a),
		s->facts.process.world > 1 ? " per rank" : "",
		zr_bytes_text(zr_memory_at_start(), b));
	fprintf(out, "run     %s\n", zr_rundir(t->cfg));
	if (t->resumed >= 0)
		fprintf(out, "resumed after step %lld\n", (long long)t->resumed);
	if (t->resumed >= 0 && (uint64_t)t->resumed == s->facts.train->steps)
		fprintf(out, "nothing is left to train: [train] steps = %lld\n",
			(long long)t->resumed);
	zr_signals_flush(out);
}

int zr_run_report_end(struct zr_run_report *rep, const struct zr_trainer *t,
		      const struct zr_timeline *timeline, struct zr_error *err)
{
	struct rusage u;

	rep->rank = t->setup->facts.process.rank;
	rep->world = t->setup->facts.process.world;
	memcpy(rep->device, t->setup->facts.device_info.name, sizeof rep->device);
	memcpy(rep->variant, t->setup->facts.device_info.variant, sizeof rep->variant);
	if (zr_graphs_counts(t->session)) {
		rep->graphed = 1;
		rep->graphs = *zr_graphs_counts(t->session);
	}
	if (t->setup->facts.homes.on_host)
		memcpy(rep->experts_variant, t->setup->facts.host_info.variant,
		       sizeof rep->experts_variant);
	rep->parameters = t->setup->facts.layout.parameters;

	rep->steps = t->session->step;
	/* the step that ended the run was not skipped */
	rep->skipped = rep->steps - t->session->applied - (rep->stopped != 0);
	rep->first_loss = rep->steps ? t->losses[0] : 0;
	rep->last_loss = rep->steps ? t->losses[rep->steps - 1] : 0;
	rep->losses_digest = zr_trainer_losses_digest(t);
	rep->checkpoints = *zr_saver_stats_of(t->saver);
	rep->process_steps = rep->steps - t->first;
	rep->breakdown = timeline->wanted;
	rep->total_tokens = rep->steps * t->setup->facts.batch.train * t->setup->facts.batch.length;
	rep->tokens_per_s = rep->step_seconds > 0 ? (double)rep->tokens / rep->step_seconds : 0;

	rep->evals = t->evals.times;
	rep->eval_from = t->evals.from;
	rep->eval_at = t->evals.at;
	rep->n_sets = t->evals.n;
	memcpy(rep->set, t->evals.set, sizeof rep->set);
	rep->best = t->evals.best_by ? t->evals.best : ZR_BEST_NONE;

	rep->received_plan = zr_traffic_received(t->setup);
	rep->planned = planned(t->setup);
	if (!getrusage(RUSAGE_SELF, &u))
		rep->process_peak = (uint64_t)u.ru_maxrss * 1024;

	int rc = zr_timeline_ranks(timeline, &rep->part, &rep->part_min, &rep->part_max, err);
	if (rc)
		return rc;
	return zr_weights_digest(t->session, &rep->params_digest, err);
}
