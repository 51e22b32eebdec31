/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.c - see evaluate.h.
 */
#include "train/evaluate.h"

#include <math.h>
#include <xxhash.h>

#include "core/exec/exec.h"

enum { LOSS, RIGHT, WEIGHT, TARGETS, BYTES, SUMS };

int zr_eval_once(const struct zr_setup *s, struct zr_source *from, int64_t want,
		 struct zr_eval_set *out, struct zr_error *err)
{
	int64_t all = from->info.val_sequences, micro = s->facts.batch.micro;
	int knows = ZR_HAS(&from->info, struct zr_data_info, val_sequences) && all > 0;
	const char *section = from->it.section->name;

	if (!from->info.val_tokens)
		return zr_err(err, ZR_EINVAL, "[%s] %s: nothing is held out to evaluate on",
			      section, from->info.describe);
	if (!knows && !want)
		return zr_err(err, ZR_ENOTSUP,
			      "[%s] %s does not say how many sequences it has: "
			      "say how many are to be evaluated",
			      section, from->it.section->plugin->desc->id);

	want = knows && (!want || want > all) ? all : want;
	*out = (struct zr_eval_set){ from, (want + micro - 1) / micro, want };
	return 0;
}

static void add_rows(struct zr_exact sum[SUMS], const struct zr_rows *rows, const uint16_t *bytes)
{
	for (int64_t r = 0; r < rows->n; r++) {
		double weight = rows->weights ? (double)rows->weights[r] : 1;
		if (rows->targets[r] < 0)
			continue;

		zr_exact_add(&sum[LOSS], (double)rows->loss[r]);
		zr_exact_add(&sum[RIGHT], (double)rows->right[r]);
		zr_exact_add(&sum[WEIGHT], weight);
		zr_exact_add(&sum[TARGETS], 1);
		if (bytes)
			zr_exact_add(&sum[BYTES], weight * bytes[rows->targets[r]]);
	}
}

/* Of all ranks, by way of the two sums that they exchange after a step. */
static int meet(struct zr_session *s, struct zr_exact *a, struct zr_exact *b, struct zr_error *err)
{
	struct zr_boundary *sums = &s->decided->boundary;

	*sums = (struct zr_boundary){ .loss = *a, .norm = *b, .bad_tensor = INT64_MAX };
	int rc = zr_run_program(s, ZR_S_MEET, err);
	*a = sums->loss;
	*b = sums->norm;
	return rc;
}

static void conclude(struct zr_exact sum[SUMS], struct zr_eval_result *out)
{
	double value[SUMS];
	uint64_t h = 0;

	for (int i = 0; i < SUMS; i++) /* afterwards equal sums have equal digits */
		value[i] = zr_exact_value(&sum[i]);
	for (int i = 0; i < BYTES; i++) {
		h = XXH3_64bits_withSeed(sum[i].limb, sizeof sum[i].limb, h);
		h = XXH3_64bits_withSeed(&sum[i].nonfinite, sizeof sum[i].nonfinite, h);
	}

	*out = (struct zr_eval_result){ .nats = value[LOSS],
					.bytes = value[BYTES],
					.targets = (int64_t)value[TARGETS],
					.digest = h };
	if (value[WEIGHT] > 0) {
		out->loss = value[LOSS] / value[WEIGHT];
		out->accuracy = value[RIGHT] / value[WEIGHT];
	}
}

double zr_eval_per_byte(const struct zr_eval_result *r)
{
	return r->bytes > 0 ? r->nats / log(2) / r->bytes : NAN;
}

int zr_evaluate(struct zr_session *s, const struct zr_eval_set *set, const struct zr_eval_how *how,
		struct zr_eval_result *out, struct zr_error *err)
{
	const struct zr_axis *data = &s->facts->mesh.axis[ZR_AXIS_DATA];
	struct zr_exact sum[SUMS + 1] = { 0 };
	struct zr_rows rows;
	int rc = 0;

	/* in the last round some ranks only take part */
	for (int64_t slot = data->rank; !rc && slot < set->batches + data->rank; slot += data->n) {
		rc = zr_session_eval(s, set->from, set->sequences, slot, &rows, err);
		if (!rc && slot < set->batches)
			add_rows(sum, &rows, how->bytes);
		int64_t done = slot - data->rank + data->n;
		if (!rc && how->tick)
			how->tick(how->arg, done < set->batches ? done : set->batches,
				  set->batches);
	}

	for (int i = 0; !rc && i < SUMS - !how->bytes; i += 2)
		rc = meet(s, &sum[i], &sum[i + 1], err);
	if (!rc)
		conclude(sum, out);
	return rc;
}
