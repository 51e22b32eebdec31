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
					    sizeof empty),
			    info;

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
			zr_check_fail(c,
				      "token %d of a batch is %d, expected one below the "
				      "vocabulary of %lld",
				      i, d->inputs[i], (long long)info->vocabulary);
		if (!documents && k + 1 < LENGTH && d->targets[i] != d->inputs[i + 1])
			zr_check_fail(c,
				      "target %d of a row is %d, and the token behind input %d "
				      "is %d",
				      k, d->targets[i], k, d->inputs[i + 1]);
		if (documents && (d->starts[i] < 0 || d->starts[i] > k || d->positions[i] < 0 ||
				  d->positions[i] >= LENGTH || !(d->weights[i] >= 0) ||
				  !isfinite(d->weights[i])))
			zr_check_fail(c,
				      "token %d of a row has start %d, position %d and weight "
				      "%g",
				      k, d->starts[i], d->positions[i], d->weights[i]);
	}
}

/* Which batch is asked for. */
struct request {
	int32_t split, once;
	uint64_t seed;
	int64_t step, slot, slots;
};

static struct drawn draw(struct zr_try *t, const struct zr_data_info *info,
			 const struct request *of)
{
	struct zr_check *c = t->c;
	const struct zr_data_v1 *v = c->vtbl;
	const int documents = info->flags & ZR_DATA_DOCUMENTS;
	struct drawn d = { 0 };
	struct zr_batch b = { .size = sizeof b,
			      .split = of->split,
			      .once = of->once,
			      .seed = of->seed,
			      .step = of->step,
			      .slot = of->slot,
			      .slots = of->slots,
			      .sequences = ROWS,
			      .length = LENGTH };
	const char *names[] = { "the inputs", "the targets", "the starts", "the positions" };
	int32_t **to[] = { &b.inputs, &b.targets, &b.starts, &b.positions };

	for (int k = 0; k < (documents ? 4 : 2); k++) {
		*to[k] = zr_area_new(c, names[k], sizeof d.inputs, 4);
		memset(*to[k], 0xa5, sizeof d.inputs);
	}

	if (documents)
		b.weights = zr_area_new(c, "the weights", sizeof d.weights, 4);
	else
		b.weights = NULL;
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
	for (int row = 0; row < ROWS && !of->once; row++)
		look_at_row(c, info, &d, row);
	return d;
}

/* Batch number `i` of those that several tests draw. */
static struct drawn draw_nth(struct zr_try *t, const struct zr_data_info *info, int i)
{
	const struct request of = { .split = ZR_SPLIT_TRAIN,
				    .seed = (uint64_t)(7 + i / 8),
				    .step = i / 2,
				    .slot = i % 2,
				    .slots = 2 };

	return draw(t, info, &of);
}

static int same_tokens(const struct drawn *a, const struct drawn *b)
{
	return !memcmp(a->inputs, b->inputs, sizeof a->inputs) &&
	       !memcmp(a->targets, b->targets, sizeof a->targets);
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
		d[i] = draw_nth(&t, &info, i);
		differ |= memcmp(d[i].inputs, d[0].inputs, sizeof d->inputs) != 0;
	}

	if (!differ)
		zr_check_fail(c, "all of %d batches are the same", BATCHES);
	for (int i = BATCHES - 1; i >= 0; i -= 5) {
		again = draw_nth(&t, &info, i);
		if (memcmp(&again, &d[i], sizeof again))
			zr_check_fail(c,
				      "step %d, slot %d gets other tokens when it is asked for "
				      "again; use seed, step and slot alone",
				      i / 2, i % 2);
	}

	zr_try_close(&t);
}

