/* SPDX-License-Identifier: Apache-2.0
 *
 * mix.c - sequences of several sets, the sections [data.NAME], in the shares that weights give.
 *
 * Shares are whole numbers of a period: after each one every set has had its exact number of
 * sequences, and within it they are spread evenly (the set that is furthest behind is next). The
 * seed chooses where in the period the run begins. So sequence g of the run, counted over all steps
 * and slots, is at = first + g of an endless row of periods: one of set[at % period], whose own
 * number of it is what earlier periods had of that set, and of[at % period], less what it had
 * before `first`. Nothing is kept between calls. Evaluation goes through the sets that hold
 * something out in the same way, from the start of the period. Where a sequence may not come twice
 * (zr_batch.once), the share of a set is the number of sequences that it holds out: one period has
 * each of them once.
 */
#include <zeroth/data.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "windows.h"
#include "plugins/descriptor.h"

#define SETS   64
#define EXACT  1000000 /* weights have six digits behind the point */
#define PERIOD (1 << 21)
#define ONCE   2 /* beside ZR_SPLIT_*: the order of all that is held out, each sequence once */

struct mix_opts {
	const char *weights;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct mix_opts, weights, ZR_T_STR, ZR_O_REQUIRED | ZR_O_NUMERIC, NULL, 0, 0, "",
	       "Sets and their shares of all sequences: names of sections [data.NAME], each with a "
	       "colon and a weight, as in code:0.7 text:0.3."),
};

struct set {
	char name[64];
	int64_t weight;
	const struct zr_data_v1 *v;
	struct zr_inst *inst;
	struct zr_data_info info;
};

/* Which set each sequence of a period is from, and which of its own within the period. */
struct order {
	int64_t period, share[SETS];
	uint8_t *set;
	uint32_t *of;
	int64_t first, before[SETS]; /* where the run begins, and what each set had until there */
	uint64_t seed;               /* that chose it, once begun */
	int begun;
};

struct zr_inst {
	const struct zr_host *h;
	struct set set[SETS];
	int n;
	struct order order[3]; /* ZR_SPLIT_*, ONCE */
	int documents;         /* of one set at least */
	int64_t length;
	char counted[128]; /* the name of the last count */
};

/* ---- weights --------------------------------------------------------------------------------- */

/* Reads NAME:WEIGHT, or NAME, into the set behind the last one. */
static int read_set(struct zr_inst *inst, const char *word, size_t len)
{
	struct set *s = &inst->set[inst->n];
	const char *colon = memchr(word, ':', len);
	const size_t name = colon ? (size_t)(colon - word) : len;
	char *end = NULL;
	double weight = 1;

	if (colon)
		weight = strtod(colon + 1, &end);
	if (inst->n == SETS || !name || name >= sizeof s->name || (colon && end != word + len) ||
	    !(weight * EXACT >= 1 && weight <= 1e6))
		return zr_fail(inst->h, ZR_EINVAL,
			       "weights: '%.*s': expected NAME:WEIGHT with a "
			       "weight in [1e-06, 1e+06], of at most %d sets",
			       (int)len, word, SETS);

	memcpy(s->name, word, name);
	s->weight = llrint(weight * EXACT);
	return ZR_OK;
}

static int add_set(struct zr_inst *inst, const char *word, size_t len)
{
	struct set *s = &inst->set[inst->n];
	char iface[80];

	int rc = read_set(inst, word, len);
	if (rc)
		return rc;

	for (int i = 0; i < inst->n; i++)
		if (!strcmp(inst->set[i].name, s->name))
			return zr_fail(inst->h, ZR_EINVAL, "weights: %s is named twice", s->name);

	snprintf(iface, sizeof iface, "zr.data/1:%s", s->name);
	s->v = inst->h->get(inst->h, iface, &s->inst);
	if (!s->v)
		return zr_fail(inst->h, ZR_EINVAL, "weights: there is no section [data.%s]",
			       s->name);

	inst->n++;
	return ZR_OK;
}

