/* SPDX-License-Identifier: Apache-2.0
 *
 * step.c - one optimizer step: micro-batches, the boundary (loss, norm, non-finite numbers, step or skip, learning
 * rate), the update. Also evaluation and logits, which replay the forward program.
 *
 * Scaling: a slot's gradient is that of scale * (its mean token loss); the sum over slots times
 * 1 / (slots * scale) is the gradient of the mean loss. All factors are constants of the slot.
 */
#include <math.h>
#include <string.h>

#include "core/tier.h"

static void prepare_call(struct zr_session *s, int training, int64_t slot)
{
	struct zr_setup *p = s->setup;
	char *batch = s->region[ZR_R_BATCH];
	double rows = (double)(p->batch.micro * p->batch.length);
	s->call = (struct zr_layer_call){
		.size = sizeof s->call,
		.training = training,
		.dtype = p->types.dtype,
		.batch = p->batch.micro,
		.length = p->batch.length,
		.tokens = (int32_t *)(batch + p->plan.tokens),
		.targets = (int32_t *)(batch + p->plan.targets),
		.loss_rows = (float *)(batch + p->plan.loss_rows),
		.loss_sum = (double *)(batch + p->plan.loss_sum),
		.grad_scale = (float)(s->scale.scale / rows),
		.rng = { .seed = (uint64_t)p->train->seed, .step = (uint64_t)s->step, .slot = (uint32_t)slot },
		.ops = p->ops,
	};
}

/* What the host reads and writes of the batch: the device's own where it can. */
static char *host_batch(const struct zr_session *s)
{
	const struct zr_setup *p = s->setup;
	return p->device_info.host_access ? s->region[ZR_R_BATCH] : s->region[ZR_R_HOST] + p->plan.host_batch;
}

static int send_tokens(struct zr_session *s, struct zr_error *err)
{
	s->err = err;
	if (s->setup->device_info.host_access)
		return 0;
	return zr_copy(s, s->region[ZR_R_BATCH] + s->setup->plan.tokens, host_batch(s) + s->setup->plan.tokens,
		       s->setup->plan.loss_rows - s->setup->plan.tokens);
}

static int load_batch(struct zr_session *s, int split, int64_t slot, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_data_v1 *data = p->data.vtbl;
	char *batch = host_batch(s);
	s->err = err;
	struct zr_batch b = {
		.size = sizeof b,
		.split = split,
		.seed = (uint64_t)p->train->seed,
		.step = split == ZR_SPLIT_TRAIN ? s->step : 0,
		.slot = slot,
		.slots = p->batch.slots,
		.sequences = p->batch.micro,
		.length = p->batch.length,
		.inputs = (int32_t *)(batch + p->plan.tokens),
		.targets = (int32_t *)(batch + p->plan.targets),
	};
	int rc = data->batch(p->data.inst, &b);
	return zr_instance_failed(&p->data, rc, "batch", err) ? rc : send_tokens(s, err);
}

static int add_loss(struct zr_session *s, struct zr_error *err)
{
	uint64_t at = s->setup->plan.loss_sum;
	s->err = err;
	int rc = s->setup->device_info.host_access ? 0 : zr_copy(s, host_batch(s) + at, s->region[ZR_R_BATCH] + at, sizeof(double));
	if (!rc)
		zr_exact_add(&s->boundary.loss, *(double *)(host_batch(s) + at));
	return rc;
}

/* All programs and settings in one number, which every rank must agree on. */
static int64_t programs_hash(const struct zr_setup *p)
{
	uint64_t h = p->settings;
	for (int i = 0; i < 4; i++)
		h = h * 31 + p->program[i].hash;
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
	for (int64_t m = 0; m < p->batch.accumulation; m++) {
		int64_t slot = m * p->process.world + p->process.rank;
		int last = m + 1 == p->batch.accumulation;
		int rc = zr_failed_in(s, load_batch(s, ZR_SPLIT_TRAIN, slot, err), "batch");
		prepare_call(s, 1, slot);
		s->slot_index = m;
		if (!rc)
			rc = zr_replay(s, last ? ZR_PROG_LAST_MICRO : ZR_PROG_MICRO, err);
		if (!rc)
			rc = zr_failed_in(s, add_loss(s, err), "loss");
		if (rc)
			return rc;
	}
	return 0;
}