void zr_test_data_again(struct zr_check *c)
{
	struct zr_try t = { .c = c }, other = { .c = c, .rank = 1, .world = 2 };
	struct drawn d[BATCHES];
	struct zr_data_info info = open_prepared(c, &t);

	for (int i = 0; i < BATCHES; i++)
		d[i] = draw_nth(&t, &info, i);
	zr_try_close(&t);
	info = open_prepared(c, &other);
	for (int i = BATCHES / 2; i < BATCHES; i++) { /* a run that resumes, on another rank */
		struct drawn again = draw_nth(&other, &info, i);
		if (memcmp(&again, &d[i], sizeof again))
			zr_check_fail(c,
				      "a run that resumes, on rank 1 of 2, gets other tokens "
				      "for step %d, slot %d; use seed, step and slot alone",
				      i / 2, i % 2);
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
		struct zr_batch b = { .size = sizeof b,
				      .seed = 7,
				      .step = step,
				      .slots = 2,
				      .sequences = ROWS,
				      .length = LENGTH };
		double promised = NAN, sum = 0;
		zr_must(&t, ZR_CALL(c, ZR_STEP, "targets", v->targets(t.inst, &b, &promised)));
		for (int slot = 0; slot < 2; slot++) {
			struct drawn d = draw_nth(&t, &info, step * 2 + slot);
			for (int i = 0; i < TOKENS; i++)
				sum += d.targets[i] >= 0 ? (double)d.weights[i] : 0;
		}

		if (!(fabs(promised - sum) <= 1e-6 * sum))
			zr_check_fail(c,
				      "for step %d targets() says %g, and the weights of its "
				      "batches are %g together",
				      step, promised, sum);
	}

	zr_try_close(&t);
}

/* ---- other requests, other tokens ------------------------------------------------- */

enum { STEPS = 4, SLOTS = 8, SEEDS = 4, FEW = 120, VALIDATED = 8, MOST = 2000 };

/* Whether the options, but for names of files and those without a default, are the defaults: with
 * others an author may want the same order for every seed. */
static int has_defaults(const struct zr_check *c)
{
	const struct zr_table table = zr_table_of(c->plugin->desc);
	const struct zr_opt *o;

	for (uint32_t i = 0; (o = zr_table_next(&table, 0, &i));)
		if (zr_try_given(c, o->name) && o->type != ZR_T_PATH && !(o->flags & ZR_O_REQUIRED))
			return 0;
	return 1;
}

/* No two micro-batches of a few steps are alike. */
static void differ_by_place(struct zr_try *t, const struct zr_data_info *info)
{
	static struct drawn d[STEPS * SLOTS];

	for (int i = 0; i < STEPS * SLOTS; i++) {
		const struct request of = {
			.seed = 7, .step = i / SLOTS, .slot = i % SLOTS, .slots = SLOTS
		};
		d[i] = draw(t, info, &of);
		for (int k = 0; k < i; k++)
			if (same_tokens(&d[i], &d[k]))
				zr_check_fail(t->c,
					      "step %d, slot %d and step %d, slot %d, of %d "
					      "slots, get the same tokens; each slot is another "
					      "micro-batch: use step, slot and slots",
					      k / SLOTS, k % SLOTS, i / SLOTS, i % SLOTS, SLOTS);
	}
}

static void differ_by_seed(struct zr_try *t, const struct zr_data_info *info)
{
	struct request of = { .seed = 7, .slots = 1 };
	const struct drawn first = draw(t, info, &of);

	for (int i = 1; i < SEEDS; i++) {
		of.seed = 7 + (uint64_t)i;
		const struct drawn d = draw(t, info, &of);
		if (!same_tokens(&first, &d))
			return;
	}

	zr_check_fail(t->c,
		      "%d seeds get the same tokens; use b->seed, which is how a user asks "
		      "for another order",
		      SEEDS);
}

void zr_test_data_differ(struct zr_check *c)
{
	struct zr_try t = { .c = c };

	const struct zr_data_info info = open_prepared(c, &t);
	if (info.train_sequences && info.train_sequences < FEW)
		zr_check_skip(c, "it has too few sequences to tell its micro-batches apart");
	differ_by_place(&t, &info);
	if (has_defaults(c))
		differ_by_seed(&t, &info);
	zr_try_close(&t);
}

/* ---- what is held out -------------------------------------------------------------- */

/* Whether one of the batches of an epoch, or of many where it is long, has this sequence. */
static int is_learned(const int32_t *row, const int32_t (*learned)[LENGTH], int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (!memcmp(row, learned[i], sizeof learned[i]))
			return 1;
	return 0;
}

static void draw_learned(struct zr_try *t, const struct zr_data_info *info,
			 int32_t (*learned)[LENGTH], int64_t n)
{
	for (int64_t i = 0; i < n / ROWS; i++) {
		const struct request of = { .seed = 7, .step = i, .slots = 1 };
		const struct drawn d = draw(t, info, &of);
		memcpy(learned[i * ROWS], d.inputs, sizeof d.inputs);
	}
}