static int add_sets(struct zr_inst *inst, const char *text)
{
	int rc = ZR_OK;

	for (text += strspn(text, " \t"); !rc && *text; text += strspn(text, " \t")) {
		size_t len = strcspn(text, " \t");
		rc = add_set(inst, text, len);
		text += len;
	}

	if (!rc && !inst->n)
		return zr_fail(inst->h, ZR_EINVAL, "weights: no set is named");

	return rc;
}

/* ---- the order ------------------------------------------------------------------------------- */

static int64_t share_of(const struct set *s, int which)
{
	switch (which) {
	case ONCE:
		return s->info.val_sequences;
	case ZR_SPLIT_VAL:
		return s->info.val_tokens ? s->weight : 0;
	default:
		return s->info.train_tokens ? s->weight : 0;
	}
}

/* The shares in lowest terms. */
static void share_out(struct zr_inst *inst, int which)
{
	struct order *o = &inst->order[which];
	int64_t divisor = 0, a, b, t;
	int i;

	for (i = 0; i < inst->n; i++) {
		o->share[i] = share_of(&inst->set[i], which);
		for (a = divisor, b = o->share[i]; b; t = a % b, a = b, b = t)
			;
		divisor = a;
	}

	for (i = 0; i < inst->n && divisor; i++)
		o->period += o->share[i] /= divisor;
}

static int make_order(struct zr_inst *inst, int which)
{
	struct order *o = &inst->order[which];
	int64_t behind[SETS] = { 0 }, had[SETS] = { 0 };

	share_out(inst, which);
	if (!o->period)
		return ZR_OK;
	if (o->period > PERIOD && which != ONCE)
		return zr_fail(inst->h, ZR_EINVAL,
			       "weights: their shares are exact after %lld "
			       "sequences, %d are allowed: give rounder ones",
			       (long long)o->period, PERIOD);

	o->set = malloc((size_t)o->period * sizeof *o->set);
	o->of = malloc((size_t)o->period * sizeof *o->of);
	if (!o->set || !o->of)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory for an order of %lld sequences",
			       (long long)o->period);

	for (int64_t g = 0; g < o->period; g++) {
		int best = 0;
		for (int i = 0; i < inst->n; i++) {
			behind[i] += o->share[i];
			if (behind[i] > behind[best])
				best = i;
		}

		behind[best] -= o->period;
		o->set[g] = (uint8_t)best;
		o->of[g] = (uint32_t)had[best]++;
	}

	return ZR_OK;
}

static void free_order(struct order *o)
{
	free(o->set);
	free(o->of);
	*o = (struct order){ 0 };
}

/* Where in a period a run of this seed begins. */
static void begin_order(struct order *o, uint64_t seed)
{
	if (o->begun && o->seed == seed)
		return;

	o->begun = 1;
	o->seed = seed;
	o->first = (int64_t)(windows_key(seed, 0) % (uint64_t)o->period);
	memset(o->before, 0, sizeof o->before);
	for (int64_t i = 0; i < o->first; i++)
		o->before[o->set[i]]++;
}

/* The set of sequence g, and the request for it alone, without arrays. */
static const struct set *find_sequence(struct zr_inst *inst, const struct zr_batch *b, int64_t g,
				       struct zr_batch *one)
{
	const int val = b->split == ZR_SPLIT_VAL;
	const int once = ZR_HAS(b, struct zr_batch, once) && b->once;
	struct order *o = &inst->order[once && inst->order[ONCE].period ? ONCE : val];

	if (!val)
		begin_order(o, b->seed);
	const int64_t at = o->first + g, i = at % o->period;
	const int k = o->set[i];
	const int64_t number = at / o->period * o->share[k] + o->of[i] - o->before[k];
	*one = (struct zr_batch){ .size = sizeof *one,
				  .split = b->split,
				  .seed = b->seed,
				  .slots = 1,
				  .sequences = 1,
				  .length = b->length,
				  .once = once };
	if (val)
		one->slot = number;
	else
		one->step = number;

