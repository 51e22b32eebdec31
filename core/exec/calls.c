/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - what the session itself does within a program: losses, the boundary, sums over
 * parameters.
 */
#include <math.h>
#include <string.h>

#include "core/base/numbers.h"
#include "core/exec/exec.h"
#include "core/update/update.h"

int zr_add_loss(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_slices *z = &s->facts->slices;
	const double *loss = (const double *)c->at[ZR_O_LOSS_LOSS];
	const int aux = s->facts->decl.aux_loss != 0;

	for (int32_t i = 0; i < z->here; i++) {
		zr_exact_add(&s->decided->boundary.loss, loss[0]);
		if (aux && zr_slice_at(z, i) == 0) /* all have that of the micro-batch */
			zr_exact_add(&s->decided->boundary.aux_loss, loss[1]);
		loss += 1 + aux;
	}
	return 0;
}

/* Squares of the gradients in this rank's own blocks, from the last contribution; its first tensor
 * with non-finite ones. */
int zr_measure(struct zr_session *s, const struct zr_call *c)
{
	const double *sumsq = (const double *)c->at[ZR_O_MEASURE_SQUARES];
	const uint32_t *bad = (const uint32_t *)c->at[ZR_O_MEASURE_COUNTS];
	for (int32_t i = 0; i < s->facts->layout.n_tensors; i++) {
		const struct zr_place *t = &s->facts->layout.tensor[i];
		const struct zr_unit_memory *m = &s->plan->unit[t->unit];
		int64_t lo = s->facts->layout.unit[t->unit].block + m->own.first;
		int64_t b = t->block, end = b + t->blocks;
		zr_intersect(lo, s->facts->frozen_unit[t->unit] ? lo : lo + m->own.n, &b, &end);
		for (; b < end; b++) {
			if (bad[b] && s->decided->boundary.bad_tensor == INT64_MAX)
				s->decided->boundary.bad_tensor = i;
			zr_exact_add(&s->decided->boundary.norm, sumsq[b]);
		}
	}
	return 0;
}

static void add_boundary(struct zr_boundary *to, const struct zr_boundary *from, int rank)
{
	zr_exact_merge(&to->loss, &from->loss);
	zr_exact_merge(&to->aux_loss, &from->aux_loss);
	zr_exact_merge(&to->norm, &from->norm);
	if (from->bad_tensor < to->bad_tensor) {
		to->bad_tensor = from->bad_tensor;
		to->bad_rank = rank;
	}
	if (!to->stop)
		to->stop = from->stop;
}

/* What this rank says becomes the merge of what all say. */
int zr_merge_said(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_process *p = &s->facts->process;
	const struct zr_boundary *all = (const struct zr_boundary *)c->at[ZR_O_MERGE_ALL];
	struct zr_boundary sum = { .bad_tensor = INT64_MAX, .check = s->decided->boundary.check };
	for (int r = 0; r < p->world; r++) {
		if (all[r].check != sum.check)
			return zr_err(c->err, ZR_EINVAL,
				      "rank %d runs another program than rank "
				      "%d: its config, model or plugins differ",
				      r, p->rank);

		add_boundary(&sum, &all[r], r);
	}

	s->decided->boundary = sum;
	return 0;
}

/* What all ranks say of a few sums over parameters, merged in rank order. */
int zr_add_sums(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_exact *arrived = (const struct zr_exact *)c->at[ZR_O_ADD_ALL];
	struct zr_exact *sums = (struct zr_exact *)c->at[ZR_O_ADD_MERGED];
	for (int64_t i = 0; i < c->i->blocks; i++) {
		sums[i] = (struct zr_exact){ 0 };
		for (int r = 0; r < s->facts->process.world; r++)
			zr_exact_merge(&sums[i], &arrived[r * c->i->blocks + i]);
	}
	return 0;
}

int zr_begin_scores(struct zr_session *s, const struct zr_call *c)
{
	(void)s;
	memset(c->at[ZR_O_UNSEEN_SCORES], 0, c->o[ZR_O_UNSEEN_SCORES].bytes);
	return 0;
}

/* The largest scores of this rank become those of all. */
int zr_merge_scores(struct zr_session *s, const struct zr_call *c)
{
	const float *arrived = (const float *)(void *)c->at[ZR_O_SCORES_ALL];
	float *merged = (float *)(void *)c->at[ZR_O_SCORES_MERGED];

	for (int64_t i = 0; i < c->i->blocks * s->facts->process.world; i++) {
		float *largest = &merged[i % c->i->blocks];
		if (arrived[i] > *largest)
			*largest = arrived[i];
	}
	return 0;
}

/* What the sums over parameters are, once those of all ranks are in them. */
int zr_take_totals(struct zr_session *s, const struct zr_call *c)
{
	struct zr_exact *sums = (struct zr_exact *)c->at[ZR_O_TOTALS_SUMS];
	double *totals = (double *)c->at[ZR_O_TOTALS_TOTALS];
	uint32_t width = s->plan->partial.width;
	int rc = 0;

	for (int64_t i = 0; !rc && i < (int64_t)s->facts->layout.n_tensors * width; i++) {
		totals[i] = zr_exact_value(&sums[i]);
		if (isnan(totals[i]))
			rc = zr_err(c->err, ZR_ENUMERIC,
				    "step %lld: what the optimizer sums over %s is not finite",
				    (long long)zr_step_running(s),
				    s->facts->layout.tensor[i / width].decl->name);
	}
	if (!rc)
		rc = zr_run_by_sums(s, sums, c->err);

	memset(sums, 0, c->o[ZR_O_TOTALS_SUMS].bytes); /* they begin again */
	return rc;
}

int zr_begin_host(struct zr_session *s, const struct zr_call *c)
{
	static zr_call_fn *const call[] = {
#define ZR_HOST_CALL(call, what, begin, ...) begin,
#include "core/lower/instr.def"
	};
	return call[c->i->number](s, c);
}
