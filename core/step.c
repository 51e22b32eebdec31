/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - one optimizer step: micro-batches, the boundary (loss, norm, non-finite numbers, step or
 * skip, learning rate), the update. Also evaluation and logits, which run the forward program.
 *
 * Scaling: a slot's gradient is that of scale * (its token losses / its tokens); the sum over slots
 * times tokens / (targets * scale) is the gradient of the mean loss of all targets of the step, by
 * their weights. All factors are known before the step.
 */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/exec/exec.h"
#include "core/memory/tier.h"

double zr_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The micro-batch that comes next is the `slot`-th of the global batch. */
static void prepare(struct zr_session *s, struct zr_source *from, int split, int64_t slot)
{
	struct zr_setup *p = s->setup;
	double rows = (double)(p->batch.micro * p->batch.length);
	s->from = from;
	s->split = split;
	s->slot = slot;
	s->call = (struct zr_layer_call){
		.size = sizeof s->call, .training = split == ZR_SPLIT_TRAIN,
		.dtype = p->types.dtype, .batch = p->batch.micro, .length = p->batch.length,
		.grad_scale = (float)(s->scale.scale / rows),
		.rng = { .seed = (uint64_t)p->train->seed, .step = (uint64_t)s->step,
			 .slot = (uint32_t)slot },
		.ops = p->ops };
}

/* All programs and settings in one number, which every rank must agree on. */
static int64_t programs_hash(const struct zr_setup *p)
{
	uint64_t h = p->settings;
	for (int i = 0; i < 4; i++)
		h = h * 31 + p->program[i].hash;
	for (int i = 0; i < ZR_LOWERED; i++)
		h = h * 31 + p->lowered[i].hash;
	return (int64_t)h;
}

static void clear_boundary(struct zr_session *s, int stop)
{
	memset(&s->boundary, 0, sizeof s->boundary);
	s->boundary.bad_tensor = INT64_MAX;
	s->boundary.stop = stop;
	s->boundary.check = programs_hash(s->setup);
}

static int run_micro_batches(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	int rc = 0;
	for (int64_t m = 0; !rc && m < p->batch.accumulation; m++) {
		prepare(s, p->source, ZR_SPLIT_TRAIN, m * p->process.world + p->process.rank);
		int last = m + 1 == p->batch.accumulation;
		rc = zr_run(s, last ? ZR_S_LAST : m ? ZR_S_MICRO : ZR_S_FIRST, err);
	}
	return rc;
}

static int learning_rates(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	for (int32_t group = 0; group < p->n_param_groups; group++) {
		double *lr = &s->lr[group];
		struct zr_sched_point at = { .size = sizeof at, .group = group, .step = s->applied,
					     .total_steps = (int64_t)p->train->steps,
					     .base = p->param_group[group].lr };
		int rc = ZR_ASK(&p->scheduler, scheduler, value, err, &at, lr);
		if (rc)
			return rc;
		if (!isfinite(*lr) || *lr < 0)
			return zr_err(err, ZR_EINVAL, "[scheduler] %s answers %g for step %lld; a "
				      "learning rate is finite and not negative",
				      p->scheduler.section->plugin->desc->id, *lr,
				      (long long)s->applied);
	}
	return 0;
}

/* The factor that turns the stored sum into the mean gradient, clipped to the global norm. */
static double clip(double mult, double norm, double limit)
{
	double ratio = limit > 0 ? (norm + 1e-6) / limit : 0;
	return ratio > 1 ? mult / ratio : mult;
}

static uint64_t bytes_in(const struct zr_session *s)
{
	const struct zr_instance *comm[] = { &s->setup->comm, &s->setup->host_comm };
	uint64_t sum = s->in_place;
	for (int i = 0; i < 2; i++)
		sum += comm[i]->inst ? ((const struct zr_comm_v1 *)comm[i]->vtbl)
					       ->bytes_sent(comm[i]->inst) : 0;
	return sum;
}

static void name_overflow(const struct zr_session *s, struct zr_step_result *r)
{
	const struct zr_layout *layout = &s->setup->layout;
	if (s->boundary.bad_tensor != INT64_MAX) {
		const struct zr_place *t = &layout->tensor[s->boundary.bad_tensor];
		r->overflow = t->decl->name;
		r->unit = layout->unit[t->unit].name;
	} else if (!isfinite(r->loss)) {
		r->overflow = "loss";
	}
}

