/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.c - see policy.h: options, buckets, and when gradients and new parameters are sent.
 */
#include "policy.h"

#include <stdlib.h>
#include <string.h>

#define COUNT(f, min, doc)                                                                         \
	ZR_OPT(struct policy_opts, f, ZR_T_COUNT, ZR_O_AUTO, "auto", min, ZR_HI, "elements", doc)

const struct zr_opt policy_options[POLICY_SPLIT_OPTS] = {
	COUNT(reduce_bucket_size, 1,
	      "Gradients are reduced in lists of at most this many elements, a larger unit alone; "
	      "auto is the unit of middle size: a block of a transformer."),
	COUNT(allgather_bucket_size, 1,
	      "Parameters are gathered and published in lists of at most this many elements, a "
	      "larger unit alone; auto is the unit of middle size."),
	COUNT(sub_group_size, ZR_BLOCK,
	      "The optimizer updates sub-groups of at most this many elements; where its state is "
	      "offloaded, only some sub-groups are in memory at a time. Rounded up to whole blocks "
	      "of 2048 elements; auto is 4194304, or the largest unit if that is smaller."),
	ZR_OPT(struct policy_opts, overlap_comm, ZR_T_BOOL, 0, "yes", 0, 0, "",
	       "Overlap communication with computation: gradients of several layers share a list, "
	       "lists are published between updates, parameters are prefetched. With no, each is "
	       "begun where it is due and none ahead; a device may still run it beside others."),
	ZR_OPT(struct policy_opts, update_in_backward, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "Update units as soon as their gradients are complete, beside the backward of the "
	       "layers below: a processor that holds the optimizer's state then works while a GPU "
	       "computes, and with one micro-batch a rank in a step the sums of gradients are "
	       "never in memory together. For gradient_clipping = 0, qk_clip = no, on_nonfinite = "
	       "stop, no loss scale, and optimizers without sums over whole parameters. "
	       "Non-finite gradients then end the training after some units were updated: resume "
	       "it from the last checkpoint."),
	ZR_OPT(struct policy_opts, gather_16bit_weights_on_model_save, ZR_T_BOOL, 0, "no", 0, 0, "",
	       "The end of a training in 16 bits also leaves model-16bit/ in the run directory: "
	       "model.safetensors of that type and config.json, as other tools load them."),
	ZR_OPT(struct policy_opts, expert_ranks, ZR_T_COUNT, 0, "1", 1, ZR_HI, "ranks",
	       "So many neighbouring ranks divide the experts of a mixture's blocks: tokens go to "
	       "the rank that has their expert, and come back. It divides the number of ranks and "
	       "that of experts. The same bits. Not with reduction = local, nor with dropout of "
	       "experts' adapters."),
	COUNT(prefetch_bucket_size, 0,
	      "Most elements gathered ahead of their use, 0 for none; auto is the unit of middle "
	      "size, 0 without overlap_comm. Where a gather consists of several transfers, as from "
	      "disk to a GPU and between ranks, auto is the largest unit and one of middle size "
	      "per further transfer."),
	COUNT(max_live_parameters, 0,
	      "Most elements gathered at a time unless one layer needs more; auto is the largest "
	      "unit and twice the one of middle size, and one more per further transfer of a "
	      "gather."),
	COUNT(max_reuse_distance, 0,
	      "A unit stays gathered if layers with fewer elements than this run before its next "
	      "use, 0 for never; auto is twice the largest unit, so the last block stays over the "
	      "head."),
	COUNT(persistence_threshold, 0,
	      "Units of at most this many elements are not split and never gathered; auto is 8192, "
	      "four blocks."),
	ZR_OPT(struct policy_opts, persistent, ZR_T_GLOBS, 0, "", 0, 0, "",
	       "More units that are not split and never gathered, by patterns of their names as "
	       "`zeroth plan --program` prints them: model.embed_tokens* lm_head* beside a base "
	       "in codes, whose blocks are the smaller part of what is gathered."),
};

static void settle(uint64_t *option, uint64_t value)
{
	if (*option == ZR_AUTO_COUNT)
		*option = value;
}

