/* SPDX-License-Identifier: Apache-2.0
 *
 * recompute.c - activation checkpointing (Chen et al. 2016, "Training deep nets with sublinear
 * memory cost"): forward keeps the outputs of some layers only; before a layer's backward the
 * forward runs again from the last one kept.
 *
 * Layers between input and loss are numbered 1..L. The last m of them keep everything: their
 * backward follows their forward at once, so dropping would cost time and save nothing. The others
 * form segments of k, counted from the last, each of which keeps the output of its last layer. The
 * input layer, too, keeps its output.
 *
 *   every = k         m = k: the last segment; last = recompute: m = 0
 *   max_bytes = b   the largest m, and for it the smallest k, with peak() <= b: so the fewest
 *                   layers run again
 */
#include <zeroth/activation.h>
#include <zeroth/model.h>

#include <stdlib.h>

#include "plugins/descriptor.h"

struct recompute_opts {
	int64_t every;
	uint64_t max_bytes;
	int32_t outputs;
	int32_t last;
};

static const char *const where[] = { "keep", "offload", NULL };
static const char *const lasts[] = { "keep", "recompute", NULL };

static const struct zr_opt options[] = {
	ZR_OPT(struct recompute_opts, every, ZR_T_I64, ZR_O_AUTO, "auto", 0, 1e6, "layers",
	       "Layers of a segment: only the output of its last one is kept, and its forward runs "
	       "again before its backward, but for the last segment; auto is 1, or 0 where "
	       "max_bytes decides."),
	ZR_OPT(struct recompute_opts, max_bytes, ZR_T_BYTES, 0, "0", 0, ZR_HI, "",
	       "Most bytes of activations at a time, instead of every: keeps as many of the last "
	       "layers as fit, recomputes those before them in the shortest segments that fit; 0 "
	       "is no limit."),
	ZR_OPT_ENUM(
		struct recompute_opts, outputs, 0, "keep", where,
		"Where the outputs from which segments start again wait: on the device, or in the "
		"tier of [offload.activation]."),
	ZR_OPT_ENUM(
		struct recompute_opts, last, 0, "keep", lasts,
		"What becomes of the last segment. keep: everything of it stays, as its backward "
		"follows at once. recompute: its forward runs again, too: slower by that, for "
		"sequences so long that what one layer keeps does not fit."),
};

struct zr_inst {
	const struct zr_host *h;
	const struct recompute_opts *o;
};

/* One question; choice is the answer. */
struct sizes {
	const char *layers;
	uint32_t n, stride;
	struct zr_act_choice *choice;
	uint64_t *sum; /* [n] bytes of both parts of the layers 1..i */
};

