/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - attention: forward a head is an item, backward a part of the query heads that share
 * a key-value head. What the parts add to dk and dv is summed in their order; how many there are
 * follows from the shape only (I1).
 */
#include "cpu.h"

/* wanted backward, so that many workers have some where few heads of keys serve many of queries */
#define ITEMS 32

struct job {
	const struct zr_inst *d;
	const void *op;
	int64_t parts;
	int64_t size;        /* floats of a part's sums */
	float *delta, *sums; /* sums NULL: in the worker's scratch */
};

static uint64_t whole_lines(uint64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* How many parts the query heads of a key-value head are cut into: as many as it takes, of equally
 * many heads. Bits depend on it: a share of the heads has as many as all of them. */
static int64_t parts_of(const struct zr_op_attention *o)
{
	int64_t share = o->kv_heads > 0 ? o->heads / o->kv_heads : 1, parts = 1;
	int64_t kv_heads = o->all_heads ? o->all_heads / share : o->kv_heads;
	while (parts < share && (o->batch * kv_heads * parts < ITEMS || share % parts))
		parts++;
	return parts;
}

/* A part that is summed at once needs no place beyond its worker's, unless it is too large for
 * that. */
static int sums_in_scratch(const struct zr_inst *d, const struct zr_op_attention *o, int64_t parts)
{
	uint64_t sums = (uint64_t)d->k->attention_sums(o) * sizeof(float);
	return parts == 1 && whole_lines(d->k->attention_scratch(o, 1)) + sums <= CPU_SCRATCH;
}

static uint64_t delta_bytes(const struct zr_op_attention *o)
{
	int64_t queries = o->length - o->first;
	return whole_lines((uint64_t)(o->batch * o->heads * queries) * sizeof(float));
}

uint64_t cpu_attention_bwd_work(const struct zr_ops *ops, const struct zr_op_attention_bwd *op)
{
	const struct zr_op_attention *o = &op->fwd;
	int64_t parts = parts_of(o), items = o->batch * o->kv_heads * parts;
	if (sums_in_scratch(ops->dev, o, parts))
		return delta_bytes(o);
	return delta_bytes(o) + (uint64_t)(items * ops->dev->k->attention_sums(o)) * sizeof(float);
}

static int check(const struct zr_inst *d, const struct zr_op_attention *o, int backward)
{
	uint64_t need = d->k->attention_scratch(o, backward);
	int rc = zr_check_attention(d->h, o);
	if (rc)
		return rc;
	if (need > CPU_SCRATCH)
		return zr_fail(d->h, ZR_ENOTSUP,
			       "attention with heads of width %lld needs %llu bytes of scratch per "
			       "thread, there are %u",
			       (long long)o->head_dim, (unsigned long long)need, CPU_SCRATCH);
	return ZR_OK;
}

static void forward_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	j->d->k->attention(j->op, item, item + 1, cpu_scratch(j->d, worker));
}

int cpu_attention(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_attention *o)
{
	struct job job = { .d = ops->dev, .op = o };
	int rc = check(ops->dev, o, 0);
	(void)s;
	if (!rc)
		cpu_parallel(ops->dev, o->batch * o->heads, forward_item, &job);
	return rc;
}

static void backward_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	const struct zr_op_attention_bwd *op = j->op;
	char *scratch = cpu_scratch(j->d, worker);
	float *own =
		(float *)(void *)(scratch + whole_lines(j->d->k->attention_scratch(&op->fwd, 1)));
	float *sums = j->sums ? j->sums + item * j->size : own;
	j->d->k->attention_bwd(op, j->parts, item, item + 1, scratch, j->delta, sums);
	if (j->parts == 1)
		j->d->k->attention_bwd_sum(op, 1, item, item + 1, sums);
}

static void sum_item(void *arg, int64_t item, int32_t worker)
{
	const struct job *j = arg;
	(void)worker;
	j->d->k->attention_bwd_sum(j->op, j->parts, item, item + 1,
				   j->sums + item * j->parts * j->size);
}

int cpu_attention_bwd(const struct zr_ops *ops, struct zr_stream *s,
		      const struct zr_op_attention_bwd *op)
{
	const struct zr_op_attention *o = &op->fwd;
	struct job job = { .d = ops->dev, .op = op, .parts = parts_of(o), .delta = op->work };
	int64_t heads = o->batch * o->kv_heads;
	int rc = check(ops->dev, o, 1);
	(void)s;
	if (rc)
		return rc;

	job.size = ops->dev->k->attention_sums(o);
	if (!sums_in_scratch(ops->dev, o, job.parts))
		job.sums = (float *)(void *)((char *)op->work + delta_bytes(o));
	cpu_parallel(ops->dev, heads * job.parts, backward_item, &job);
	if (job.parts > 1)
		cpu_parallel(ops->dev, heads, sum_item, &job);
	return ZR_OK;
}