/* With updates in the backward it is too late to leave the weights as they were. */
static int refuse_late(struct zr_session *s, const struct zr_step_result *r, struct zr_error *err)
{
	s->torn = r->action != ZR_STEP_APPLY && s->setup->program[ZR_PROG_LAST_MICRO].updates;
	if (!s->torn)
		return 0;
	return zr_err(err, ZR_ENUMERIC, "step %lld: non-finite numbers in %s%s, rank %d, and other "
		      "units are updated by then (update_in_backward): what is left is the last "
		      "checkpoint, if there is one", (long long)s->step + 1,
		      r->unit ? "the gradient of " : "the ", r->overflow, r->bad_rank);
}

/* What all gradients together say: norm, loss, whether the step counts. */
static int meet(struct zr_session *s, struct zr_step_result *r, double mult, double targets,
		struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	struct zr_boundary *b = &s->boundary;
	int rc = zr_run(s, ZR_S_BOUNDARY, err);
	if (rc)
		return rc;
	*r = (struct zr_step_result){ .tokens = p->batch.train * p->batch.length,
				      .scale = s->scale.scale, .lr = s->lr[0], .stop = (int)b->stop,
				      .bad_rank = (int)b->bad_rank };
	r->loss = targets > 0 ? (float)(zr_exact_value(&b->loss) / targets) : 0;
	r->aux_loss = zr_exact_value(&b->aux_loss) / (double)p->batch.slots;
	r->grad_norm = sqrt(zr_exact_value(&b->norm)) * mult;
	name_overflow(s, r);
	rc = ZR_ASK(&p->precision, precision, next, err, &s->scale, r->overflow != NULL,
		    &r->action);
	r->next_scale = s->scale.scale;
	return rc ? rc : refuse_late(s, r, err);
}

int zr_session_step(struct zr_session *s, int stop, struct zr_step_result *r, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	double tokens = (double)(p->batch.train * p->batch.length), targets, mult;
	uint64_t before = bytes_in(s);
	clear_boundary(s, stop);
	int rc = zr_count_targets(s, &targets, err);
	mult = rc || !(targets > 0) ? 0 :
		       1 / ((double)p->batch.slots * s->scale.scale) * (tokens / targets);
	s->grad_mult = mult; /* what an update in the backward goes by: nothing is clipped then */
	rc = rc ? rc : learning_rates(s, err);
	rc = rc ? rc : run_micro_batches(s, err);
	rc = rc ? rc : meet(s, r, mult, targets, err);
	if (rc)
		return rc;
	s->grad_mult = clip(mult, r->grad_norm, p->train->gradient_clipping);
	if (r->action == ZR_STEP_APPLY) {
		rc = zr_run(s, ZR_S_UPDATE, err);
		s->applied += !rc;
	}
	s->step += !rc;
	r->received = bytes_in(s) - before;
	return rc;
}

/* What the host reads of the batch: its tokens are the first operand of the program. */
static const char *host_batch(const struct zr_session *s)
{
	return s->bound[ZR_S_EVAL].at[0] - s->setup->plan.tokens;
}

int zr_session_eval(struct zr_session *s, struct zr_source *from, int64_t sequences, int64_t slot,
		    struct zr_rows *rows, struct zr_error *err)
{
	const struct zr_plan *p = &s->setup->plan;
	const char *at = host_batch(s);
	s->sequences = sequences;
	prepare(s, from, ZR_SPLIT_VAL, slot);
	int rc = zr_run(s, ZR_S_EVAL, err);
	s->sequences = 0;
	*rows = (struct zr_rows){ s->call.batch * s->call.length,
				  (const int32_t *)(at + p->targets),
				  (const float *)(at + p->loss_rows),
				  (const float *)(at + p->right_rows),
				  s->call.weights ? (const float *)(at + p->weights) : NULL };
	return rc;
}

int zr_session_logits(struct zr_session *s, const int32_t *tokens, int64_t past, int64_t n,
		      float *logits, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_model_v1 *model = zr_model_of(p)->vtbl;
	if (!ZR_HAS(model, struct zr_model_v1, logits) || !model->logits)
		return zr_err(err, ZR_ENOTSUP, "model %s cannot sample: it has no logits",
			      p->model.section->plugin->desc->id);
	prepare(s, NULL, ZR_SPLIT_VAL, 0);
	s->given = tokens;
	s->call.batch = 1;
	s->call.length = n;
	s->call.past = past;
	s->call.flags = ZR_CALL_EACH_ROW;
	int rc = zr_run(s, ZR_S_EVAL, err);
	if (!rc)
		memcpy(logits, host_batch(s) + p->plan.loss_sum, p->plan.loss_bytes);
	return rc;
}
