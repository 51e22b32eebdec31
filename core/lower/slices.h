/* SPDX-License-Identifier: Apache-2.0
 *
 * slices.h - a use of a layer, slice by slice: what the files share that lower it.
 */
#ifndef ZR_CORE_LOWER_SLICES_H
#define ZR_CORE_LOWER_SLICES_H

#include "core/lower/layer_call.h"

struct zr_low_keys;
struct zr_low_heads;

/* The slices of one use. */
struct zr_low_use {
	struct zr_low_call call; /* of the slice that is computed */
	const struct zr_slices *z;
	const struct zr_layer_bytes *bytes; /* of a slice */
	int parted;                         /* the layer's calls have parts */
	struct zr_operand *leaf;            /* [n_units] gradient of a slice */
	struct zr_operand *root;            /* [n_units] where the tree of a unit ends */
	struct zr_operand *waiting;         /* [n_units] nodes without their sibling so far */
	struct zr_operand *given;           /* [n_units] those of `leaf` that a call gives */
	/* Memory behind what the slices saved, to the end of it: the keys of this rank's slices,
	 * ascending. By heads: see struct kept in lower_heads.c. */
	struct zr_operand behind;
	const struct zr_low_keys *keys;   /* lower_slices.c's */
	const struct zr_low_heads *heads; /* lower_heads.c's */
};

/* ---- lower_trees.c ---- */

/* What comes in a collective of the ranks of a sequence, in a buffer of its own: an all-to-all, or
 * an all_gather. */
struct zr_operand zr_low_among(struct zr_lowering *l, int32_t kind, int32_t dtype,
			       struct zr_operand sent);

/* n leaves, one behind the other, are a tree; of one, it is copied, or added. */
void zr_low_add_tree(struct zr_lowering *l, int32_t n, int32_t dtype, int stores,
		     struct zr_operand from, struct zr_operand sum);

/* The trees of a backward's units begin, and end. */
void zr_low_begin_trees(struct zr_lowering *l, struct zr_low_use *s);
void zr_low_end_trees(struct zr_lowering *l, const struct zr_low_use *s);

/* Calls the layer for a leaf of this rank, whose gradients join their trees. */
void zr_low_call_leaf(struct zr_lowering *l, struct zr_low_use *s, int32_t leaf);

/* Of the leaves of a tree of n slices: what the queries of each gave to all keys, by a call that
 * `attend` makes. one: bytes of a slice's. Returns their sum. */
typedef void zr_low_attend(struct zr_lowering *l, struct zr_low_use *s, int32_t leaf);
struct zr_operand zr_low_sum_keys(struct zr_lowering *l, struct zr_low_use *s, int32_t n,
				  uint64_t one, zr_low_attend *attend);

/* Of memory that has as many bytes of each of several slices, the i-th. */
static inline struct zr_operand zr_low_nth(struct zr_operand all, int64_t i, uint64_t bytes)
{
	return zr_operand_part(all, (uint64_t)i * bytes, bytes);
}

/* The slice of a leaf of this rank. */
static inline int32_t zr_low_leaf(const struct zr_low_use *s, int32_t leaf)
{
	return zr_slice_of_leaf(s->z, s->z->rank * s->z->here + leaf);
}

/* ---- lower_heads.c ---- */

/* Rows of all ranks of the sequence, `slice` bytes each slice: to its order or, `back`, from it. */
void zr_low_arrange(struct zr_lowering *l, const struct zr_low_use *s, int back, uint64_t slice,
		    struct zr_operand from, struct zr_operand to);

/* The forward and the backward of a layer whose attention is divided by heads. */
void zr_low_heads_forward(struct zr_lowering *l, struct zr_low_use *s);
void zr_low_heads_backward(struct zr_lowering *l, struct zr_low_use *s);

#endif