	return &inst->set[k];
}

/* ---- the role -------------------------------------------------------------------------------- */

static int ask(struct zr_inst *inst)
{
	int rc = ZR_OK;

	inst->documents = 0;
	for (int i = 0; i < inst->n && !rc; i++) {
		struct set *s = &inst->set[i];
		s->info = (struct zr_data_info){ .size = sizeof s->info };
		rc = s->v->info(s->inst, &s->info);
		inst->documents |= (s->info.flags & ZR_DATA_DOCUMENTS) != 0;
	}

	return rc;
}

/* 0: a set does not tell how many it has. */
static int64_t sequences_of(const struct zr_inst *inst, int split)
{
	int64_t sum = 0;

	for (int i = 0; i < inst->n; i++) {
		const struct zr_data_info *one = &inst->set[i].info;
		const int val = split == ZR_SPLIT_VAL;
		int64_t n = val ? one->val_sequences : one->train_sequences;
		if (!n && (val ? one->val_tokens : one->train_tokens))
			return 0;

		sum += n;
	}

	return sum;
}

static int mix_info(struct zr_inst *inst, struct zr_data_info *info)
{
	int rc = ask(inst), told = ZR_HAS(info, struct zr_data_info, val_sequences);
	size_t at = 0;

	if (inst->documents)
		info->flags |= ZR_DATA_DOCUMENTS;
	info->vocabulary = info->train_tokens = info->val_tokens = 0;
	for (int i = 0; i < inst->n && !rc; i++) {
		const struct zr_data_info *one = &inst->set[i].info;
		if (one->vocabulary > info->vocabulary)
			info->vocabulary = one->vocabulary;
		info->train_tokens += one->train_tokens;
		info->val_tokens += one->val_tokens;
		if (at < sizeof info->describe)
			at += (size_t)snprintf(info->describe + at, sizeof info->describe - at,
					       "%s%s %.3g", i ? ", " : "", inst->set[i].name,
					       (double)inst->set[i].weight / EXACT);
	}

	if (told) {
		info->train_sequences = sequences_of(inst, ZR_SPLIT_TRAIN);
		info->val_sequences = sequences_of(inst, ZR_SPLIT_VAL);
	}

	return rc;
}

static int mix_prepare(struct zr_inst *inst, int64_t length, int64_t vocabulary)
{
	int rc = ZR_OK;

	for (int i = 0; i < inst->n && !rc; i++)
		rc = inst->set[i].v->prepare(inst->set[i].inst, length, vocabulary);
	inst->length = length;
	if (!rc)
		rc = ask(inst); /* now they tell how many sequences they have */
	free_order(&inst->order[ONCE]);
	if (rc || !sequences_of(inst, ZR_SPLIT_VAL))
		return rc;

	return make_order(inst, ONCE);
}

/* Of a set whose sequences are one document each. */
static void fill_in(const struct zr_batch *b, int64_t first)
{
	for (int64_t t = 0; t < b->length; t++) {
		b->starts[first + t] = 0;
		b->positions[first + t] = (int32_t)t;
		b->weights[first + t] = b->targets[first + t] >= 0;
	}
}

static int mix_batch(struct zr_inst *inst, const struct zr_batch *b)
{
	const int val = b->split == ZR_SPLIT_VAL;
	const int64_t slot = val ? b->slot : b->step * b->slots + b->slot;
	int rc = ZR_OK;

	if (!inst->order[val].period || inst->length != b->length)
		return zr_fail(inst->h, ZR_ESTATE, "%s batches of length %lld were not prepared",
			       windows_split(b->split), (long long)b->length);

	for (int64_t i = 0; i < b->sequences && !rc; i++) {
		const int64_t first = i * b->length;
		struct zr_batch one;
		const struct set *s = find_sequence(inst, b, slot * b->sequences + i, &one);
		const int documents = (s->info.flags & ZR_DATA_DOCUMENTS) != 0;
		one.inputs = b->inputs + first;
		one.targets = b->targets + first;
		one.starts = documents ? b->starts + first : NULL;
		one.positions = documents ? b->positions + first : NULL;
		one.weights = documents ? b->weights + first : NULL;
		rc = s->v->batch(s->inst, &one);
		if (b->starts && !documents)
			fill_in(b, first);
	}

	return rc;
}

