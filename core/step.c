/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - which programs run: those of micro-batches, the boundary, the update unless the boundary
 * decides to skip it, perhaps within the next forward. Also evaluation and logits, which run the
 * forward program.
 */
#include <string.h>
#include <time.h>

#include "core/exec/exec.h"
#include "core/memory/tier.h"
#include "core/persistent.h"

double zr_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The micro-batch that comes next is the `slot`-th of the global batch. */
static void prepare(struct zr_session *s, struct zr_source *from, int split, int64_t slot)
{
	double rows = (double)(s->facts->batch.micro * s->facts->batch.length);
	double all_rows = (double)(s->facts->batch.train * s->facts->batch.length);
	s->from = from;
	s->split = split;
	s->slot = slot;
	s->call =
		(struct zr_layer_call){ .size = sizeof s->call,
					.training = split == ZR_SPLIT_TRAIN,
					.dtype = s->facts->types.dtype,
					.batch = s->facts->batch.micro,
					.length = s->facts->batch.length,
					.slot_rows = s->facts->batch.micro * s->facts->batch.length,
					.grad_scale = (float)(s->scale.scale / rows),
					.aux_scale =
						(float)(s->scale.scale * s->targets / all_rows),
					.rng = { .seed = (uint64_t)s->facts->train->seed,
						 .step = (uint64_t)s->step,
						 .slot = (uint32_t)slot },
					.flags = zr_call_touches(s->facts),
					.ops = s->roles->ops };
}

/* The program of micro-batch m. */
static int32_t program_of(const struct zr_session *s, int64_t m)
{
	if (!m && s->owed)
		return ZR_S_ONWARD;
	if (m + 1 == s->facts->batch.accumulation)
		return ZR_S_LAST;
	return m ? ZR_S_MICRO : ZR_S_FIRST;
}

static int run_micro_batches(struct zr_session *s, struct zr_error *err)
{
	int rc = zr_count_targets(s, &s->targets, err);
	for (int64_t m = 0; !rc && m < s->facts->batch.accumulation; m++) {
		prepare(s, s->roles->source, ZR_SPLIT_TRAIN, zr_mesh_slot(&s->facts->mesh, m));
		rc = zr_run_program(s, program_of(s, m), err);
		s->owed = 0;
	}
	return rc;
}

/* An update waits for the next forward, if there is one. */
static int update(struct zr_session *s, struct zr_error *err)
{
	const struct zr_lowered *onward = &s->programs->lowered[ZR_S_ONWARD];
	s->owed = onward->n > 0 && s->step + 1 < (int64_t)s->facts->train->steps;
	if (s->owed)
		return 0;
	return zr_run_program(s, ZR_S_UPDATE, err);
}

int zr_settle(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	if (s->owed)
		rc = zr_run_program(s, ZR_S_UPDATE, err);
	s->owed = 0;
	if (rc)
		return rc;
	return zr_writes_settle(s, err);
}

static uint64_t bytes_in(const struct zr_session *s)
{
	const struct zr_instance *comm[] = { &s->roles->comm, &s->roles->host_comm };
	uint64_t sum = s->in_place;
	for (int i = 0; i < 2; i++) {
		const struct zr_comm_v1 *v = comm[i]->vtbl;
		if (comm[i]->inst)
			sum += v->bytes_sent(comm[i]->inst);
	}
	return sum;
}

/* With updates in the backward it is too late to leave the weights as they were. */
static int refuse_late(struct zr_session *s, const struct zr_step_result *r, struct zr_error *err)
{
	s->torn = r->action != ZR_STEP_APPLY && s->programs->recorded[ZR_PROG_LAST_MICRO].updates;
	if (!s->torn)
		return 0;
	return zr_err(err, ZR_ENUMERIC,
		      "step %lld: non-finite numbers in %s%s, rank %d, and other "
		      "units are updated by then (update_in_backward): what is left is the last "
		      "checkpoint, if there is one",
		      (long long)s->step + 1, r->unit ? "the gradient of " : "the ",
		      r->overflow ? r->overflow : "step", r->bad_rank);
}