/* The block sums, from where the device alone can write them. */
static int fetch_sums(struct zr_session *s, struct zr_error *err)
{
	const struct zr_plan *p = &s->setup->plan;
	uint64_t blocks = (uint64_t)s->setup->layout.blocks;
	const char *from = s->region[ZR_R_MEASURE];
	s->err = err;
	if (s->setup->device_info.host_ops || p->region[ZR_R_GRAD].store != ZR_STORE_DEVICE)
		return 0;
	int rc = zr_copy(s, s->region[ZR_R_HOST] + p->sumsq, from + p->measure.sumsq, blocks * sizeof(double));
	return rc ? rc : zr_copy(s, s->region[ZR_R_HOST] + p->nonfinite, from + p->measure.nonfinite, blocks * sizeof(uint32_t));
}

/* Squares of the gradients in this rank's home blocks, from the last fold; its first tensor with non-finite ones. */
static int measure(struct zr_session *s, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	int rc = fetch_sums(s, err);
	if (rc)
		return rc;
	const double *sumsq = (const double *)(s->region[ZR_R_HOST] + p->plan.sumsq);
	const uint32_t *bad = (const uint32_t *)(s->region[ZR_R_HOST] + p->plan.nonfinite);
	for (int32_t i = 0; i < p->layout.n_tensors; i++) {
		const struct zr_place *t = &p->layout.tensor[i];
		const struct zr_unit_memory *m = &p->plan.unit[t->unit];
		int64_t start = p->layout.unit[t->unit].block, lo = start + m->first, hi = p->frozen_unit[t->unit] ? lo : lo + m->n;
		for (int64_t b = t->block > lo ? t->block : lo; b < t->block + t->blocks && b < hi; b++) {
			if (bad[b] && s->boundary.bad_tensor == INT64_MAX)
				s->boundary.bad_tensor = i;
			zr_exact_add(&s->boundary.norm, sumsq[b]);
		}
	}
	return 0;
}