void zr_test_data_held_out(struct zr_check *c)
{
	struct zr_try t = { .c = c };

	const struct zr_data_info info = open_prepared(c, &t);
	if (!info.val_tokens || !info.train_tokens)
		zr_check_skip(c, "it has nothing to learn, or nothing to evaluate on");
	int64_t n = info.train_sequences && info.train_sequences < MOST ?
			    info.train_sequences + 2 * ROWS :
			    MOST;
	int32_t(*learned)[LENGTH] =
		zr_area_new(c, "what is learned", (uint64_t)n * sizeof *learned, 4);
	int known = 0, others = 0;
	draw_learned(&t, &info, learned, n);
	for (int slot = 0; slot < VALIDATED; slot++) {
		const struct request held = {
			.split = ZR_SPLIT_VAL, .seed = 7, .slot = slot, .slots = 1
		};
		const struct request train = { .seed = 7, .slot = slot, .slots = VALIDATED };
		const struct drawn d = draw(&t, &info, &held), as = draw(&t, &info, &train);
		others += !same_tokens(&d, &as);
		for (int row = 0; row < ROWS; row++)
			known += is_learned(d.inputs + row * LENGTH, learned, n / ROWS * ROWS);
	}

	if (!others || known == VALIDATED * ROWS)
		zr_check_fail(c,
			      "all of %d sequences of ZR_SPLIT_VAL are learned as well; hold "
			      "out tokens that no batch of ZR_SPLIT_TRAIN has, or say "
			      "val_tokens = 0",
			      VALIDATED * ROWS);
	zr_try_close(&t);
}

/* Behind the last sequence an evaluation that goes over all of them once finds no target. */
void zr_test_data_once(struct zr_check *c)
{
	struct zr_try t = { .c = c };
	const struct zr_data_info info = open_prepared(c, &t);
	const int64_t last = (info.val_sequences + ROWS - 1) / ROWS;
	const struct request of = {
		.split = ZR_SPLIT_VAL, .once = 1, .seed = 7, .slot = last + 1, .slots = 1
	};

	if (!info.val_sequences)
		zr_check_skip(c, "it does not say how many sequences it holds out");
	const struct drawn d = draw(&t, &info, &of);
	for (int i = 0; i < TOKENS; i++)
		if (d.targets[i] != ZR_NO_TARGET)
			zr_check_fail(c,
				      "with `once` evaluation batch %lld, behind the last of "
				      "%lld sequences, has target %d; set ZR_NO_TARGET there: "
				      "sequences would be counted twice",
				      (long long)of.slot, (long long)info.val_sequences,
				      d.targets[i]);
	zr_try_close(&t);
}

/* ---- what it computes -------------------------------------------------------------- */

static const struct request computed[] = {
	{ .seed = 7, .slots = 2 },
	{ .seed = 7, .slot = 1, .slots = 2 },
	{ .seed = 7, .step = 5, .slots = 2 },
	{ .seed = 9, .step = 5, .slots = 2 },
	{ .split = ZR_SPLIT_VAL, .seed = 7, .slots = 1 },
	{ .split = ZR_SPLIT_VAL, .seed = 7, .slot = 2, .slots = 1 },
};

void zr_compute_data(struct zr_check *c, struct zr_results *r)
{
	struct zr_try t = { .c = c };
	const struct zr_data_info info = open_prepared(c, &t);

	for (size_t i = 0; i < sizeof computed / sizeof *computed; i++) {
		struct request of = computed[i];
		of.seed += c->seed;
		if (!(of.split == ZR_SPLIT_VAL ? info.val_tokens : info.train_tokens))
			continue;

		const struct drawn d = draw(&t, &info, &of);
		zr_result_add(c, r, "batch", &d, sizeof d,
			      "the batch of %s, seed %llu, step %lld, "
			      "slot %lld",
			      of.split == ZR_SPLIT_VAL ? "validation" : "training",
			      (unsigned long long)of.seed, (long long)of.step, (long long)of.slot);
	}

	zr_try_close(&t);
	zr_area_free(c, t.opts);
	zr_area_free(c, t.h);
}