int zr_session_step(struct zr_session *s, int stop, struct zr_step_result *r, struct zr_error *err)
{
	uint64_t before = bytes_in(s);
	s->stop = stop;
	s->result = r;
	zr_range_step(s, 1);
	int rc = run_micro_batches(s, err);
	if (!rc)
		rc = zr_run_program(s, ZR_S_BOUNDARY, err);
	if (!rc)
		rc = refuse_late(s, r, err);
	if (!rc && r->action == ZR_STEP_APPLY)
		rc = update(s, err);
	if (!rc && r->action == ZR_STEP_APPLY)
		rc = zr_persistent_renew(s, (double)r->loss, err);
	zr_range_step(s, 0);
	s->step += !rc;
	r->received = bytes_in(s) - before;
	return rc;
}

/* What the host reads of the batch, which the first instruction of the program loads. */
static const char *host_batch(const struct zr_session *s)
{
	int32_t tokens = s->programs->lowered[ZR_S_EVAL].instr[0].first + ZR_O_BATCH_TOKENS;
	return s->bound[ZR_S_EVAL].at[tokens] - s->plan->tokens;
}

/* Rows that other ranks of the sequence have count there. */
static void leave_others(const struct zr_session *s, int32_t *targets, float *weights)
{
	const struct zr_slices *z = &s->facts->slices;
	struct zr_slice_run run[2];

	for (int32_t r = 0; r < z->ranks; r++) {
		const int n = r == z->rank ? 0 : zr_slice_runs(z, r, run);
		for (int k = 0; k < n; k++) {
			const int64_t first = run[k].first * z->rows,
				      end = first + run[k].n * z->rows;
			for (int64_t t = first; t < end; t++) {
				targets[t] = ZR_PADDING;
				if (weights)
					weights[t] = 0;
			}
		}
	}
}

int zr_session_eval(struct zr_session *s, struct zr_source *from, int64_t sequences, int64_t slot,
		    struct zr_rows *rows, struct zr_error *err)
{
	const struct zr_plan *p = s->plan;
	const char *at = host_batch(s);
	int rc = zr_settle(s, err);
	if (rc)
		return rc;

	s->sequences = sequences;
	prepare(s, from, ZR_SPLIT_VAL, slot);
	rc = zr_run_program(s, ZR_S_EVAL, err);
	s->sequences = 0;
	leave_others(s, (int32_t *)(void *)(uintptr_t)(at + p->targets),
		     s->call.weights ? (float *)(void *)(uintptr_t)(at + p->weights) : NULL);
	*rows = (struct zr_rows){ s->facts->batch.micro * s->facts->batch.length,
				  (const int32_t *)(at + p->targets),
				  (const float *)(at + p->loss_rows),
				  (const float *)(at + p->right_rows),
				  s->call.weights ? (const float *)(at + p->weights) : NULL };
	return rc;
}

int zr_session_logits(struct zr_session *s, const int32_t *tokens, int64_t past, int64_t n,
		      float *logits, struct zr_error *err)
{
	const struct zr_model_v1 *model = zr_model_of(s->roles)->vtbl;
	if (!ZR_HAS(model, struct zr_model_v1, logits) || !model->logits)
		return zr_err(err, ZR_ENOTSUP, "model %s cannot sample: it has no logits",
			      s->roles->model.section->plugin->desc->id);

	prepare(s, NULL, ZR_SPLIT_VAL, 0);
	s->given = tokens;
	s->call.batch = 1;
	s->call.length = n;
	s->call.slot_rows = n;
	s->call.past = past;
	s->call.flags |= ZR_CALL_EACH_ROW;
	int rc = zr_run_program(s, ZR_S_EVAL, err);
	if (!rc)
		memcpy(logits, host_batch(s) + s->plan->loss_sum, s->plan->loss_bytes);
	return rc;
}