static int learning_rate(struct zr_session *s, int32_t group, double *lr, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_scheduler_v1 *scheduler = p->scheduler.vtbl;
	struct zr_sched_point at = { .size = sizeof at, .group = group, .step = s->applied, .total_steps = (int64_t)p->train->steps,
				     .base = p->param_group[group].lr };
	int rc = scheduler->value(p->scheduler.inst, &at, lr);
	if (zr_instance_failed(&p->scheduler, rc, "value", err))
		return rc;
	if (!isfinite(*lr) || *lr < 0)
		return zr_err(err, ZR_EINVAL, "[scheduler] %s answers %g for step %lld; a learning rate is finite and not negative",
			      p->scheduler.section->plugin->desc->id, *lr, (long long)s->applied);
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
		sum += comm[i]->inst ? ((const struct zr_comm_v1 *)comm[i]->vtbl)->bytes_sent(comm[i]->inst) : 0;
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

static int learning_rates(struct zr_session *s, struct zr_error *err)
{
	int rc = 0;
	for (int32_t g = 0; !rc && g < s->setup->n_param_groups; g++)
		rc = learning_rate(s, g, &s->lr[g], err);
	return rc;
}

/* With updates in the backward it is too late to leave the weights as they were. */
static int refuse_late(struct zr_session *s, const struct zr_step_result *r, struct zr_error *err)
{
	s->torn = r->action != ZR_STEP_APPLY && s->early;
	if (!s->torn)
		return 0;
	return zr_err(err, ZR_ENUMERIC, "step %lld: non-finite numbers in %s%s, rank %d, and other units are updated by then "
		      "(update_in_backward): what is left is the last checkpoint, if there is one", (long long)s->step + 1, r->unit ? "the gradient of " : "the ",
		      r->overflow, r->bad_rank);
}

/* What all gradients together say: norm, loss, whether the step counts. */
static int meet(struct zr_session *s, struct zr_step_result *r, double mult, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_precision_v1 *precision = p->precision.vtbl;
	struct zr_boundary *b = &s->boundary;
	int rc = zr_failed_in(s, measure(s, err), "sums of squares");
	if (!rc)
		rc = zr_failed_in(s, zr_boundary_exchange(s, b, err), "exchange of loss and norm");
	if (rc)
		return rc;
	*r = (struct zr_step_result){ .tokens = p->batch.train * p->batch.length, .scale = s->scale.scale, .lr = s->lr[0],
				      .stop = (int)b->stop, .bad_rank = (int)b->bad_rank };
	r->loss = (float)(zr_exact_value(&b->loss) / (double)r->tokens);
	r->grad_norm = sqrt(zr_exact_value(&b->norm)) * mult;
	name_overflow(s, r);
	rc = precision->next(p->precision.inst, &s->scale, r->overflow != NULL, &r->action);
	r->next_scale = s->scale.scale;
	return zr_instance_failed(&p->precision, rc, "next", err) ? rc : refuse_late(s, r, err);
}

int zr_session_step(struct zr_session *s, int stop, struct zr_step_result *r, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	double mult = 1 / ((double)p->batch.slots * s->scale.scale);
	uint64_t before = bytes_in(s);
	clear_boundary(s, stop);
	s->update_seconds = 0;
	s->grad_mult = mult; /* what an update in the backward goes by: nothing is clipped then */
	int rc = learning_rates(s, err);
	if (!rc)
		rc = run_micro_batches(s, err);
	if (!rc)
		rc = meet(s, r, mult, err);
	if (rc)
		return rc;
	s->grad_mult = clip(mult, r->grad_norm, p->train->gradient_clipping);
	if (r->action == ZR_STEP_APPLY) {
		rc = zr_replay(s, ZR_PROG_UPDATE, err);
		r->update_seconds = s->update_seconds;
		s->applied += !rc;
	}
	s->step += !rc;
	r->received = bytes_in(s) - before;
	return rc;
}

/* Batches go round the ranks; in the last round some ranks only take part. */
int zr_session_eval(struct zr_session *s, double *loss, struct zr_error *err)
{
	const struct zr_setup *p = s->setup;
	int64_t n = (int64_t)p->train->eval_batches, world = p->process.world;
	clear_boundary(s, 0);
	for (int64_t i = 0; i < (n + world - 1) / world; i++) {
		int64_t slot = i * world + p->process.rank;
		int rc = load_batch(s, ZR_SPLIT_VAL, slot, err);
		prepare_call(s, 0, slot);
		if (!rc)
			rc = zr_replay(s, ZR_PROG_EVAL, err);
		if (!rc && slot < n)
			rc = add_loss(s, err);
		if (rc)
			return rc;
	}
	int rc = zr_boundary_exchange(s, &s->boundary, err);
	*loss = zr_exact_value(&s->boundary.loss) / (double)(n * p->batch.micro * p->batch.length);
	return rc;
}

int zr_session_logits(struct zr_session *s, const int32_t *tokens, int64_t n, float *logits, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	const struct zr_model_v1 *model = p->model.vtbl;
	char *batch = host_batch(s);
	int32_t last = (int32_t)p->decl.n_layers - 1;
	if (!ZR_HAS(model, struct zr_model_v1, logits) || !model->logits)
		return zr_err(err, ZR_ENOTSUP, "model %s cannot sample: it has no logits", p->model.section->plugin->desc->id);
	memcpy(batch + p->plan.tokens, tokens, (size_t)n * sizeof *tokens);
	memcpy(batch + p->plan.targets, tokens, (size_t)n * sizeof *tokens);
	int rc = send_tokens(s, err);
	prepare_call(s, 0, 0);
	s->call.batch = 1;
	s->call.length = n;
	if (!rc)
		rc = zr_replay(s, ZR_PROG_EVAL, err);
	if (rc)
		return rc;
	/* the program ended with the loss layer, whose call is still in place */
	s->call.layer = last;
	float *out = p->device_info.host_ops ? logits : (float *)s->region[ZR_R_LOGITS];
	rc = model->logits(p->model.inst, &s->call, n - 1, out);
	if (rc)
		return zr_user_failed(s, &p->model, rc, "logits");
	return out == logits ? 0 : zr_copy(s, logits, out, (uint64_t)p->decl.vocabulary * sizeof *logits);
}