static const struct zr_act_layer *layer_at(const struct sizes *s, uint32_t i)
{
	return (const struct zr_act_layer *)(s->layers + (size_t)i * s->stride);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t place_bytes(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static uint64_t both_bytes(const struct zr_act_layer *l)
{
	return place_bytes(l->out) + place_bytes(l->saved);
}

static uint64_t kept_bytes(const struct sizes *s, uint32_t i)
{
	const struct zr_act_layer *l = layer_at(s, i);
	return (s->choice[i].out ? 0 : place_bytes(l->out)) +
	       (s->choice[i].saved ? 0 : place_bytes(l->saved));
}

static void cut(struct sizes *s, uint32_t kept, uint32_t segment)
{
	uint32_t last = s->n - 2, recomputed = last - kept, i;

	for (i = 0; i < s->n; i++)
		s->choice[i] = (struct zr_act_choice){ .out = ZR_ACT_KEEP, .saved = ZR_ACT_KEEP };
	for (i = 1; i <= recomputed; i++) {
		s->choice[i].saved = ZR_ACT_RECOMPUTE;
		if ((recomputed - i) % segment)
			s->choice[i].out = ZR_ACT_RECOMPUTE;
	}
}

/* Most bytes of activations at a time: in the forward of a layer what is kept so far, its input and
 * what it writes; in the recompute of a segment what was kept before it and everything of the
 * segment. */
static uint64_t peak(const struct sizes *s)
{
	uint64_t held = 0, again = 0, top = 0;
	uint32_t i;

	for (i = 0; i + 1 < s->n; i++) {
		uint64_t in = 0;
		if (i > 0 && s->choice[i - 1].out)
			in = place_bytes(layer_at(s, i - 1)->out);
		top = most(top, held + in + both_bytes(layer_at(s, i)));
		held += kept_bytes(s, i);
	}

	top = most(top, held + place_bytes(layer_at(s, i)->saved));
	for (i = s->n - 2; i > 0; i--) {
		held -= kept_bytes(s, i);
		if (s->choice[i].saved)
			again += both_bytes(layer_at(s, i));
		else
			again = 0;
		if (again && !s->choice[i - 1].out) {
			top = most(top, held + again);
			again = 0;
		}
	}

	return top;
}

/* What peak() is at least, from sums over whole segments: when the forward is over, and when a
 * segment has run again. */
static uint64_t bound(const struct sizes *s, uint32_t kept, uint32_t segment)
{
	uint32_t last = s->n - 2, recomputed = last - kept, first = 1, end;
	uint64_t held = both_bytes(layer_at(s, 0)), top = 0;

	for (end = recomputed ? (recomputed - 1) % segment + 1 : 1; end <= recomputed;
	     end += segment) {
		top = most(top, held + s->sum[end] - s->sum[first - 1]);
		held += place_bytes(layer_at(s, end)->out);
		first = end + 1;
	}

	held += s->sum[last] - s->sum[recomputed];
	return most(top, held + place_bytes(layer_at(s, last + 1)->saved));
}

static int search(const struct zr_inst *inst, struct sizes *s)
{
	uint32_t layers = s->n - 2, kept, segment;
	uint64_t least = UINT64_MAX, now;

	for (kept = layers; kept > 0; kept--)
		for (segment = 1; segment == 1 || segment <= layers - kept; segment++) {
			now = bound(s, kept, segment);
			if (now > inst->o->max_bytes && now >= least)
				continue; /* nor is it the least to be told */

			cut(s, kept, segment);
			now = peak(s);
			if (now <= inst->o->max_bytes)
				return ZR_OK;

			if (now < least)
				least = now;
		}
	return zr_fail(
		inst->h, ZR_EINVAL,
		"max_bytes = %llu is too little: these layers need at least %llu with "
		"recomputation; raise it, or lower [train] micro_batch_size or sequence_length",
		(unsigned long long)inst->o->max_bytes, (unsigned long long)least);
}

static int fit(const struct zr_inst *inst, struct sizes *s)
{
	uint32_t i;
	int rc;

	s->sum = calloc(s->n, sizeof *s->sum);
	if (!s->sum)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory for %u layers", s->n);

	for (i = 1; i < s->n; i++)
		s->sum[i] = s->sum[i - 1] + both_bytes(layer_at(s, i));
	rc = search(inst, s);
	free(s->sum);
	return rc;
}

static int recompute_choose(struct zr_inst *inst, const struct zr_act_layer *layers, uint32_t n,
			    uint32_t stride, struct zr_act_choice *choice)
{
	struct sizes s = {
		.layers = (const char *)layers, .n = n, .stride = stride, .choice = choice
	};
	const int64_t kept = inst->o->last ? 0 : inst->o->every;
	int64_t i;

	if (n < 3)
		return zr_fail(inst->h, ZR_EINVAL,
			       "the model has no layer between the first and the last; nothing to "
			       "recompute");
	if (inst->o->max_bytes)
		return fit(inst, &s);
	if (kept >= (int64_t)n - 2)
		return zr_fail(
			inst->h, ZR_EINVAL,
			"every = %lld recomputes nothing: the last %lld layers are kept, as their "
			"backward follows at once, and the model has %u between input and loss; "
			"lower every, or use [activation] plugin = keep",
			(long long)inst->o->every, (long long)inst->o->every, n - 2);

	cut(&s, (uint32_t)kept, (uint32_t)inst->o->every);
	for (i = 0; inst->o->outputs && i < n - 1 - kept; i++)
		if (choice[i].out == ZR_ACT_KEEP)
			choice[i].out = ZR_ACT_OFFLOAD;

	return ZR_OK;
}

static int recompute_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct recompute_opts *o = opts;

	(void)h;
	(void)facts;
	if (o->every == ZR_AUTO_I64)
		o->every = o->max_bytes ? 0 : 1;

	return ZR_OK;
}

static int recompute_check(const struct zr_host *h, const void *opts)
{
	const struct recompute_opts *o = opts;
	if (o->every && o->max_bytes)
		return zr_fail(
			h, ZR_EINVAL,
			"every = %lld and max_bytes = %llu exclude each other: give one of them",
			(long long)o->every, (unsigned long long)o->max_bytes);
	if (o->outputs && o->max_bytes)
		return zr_fail(
			h, ZR_EINVAL,
			"max_bytes counts outputs that stay on the device: with outputs = offload "
			"give every");
	if (o->last && o->max_bytes)
		return zr_fail(h, ZR_EINVAL,
			       "max_bytes decides what the last layers keep: give last or "
			       "max_bytes");
	if (!o->every && !o->max_bytes)
		return zr_fail(h, ZR_EINVAL, "every = 0 needs max_bytes, which then decides");

	return ZR_OK;
}

static int recompute_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void recompute_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_activation_v1 vtbl = { .size = sizeof vtbl, .choose = recompute_choose };

PLUGIN(activation, "recompute", &vtbl, .version = "1",
       .summary = "Drops activations and computes them again before backward: less memory, up to "
		  "a third more time.",
       PLUGIN_OPTIONS(struct recompute_opts, options), .resolve = recompute_resolve,
       .check = recompute_check, .create = recompute_create, .destroy = recompute_destroy);
