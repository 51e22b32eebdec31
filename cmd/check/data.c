/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - tests of data plugins: each micro-batch is a function of seed, step and slot.
 */
#include <math.h>
#include <string.h>
#include <zeroth/data.h>

#include "cmd/check/check.h"

enum { ROWS = 3, LENGTH = 16, TOKENS = ROWS * LENGTH, BATCHES = 12 };

struct drawn {
	int32_t inputs[TOKENS], targets[TOKENS], starts[TOKENS], positions[TOKENS];
	float weights[TOKENS];
};

static struct zr_data_info info_of(struct zr_try *t)
{
	struct zr_check *c = t->c;
	const struct zr_data_v1 *v = c->vtbl;
	const struct zr_data_info empty = { .size = sizeof empty };
	struct zr_data_info *lent = zr_lend(c, "struct zr_data_info", &empty, sizeof empty,
					    sizeof empty), info;
	zr_must(t, ZR_CALL(c, ZR_MAIN, "info", v->info(t->inst, lent)));
	memcpy(&info, lent, sizeof info);
	zr_area_free(c, lent);
	if (info.vocabulary < 0 || info.vocabulary > INT32_MAX)
		zr_check_fail(c, "vocabulary is %lld", (long long)info.vocabulary);
	if (!memchr(info.describe, 0, sizeof info.describe) || !*info.describe)
		zr_check_fail(c, "`describe` is no line for people; fill it in");
	if (info.flags & ~ZR_DATA_DOCUMENTS)
		zr_check_fail(c, "flags has unknown bits 0x%x", info.flags & ~ZR_DATA_DOCUMENTS);
	if (info.flags & ZR_DATA_DOCUMENTS && !v->targets)
		zr_check_fail(c, "with ZR_DATA_DOCUMENTS it needs targets()");
	return info;
}

static void look_at_row(struct zr_check *c, const struct zr_data_info *info, const struct drawn *d,
			int row)
{
	const int documents = info->flags & ZR_DATA_DOCUMENTS;
	for (int k = 0; k < LENGTH; k++) {
		const int i = row * LENGTH + k;
		if (d->inputs[i] < 0 || (info->vocabulary && d->inputs[i] >= info->vocabulary))
			zr_check_fail(c, "token %d of a batch is %d, expected one below the "
				      "vocabulary of %lld", i, d->inputs[i],
				      (long long)info->vocabulary);
		if (!documents && k + 1 < LENGTH && d->targets[i] != d->inputs[i + 1])
			zr_check_fail(c, "target %d of a row is %d, and the token behind input %d "
				      "is %d", k, d->targets[i], k, d->inputs[i + 1]);
		if (documents && (d->starts[i] < 0 || d->starts[i] > k || d->positions[i] < 0 ||
				  d->positions[i] >= LENGTH || !(d->weights[i] >= 0) ||
				  !isfinite(d->weights[i])))
			zr_check_fail(c, "token %d of a row has start %d, position %d and weight "
				      "%g", k, d->starts[i], d->positions[i], d->weights[i]);
	}
}

/* Batch number `i` of those that the tests draw. */
static struct drawn draw(struct zr_try *t, const struct zr_data_info *info, int i)
{
	struct zr_check *c = t->c;
	const struct zr_data_v1 *v = c->vtbl;
	const int documents = info->flags & ZR_DATA_DOCUMENTS;
	struct drawn d = { 0 };
	struct zr_batch b = { .size = sizeof b, .split = ZR_SPLIT_TRAIN,
			      .seed = (uint64_t)(7 + i / 8), .step = i / 2, .slot = i % 2,
			      .slots = 2, .sequences = ROWS, .length = LENGTH };
	const char *names[] = { "the inputs", "the targets", "the starts", "the positions" };
	int32_t **to[] = { &b.inputs, &b.targets, &b.starts, &b.positions };
	for (int k = 0; k < (documents ? 4 : 2); k++) {
		*to[k] = zr_area(c, names[k], sizeof d.inputs, 4);
		memset(*to[k], 0xa5, sizeof d.inputs);
	}
	b.weights = documents ? zr_area(c, "the weights", sizeof d.weights, 4) : NULL;
	struct zr_batch *lent = zr_lend(c, "struct zr_batch", &b, sizeof b, sizeof b);
	zr_area_protect(c, lent, 1);
	t->code = 0;
	zr_must(t, ZR_CALL(c, ZR_STEP, "batch", v->batch(t->inst, lent)));
	memcpy(d.inputs, b.inputs, sizeof d.inputs);
	memcpy(d.targets, b.targets, sizeof d.targets);
	if (documents) {
		memcpy(d.starts, b.starts, sizeof d.starts);
		memcpy(d.positions, b.positions, sizeof d.positions);
		memcpy(d.weights, b.weights, sizeof d.weights);
		zr_area_free(c, b.starts);
		zr_area_free(c, b.positions);
		zr_area_free(c, b.weights);
	}
	zr_area_free(c, b.inputs);
	zr_area_free(c, b.targets);
	zr_area_free(c, lent);
	for (int row = 0; row < ROWS; row++)
		look_at_row(c, info, &d, row);
	return d;
}

