/* SPDX-License-Identifier: Apache-2.0
 *
 * slices.c - what slices of a sequence add (core/lower/lower_slices.c): the trees of their sums,
 * and the rows of all ranks of a sequence in its order.
 */
#include "core/base/numbers.h"
#include "core/exec/exec.h"

void zr_slice_call(const struct zr_setup_facts *f, const struct zr_instr *i,
		   struct zr_layer_call *call)
{
	const struct zr_slices *z = &f->slices;
	const int64_t first = i->group * z->rows;
	const int64_t losses = 1 + f->decl.aux_loss;

	call->parts = (uint32_t)i->root;
	call->length = z->rows;
	call->slot_rows = f->batch.length;
	call->slot_first = first;
	call->tokens += first;
	call->targets += first;
	call->positions += first;
	if (call->weights)
		call->weights += first;
	call->loss_rows += first;
	call->right_rows += first;
	call->head_share = z->rank;
	if (!call->parts) /* the loss layer has none */
		call->loss_sum += zr_slice_place(z, i->group) * losses;
}

/* Elements from one level of nodes that wait to the next. */
static int64_t waiting_apart(const struct zr_call *c, int64_t n)
{
	const uint64_t bytes = (uint64_t)n * sizeof(float);
	const int32_t levels = zr_tree_levels(c->i->group / (int32_t)c->i->blocks);
	return (int64_t)(zr_parts_apart(&c->o[ZR_O_TREE_WAITING], levels, bytes) / sizeof(float));
}

int zr_begin_tree(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	const int64_t leaves = c->i->blocks;
	const int64_t n = (int64_t)(c->o[ZR_O_TREE_FROM].bytes / sizeof(float)) / leaves;
	char *sum = c->at[ZR_O_TREE_SUM], *waiting = c->at[ZR_O_TREE_WAITING];
	struct zr_op_fold op = {
		.size = sizeof op,
		.comm_dtype = c->i->dtype,
		.n = n,
		.g = (const float *)(const void *)c->at[ZR_O_TREE_FROM],
		.acc = (float *)(void *)(sum ? sum : waiting), /* left alone before the last turn */
		.number = (int32_t)leaves,
		.from = ZR_F32,
		.apart = n * (int64_t)sizeof(float),
		.group = c->i->group,
		.turn = c->i->number,
		.waiting = (float *)(void *)waiting,
		.waiting_apart = waiting_apart(c, n),
	};
	if (!(c->i->flags & ZR_F_STORE))
		op.flags = ZR_OP_ACCUMULATE;
	return zr_op_failed(s, ops, ops->fold(ops, NULL, &op), "fold", c->err);
}

int zr_begin_clear(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	struct zr_op_init op = { .size = sizeof op,
				 .n = (int64_t)(c->o[ZR_O_CLEAR_TO].bytes / sizeof(float)),
				 .mean = -0.0, /* 0 would change -0 */
				 .dst = (float *)(void *)c->at[ZR_O_CLEAR_TO] };
	return zr_op_failed(s, ops, ops->init(ops, NULL, &op), "init", c->err);
}

/* Parts of so many rows, so far apart; all in bytes, of whole elements of the type. */
struct rows {
	int64_t n, bytes, from_apart, to_apart;
};

static int copy_rows(struct zr_session *s, const struct zr_call *c, int32_t type,
		     const struct rows *r, const char *from, char *to)
{
	const struct zr_ops *ops = zr_ops_for(s, c->i);
	const int64_t size = (int64_t)zr_dtype_bytes(type);
	struct zr_op_cast_heads op = { .size = sizeof op,
				       .rows = r->n,
				       .heads = 1,
				       .head_dim = r->bytes / size,
				       .src_stride = r->from_apart / size,
				       .dst_stride = r->to_apart / size,
				       .src = zr_array_at(type, from),
				       .dst = zr_array_at(type, to) };
	return zr_op_failed(s, ops, ops->cast_heads(ops, NULL, &op), "cast_heads", c->err);
}

int zr_begin_regroup(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_slices *z = &s->facts->slices;
	const struct zr_layer_bytes *b = &s->facts->slice_bytes[c->i->group];
	const uint64_t attended[3] = { b->attended / (uint64_t)z->rows };
	const uint64_t *section = c->i->number ? attended : b->section;
	const int64_t row = (int64_t)(section[0] + section[1] + section[2]);
	const int64_t rows = z->here * z->rows, share = row / z->ranks;
	const int32_t type = s->facts->types.dtype;
	const int back = c->i->root;
	const char *from = c->at[ZR_O_REGROUP_FROM];
	char *to = c->at[ZR_O_REGROUP_TO];
	int rc = 0;

	for (int32_t r = 0; !rc && r < z->ranks; r++) {
		int64_t whole = 0, shared = r * rows * share;
		for (int k = 0; !rc && k < 3 && section[k]; k++) {
			const int64_t bytes = (int64_t)section[k] / z->ranks;
			const int64_t at = whole + r * bytes;
			const struct rows out = { rows, bytes, row, share };
			const struct rows in = { rows, bytes, share, row };
			if (back)
				rc = copy_rows(s, c, type, &in, from + shared, to + at);
			else
				rc = copy_rows(s, c, type, &out, from + at, to + shared);
			whole += (int64_t)section[k];
			shared += bytes;
		}
	}
	return rc;
}

int zr_begin_arrange(struct zr_session *s, const struct zr_call *c)
{
	const struct zr_slices *z = &s->facts->slices;
	const int64_t row = c->i->block, slice = row * z->rows;
	const int32_t type = row % 4 ? ZR_BF16 : ZR_F32;
	const int back = c->i->number;
	const char *from = c->at[ZR_O_ARRANGE_FROM];
	char *to = c->at[ZR_O_ARRANGE_TO];
	struct zr_slice_run run[2];
	int rc = 0;

	for (int32_t r = 0, ranked = 0; !rc && r < z->ranks; r++) {
		const int runs = zr_slice_runs(z, r, run);
		for (int k = 0; !rc && k < runs; ranked += run[k].n, k++) {
			const int64_t there = back ? run[k].first : ranked;
			const int64_t here = back ? ranked : run[k].first;
			const struct rows all = { run[k].n * z->rows, row, row, row };
			rc = copy_rows(s, c, type, &all, from + there * slice, to + here * slice);
		}
	}
	return rc;
}