int policy_resolve(const struct zr_host *h, const struct zr_facts *facts, void *opts)
{
	struct policy_opts *o = opts;
	int known = ZR_HAS(facts, struct zr_facts, largest_unit) && facts->largest_unit > 0;
	uint64_t largest = known ? (uint64_t)facts->largest_unit : 1;
	uint64_t block = largest;

	if (ZR_HAS(facts, struct zr_facts, typical_unit) && facts->typical_unit > 0)
		block = (uint64_t)facts->typical_unit;
	uint64_t further = 0;
	if (ZR_HAS(facts, struct zr_facts, gather_legs) && facts->gather_legs > 1)
		further = (uint64_t)facts->gather_legs - 1;
	uint64_t ahead = 0; /* elements that are gathered before they are needed */
	if (o->overlap_comm)
		ahead = further ? largest + further * block : block;

	(void)h;
	settle(&o->reduce_bucket_size, block);
	settle(&o->allgather_bucket_size, block);
	settle(&o->sub_group_size, largest < 4194304 ? largest : 4194304);
	settle(&o->prefetch_bucket_size, ahead);
	settle(&o->max_live_parameters, largest + (2 + further) * block);
	settle(&o->max_reuse_distance, 2 * largest);
	settle(&o->persistence_threshold, 4 * ZR_BLOCK);
	return ZR_OK;
}

/* I7: an option that can never act is refused. */
int policy_check(const struct zr_host *h, const void *opts)
{
	const struct policy_opts *o = opts;
	if (!o->overlap_comm && o->prefetch_bucket_size > 0)
		return zr_fail(
			h, ZR_EINVAL,
			"prefetch_bucket_size does nothing with overlap_comm = no: leave it out or "
			"set it to 0");

	return ZR_OK;
}