/* An instance that is prepared for LENGTH; what does not suit it skips the test. */
static struct zr_data_info open_prepared(struct zr_check *c, struct zr_try *t)
{
	const struct zr_data_v1 *v = c->vtbl;
	zr_try_open(c, t);
	struct zr_data_info info = info_of(t);
	const int64_t vocabulary = info.vocabulary ? info.vocabulary : 65536;
	t->code = 0;
	zr_try_options_suit(t, ZR_CALL(c, ZR_MAIN, "prepare",
				       v->prepare(t->inst, LENGTH, vocabulary)));
	return info_of(t);
}

void zr_test_data(struct zr_check *c)
{
	struct zr_try t = { .c = c };
	struct drawn d[BATCHES], again;
	int differ = 0;
	const struct zr_data_info info = open_prepared(c, &t);
	for (int i = 0; i < BATCHES; i++) {
		d[i] = draw(&t, &info, i);
		differ |= memcmp(d[i].inputs, d[0].inputs, sizeof d->inputs) != 0;
	}
	if (!differ)
		zr_check_fail(c, "all of %d batches are the same", BATCHES);
	for (int i = BATCHES - 1; i >= 0; i -= 5) {
		again = draw(&t, &info, i);
		if (memcmp(&again, &d[i], sizeof again))
			zr_check_fail(c, "step %d, slot %d gets other tokens when it is asked for "
				      "again; use seed, step and slot alone", i / 2, i % 2);
	}
	zr_try_close(&t);
}

void zr_test_data_again(struct zr_check *c)
{
	struct zr_try t = { .c = c }, other = { .c = c, .rank = 1, .world = 2 };
	struct drawn d[BATCHES];
	struct zr_data_info info = open_prepared(c, &t);
	for (int i = 0; i < BATCHES; i++)
		d[i] = draw(&t, &info, i);
	zr_try_close(&t);
	info = open_prepared(c, &other);
	for (int i = BATCHES / 2; i < BATCHES; i++) { /* a run that resumes, on another rank */
		struct drawn again = draw(&other, &info, i);
		if (memcmp(&again, &d[i], sizeof again))
			zr_check_fail(c, "a run that resumes, on rank 1 of 2, gets other tokens "
				      "for step %d, slot %d; use seed, step and slot alone", i / 2,
				      i % 2);
	}
	zr_try_close(&other);
}

/* The sum of weights that targets() promises before a step is that of its batches. */
void zr_test_data_weights(struct zr_check *c)
{
	const struct zr_data_v1 *v = c->vtbl;
	struct zr_try t = { .c = c };
	const struct zr_data_info info = open_prepared(c, &t);
	if (!(info.flags & ZR_DATA_DOCUMENTS))
		zr_check_skip(c, "all its tokens count alike");
	for (int step = 0; step < 4; step++) {
		struct zr_batch b = { .size = sizeof b, .seed = 7, .step = step, .slots = 2,
				      .sequences = ROWS, .length = LENGTH };
		double promised = NAN, sum = 0;
		zr_must(&t, ZR_CALL(c, ZR_STEP, "targets", v->targets(t.inst, &b, &promised)));
		for (int slot = 0; slot < 2; slot++) {
			struct drawn d = draw(&t, &info, step * 2 + slot);
			for (int i = 0; i < TOKENS; i++)
				sum += d.targets[i] >= 0 ? (double)d.weights[i] : 0;
		}
		if (!(fabs(promised - sum) <= 1e-6 * sum))
			zr_check_fail(c, "for step %d targets() says %g, and the weights of its "
				      "batches are %g together", step, promised, sum);
	}
	zr_try_close(&t);
}
