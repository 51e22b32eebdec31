/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - what the training learns from, or is evaluated on: micro-batches of the data, and the
 * sum of weights of all targets that a step's loss and gradient are divided by.
 */
#include <math.h>
#include <string.h>

#include "core/exec/exec.h"

static struct zr_batch request(const struct zr_session *s, int32_t split, int64_t slot)
{
	const struct zr_setup_facts *f = s->facts;
	return (struct zr_batch){ .size = sizeof(struct zr_batch),
				  .split = split,
				  .seed = (uint64_t)f->train->seed,
				  .step = split == ZR_SPLIT_TRAIN ? s->step : 0,
				  .slot = slot,
				  .slots = f->batch.slots,
				  .sequences = f->batch.micro,
				  .length = f->batch.length };
}

/* Whether a value of row r is out of its range: kernels use these as indices. */
static int is_wrong(const struct zr_batch *b, const struct zr_model_decl *d, int64_t r)
{
	if (d->vocabulary && (b->inputs[r] < 0 || b->inputs[r] >= d->vocabulary ||
			      b->targets[r] < ZR_PADDING || b->targets[r] >= d->vocabulary))
		return 1;
	if (!b->starts)
		return 0;

	/* a document starts here, or the one of the token before goes on */
	int64_t t = r % b->length, start = b->starts[r];
	if (start != t && (!t || start < 0 || start != b->starts[r - 1]))
		return 1;
	if (b->positions[r] < 0 || b->positions[r] >= d->context)
		return 1;
	if (!(b->weights[r] >= 0 && isfinite(b->weights[r])))
		return 1;
	return b->targets[r] < 0 && b->weights[r] > 0;
}

static int wrong_row(const struct zr_session *s, const struct zr_source *d,
		     const struct zr_batch *b, int64_t r, struct zr_error *err)
{
	int start = 0, position = (int)(r % b->length);
	double weight = 1;
	if (b->starts) {
		start = b->starts[r];
		position = b->positions[r];
		weight = (double)b->weights[r];
	}

	return zr_err(err, ZR_EINVAL,
		      "[%s] %s: token %lld of slot %lld has "
		      "start %d, position %d, token %d, target %d of %lld and "
		      "weight %g, which do not fit together",
		      d->it.section->name, d->it.section->plugin->desc->id, (long long)r,
		      (long long)b->slot, start, position, b->inputs[r], b->targets[r],
		      (long long)s->facts->decl.vocabulary, weight);
}

static int check_rows(const struct zr_session *s, const struct zr_source *d,
		      const struct zr_batch *b, struct zr_error *err)
{
	for (int64_t r = 0; r < b->sequences * b->length; r++)
		if (is_wrong(b, &s->facts->decl, r))
			return wrong_row(s, d, b, r, err);
	return 0;
}

/* The last micro-batch of an evaluation is filled up with rows that have no target. */
static void leave_out(const struct zr_batch *b, int64_t sequences)
{
	int64_t left = (sequences - b->slot * b->sequences) * b->length;
	if (left < 0)
		left = 0;

	for (int64_t r = left; r < b->sequences * b->length; r++) {
		b->targets[r] = ZR_NO_TARGET;
		if (b->weights)
			b->weights[r] = 0;
	}
}

static void count_positions(int32_t *position, int64_t n, int64_t first)
{
	for (int64_t t = 0; t < n; t++)
		position[t] = (int32_t)(first + t);
}

int zr_load_batch(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_plan *p = s->plan;
	struct zr_source *d = s->from;
	char *at = c->at[ZR_O_BATCH_TOKENS] - p->tokens;
	struct zr_batch b = request(s, s->split, s->slot);

	b.once = s->sequences > 0;
	b.inputs = (int32_t *)(at + p->tokens);
	b.targets = (int32_t *)(at + p->targets);
	if (zr_has_documents(d)) {
		b.starts = (int32_t *)(at + p->starts);
		b.positions = (int32_t *)(at + p->positions);
		b.weights = (float *)(at + p->weights);
	}
	if (!b.starts && zr_sliced(&s->facts->slices))
		count_positions((int32_t *)(at + p->positions), b.length, 0);
	int rc = ZR_ASK(&d->it, data, batch, c->err, &b);
	if (!rc)
		rc = check_rows(s, d, &b, c->err);
	if (!rc && b.once)
		leave_out(&b, s->sequences);
	return rc;
}

/* Of who samples: no targets, but positions, since there may be tokens before. */
int zr_take_given(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_plan *p = s->plan;
	char *tokens = c->at[ZR_O_GIVEN_TOKENS];
	int32_t *position = (int32_t *)(tokens + (p->positions - p->tokens));
	memcpy(tokens, s->given, (size_t)s->call.length * sizeof *s->given);
	count_positions(position, s->call.length, s->call.past);
	return 0;
}

int zr_count_targets(struct zr_session *s, double *sum, struct zr_error *err)
{
	struct zr_source *d = s->roles->source;
	struct zr_batch b = request(s, ZR_SPLIT_TRAIN, 0);
	*sum = (double)(b.slots * b.sequences * b.length);
	if (!zr_has_documents(d))
		return 0;

	int rc = ZR_ASK(&d->it, data, targets, err, &b, sum);
	if (rc || (*sum >= 0 && isfinite(*sum)))
		return rc;
	return zr_err(err, ZR_EINVAL, "[%s] %s: targets() answers %g, expected the sum of weights",
		      d->it.section->name, d->it.section->plugin->desc->id, *sum);
}