int policy_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = calloc(1, sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

void policy_destroy(struct zr_inst *inst)
{
	inst->h->release(inst->h, inst->memory);
	free(inst);
}

static int stays_whole(const struct zr_inst *inst, int64_t elements, const char *name)
{
	return (uint64_t)elements <= inst->o->persistence_threshold ||
	       persistent_names(inst->o->persistent, name);
}

int policy_groups(const struct zr_inst *inst, const struct zr_groups_of *unit, struct zr_groups of,
		  struct zr_groups *out)
{
	*out = of;
	if (stays_whole(inst, unit->elements, unit->name))
		out->param = ZR_GROUP_SELF;
	return ZR_OK;
}

void bucket_open(struct bucket *b, int (*verb)(const struct zr_stage *, const int32_t *, int32_t),
		 uint64_t limit)
{
	b->verb = verb;
	b->n = 0;
	b->elements = 0;
	b->limit = limit < INT64_MAX ? (int64_t)limit : INT64_MAX;
}

int bucket_close(struct bucket *b, const struct zr_stage *s)
{
	int32_t n = b->n;

	b->n = 0;
	b->elements = 0;
	if (n)
		return b->verb(s, b->unit, n);

	return ZR_OK;
}

int bucket_add(struct bucket *b, const struct zr_stage *s, int32_t unit)
{
	int64_t elements = s->elements(s, unit);
	int full = b->n == LIST_UNITS || elements > b->limit - b->elements;
	int rc = ZR_OK;

	if (b->n && full)
		rc = bucket_close(b, s);
	if (rc)
		return rc;

	b->unit[b->n++] = unit;
	b->elements += elements;
	if (b->elements >= b->limit)
		return bucket_close(b, s);

	return ZR_OK;
}

/* Room for n units; the number of units is first known while recording. */
static int make_arrays(struct zr_inst *inst, int32_t n)
{
	size_t units = (size_t)n;
	int32_t *lists;

	if (n <= inst->n_units)
		return ZR_OK;

	inst->h->release(inst->h, inst->memory);
	inst->n_units = 0;
	inst->memory = inst->h->alloc(inst->h, units * (3 * sizeof *lists + 3), "workspace");
	if (!inst->memory)
		return zr_fail(inst->h, ZR_ENOMEM, "no memory for lists of %d units", n);

	lists = inst->memory;
	inst->grads.unit = lists;
	inst->list.unit = lists + units;
	inst->order = lists + 2 * units;
	inst->whole = (uint8_t *)(lists + 3 * units);
	inst->full = inst->whole + units;
	inst->ahead = inst->full + units;
	inst->n_units = n;
	return ZR_OK;
}

/* Nothing split is resident over a program's end, so every program begins with nothing full. */
static int begin(struct zr_inst *inst, const struct zr_stage *s)
{
	int32_t u;
	int rc = make_arrays(inst, s->n_units);
	if (!rc)
		rc = persistent_check(inst->h, inst->o->persistent, s);
	if (rc)
		return rc;

	for (u = 0; u < s->n_units; u++)
		inst->whole[u] = (uint8_t)stays_whole(inst, s->elements(s, u), s->name(s, u));
	memset(inst->full, 0, (size_t)s->n_units);
	memset(inst->ahead, 0, (size_t)s->n_units);
	inst->elements_ahead = 0;
	inst->complete = inst->reduced = inst->arrived = inst->updated = 0;
	bucket_open(&inst->grads, s->reduce, inst->o->reduce_bucket_size);
	return ZR_OK;
}

/* Nothing hides behind the next layer; hosts of before do not say so. */
static int at_once(const struct zr_stage *s)
{
	return ZR_HAS(s, struct zr_stage, synchronous) && s->synchronous;
}

static int reduce(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	uint32_t i;
	int rc = ZR_OK;

	for (i = 0; i < p->n_units && !rc; i++) {
		inst->order[inst->complete++] = p->units[i];
		rc = bucket_add(&inst->grads, s, p->units[i]);
	}

	if (!rc && !inst->o->overlap_comm)
		rc = bucket_close(&inst->grads, s);
	/* at most one reduce is outstanding */
	if (inst->complete - inst->grads.n > inst->reduced) {
		inst->arrived = inst->reduced;
		inst->reduced = inst->complete - inst->grads.n;
	}

	if (at_once(s))
		inst->arrived = inst->reduced;

	return rc;
}

/* Whole units are gathered to all ranks by it and split ones are not: a list holds one kind. */
static int publish(struct zr_inst *inst, const struct zr_stage *s, int32_t unit)
{
	struct bucket *b = &inst->list;
	int rc = ZR_OK;

	if (b->n && inst->whole[b->unit[0]] != inst->whole[unit])
		rc = bucket_close(b, s);
	if (rc)
		return rc;

	return bucket_add(b, s, unit);
}

static int update(struct zr_inst *inst, const struct zr_stage *s, const int32_t *units, int32_t n)
{
	int64_t piece = INT64_MAX;
	if (inst->o->sub_group_size < INT64_MAX)
		piece = (int64_t)inst->o->sub_group_size;
	int32_t i;
	int rc = ZR_OK;
	bucket_open(&inst->list, s->publish, inst->o->allgather_bucket_size);
	for (i = 0; i < n && !rc; i++) {
		rc = s->update(s, &units[i], 1, piece);
		if (!rc && inst->o->overlap_comm)
			rc = publish(inst, s, units[i]);
	}

	for (i = 0; i < n && !rc && !inst->o->overlap_comm; i++)
		rc = publish(inst, s, units[i]);
	if (rc)
		return rc;

	return bucket_close(&inst->list, s);
}

/* Those of the first `end` units with complete gradients that are not updated yet. */
static int update_early(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s,
			int32_t end)
{
	int32_t first = inst->updated;
	if (!inst->o->update_in_backward || p->program != ZR_PROG_LAST_MICRO || first >= end)
		return ZR_OK;

	inst->updated = end;
	return update(inst, s, inst->order + first, end - first);
}

static int end(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int rc = bucket_close(&inst->grads, s);
	if (rc)
		return rc;
	return update_early(inst, p, s, inst->complete);
}

int policy_at(struct zr_inst *inst, const struct zr_point *p, const struct zr_stage *s)
{
	int rc;

	switch (p->at) {
	case ZR_AT_BEGIN:
		return begin(inst, s);
	case ZR_AT_GRAD:
		rc = reduce(inst, p, s);
		if (rc || !at_once(s))
			return rc;

		return update_early(inst, p, s, inst->arrived);
	case ZR_AT_AFTER: /* the device has the next layer to compute meanwhile */
		return update_early(inst, p, s, inst->arrived);
	case ZR_AT_END:
		return end(inst, p, s);
	case ZR_AT_UPDATE:
		return update(inst, s, p->units, (int32_t)p->n_units);
	}
	return ZR_OK;
}