static int mix_targets(struct zr_inst *inst, const struct zr_batch *b, double *sum)
{
	const int val = b->split == ZR_SPLIT_VAL;
	int64_t g = (val ? b->slot : b->step * b->slots) * b->sequences;
	const int64_t end = g + (val ? 1 : b->slots) * b->sequences;
	int rc = ZR_OK;

	for (*sum = 0; g < end && !rc && inst->order[val].period; g++) {
		double of_one = (double)b->length;
		struct zr_batch one;
		const struct set *s = find_sequence(inst, b, g, &one);
		if (s->info.flags & ZR_DATA_DOCUMENTS)
			rc = s->v->targets(s->inst, &one, &of_one);
		*sum += of_one;
	}

	return rc;
}

/* The files of all sets, one set after the other. They are counted without what `out` asks for: to
 * hash all bytes of one file must not hash those of every file before it, too. */
static int mix_file(struct zr_inst *inst, uint32_t i, struct zr_data_file *out)
{
	out->name = NULL;
	for (int k = 0; k < inst->n; k++) {
		const struct set *s = &inst->set[k];
		struct zr_data_file counted = { .size = sizeof counted };
		uint32_t n = 0;
		int rc;
		if (!ZR_HAS(s->v, struct zr_data_v1, file) || !s->v->file)
			continue;

		do {
			counted.name = NULL;
			rc = s->v->file(s->inst, n, &counted);
		} while (!rc && counted.name && n++ != i);
		if (rc)
			return rc;
		if (counted.name)
			return s->v->file(s->inst, i, out);

		i -= n;
	}

	return ZR_OK;
}

static int mix_count(struct zr_inst *inst, int32_t split, uint32_t i, struct zr_data_count *out)
{
	int rc = ZR_OK;

	for (int k = 0; k < inst->n; k++) {
		const struct set *s = &inst->set[k];
		uint32_t n = 0;
		out->name = NULL;
		if (!ZR_HAS(s->v, struct zr_data_v1, count) || !s->v->count)
			continue;

		do
			rc = s->v->count(s->inst, split, n, out);
		while (!rc && out->name && n++ != i);
		if (!rc && out->name) {
			snprintf(inst->counted, sizeof inst->counted, "%s: %s", s->name, out->name);
			out->name = inst->counted;
		}

		if (rc || out->name)
			return rc;

		i -= n;
	}

	return rc;
}

static void mix_destroy(struct zr_inst *inst)
{
	for (int i = 0; i <= ONCE; i++)
		free_order(&inst->order[i]);
	free(inst);
}

static int mix_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = calloc(1, sizeof *inst);
	int rc;

	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	rc = add_sets(inst, ((const struct mix_opts *)opts)->weights);
	if (!rc)
		rc = ask(inst);
	if (!rc)
		rc = make_order(inst, ZR_SPLIT_TRAIN);
	if (!rc)
		rc = make_order(inst, ZR_SPLIT_VAL);
	if (rc)
		mix_destroy(inst);
	else
		*out = inst;

	return rc;
}

static const struct zr_data_v1 vtbl = {
	.size = sizeof vtbl,
	.info = mix_info,
	.prepare = mix_prepare,
	.batch = mix_batch,
	.file = mix_file,
	.targets = mix_targets,
	.count = mix_count,
};

PLUGIN(data, "mix", &vtbl, .version = "1",
       .summary = "Sequences of several sets, sections [data.NAME], in shares that weights give.",
       PLUGIN_OPTIONS(struct mix_opts, options), .create = mix_create, .destroy = mix_destroy);
