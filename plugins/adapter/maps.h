/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.h - one call of a layer with adapted maps: maps.c, and for those of experts experts.c.
 */
#ifndef ZR_ADAPTER_MAPS_H
#define ZR_ADAPTER_MAPS_H

#include "lora.h"

#define LORA_SITE 0x40000000u /* of dropout: beyond those of a model's layers */

/* Scratch of the experts' products, of one group at a time: a row for each place. */
struct lora_experts {
	void *low;     /* [places, r] */
	void *wide;    /* [places, in or out] of the type of what it is added to */
	void *dropped; /* [places, in] */
};

/* Scratch of an embedding's adapter, whose A has a column for each token. */
struct lora_embedding_place {
	void *rows; /* [in, r] A^T */
	void *sums; /* [in, r] fp32, the gradient of it */
};

/* What a call keeps and works with. `low` and `dlow` have a part for each map that is no expert's,
 * `each` bytes apart. */
struct lora_place {
	uint64_t each;
	char *low;     /* [N, r] x' A^T, which lies before what the model keeps */
	char *dlow;    /* [N, r] dy B */
	void *scaled;  /* [N, r] one of them times s, of one map at a time */
	void *dropped; /* [N, in] x', or [N, out] of an embedding, of one map at a time */
	struct lora_embedding_place embedding;
	struct lora_experts experts;
};

/* The gradient dy from which a map's dlow was made, and the product that asked for it; dy = NULL:
 * both products have had it. */
struct lora_made {
	const void *dy;
	int64_t rows;
	int for_gradient;
};

struct lora_wrapped {
	struct zr_ops ops; /* the first member: what the model passes leads here */
	const struct zr_inst *inst;
	const struct zr_layer_call *c; /* as core made it */
	const struct lora_layer *l;
	struct lora_place at;
	struct lora_made made[LORA_TENSORS];
};

/* places.c. lora_mark: an address that stands for the gradient of a map's frozen weight; nothing
 * writes to it. lora_marked: the map whose address this is, -1: none. lora_use_of: the first map
 * from `from` on that has this weight, -1: none. */
float *lora_mark(int32_t use);
int32_t lora_marked(const void *gradient);
int32_t lora_use_of(const struct lora_wrapped *, const void *weight, int32_t from);

/* products.c. lora_product: d[m, n] = op(a)[m, k] op(b)[k, n], all without gaps. lora_rng: that of
 * a map's dropout. lora_scale: out = drop(gain x), rows of `width`. */
int lora_product(const struct lora_wrapped *, uint32_t flags, int64_t m, int64_t n, int64_t k,
		 const void *a, const void *b, struct zr_array d);
struct zr_rng lora_rng(const struct lora_wrapped *, const struct lora_map *);
int lora_scale(const struct lora_wrapped *, const struct lora_map *, int64_t rows, int64_t width,
	       float gain, float dropout, const void *x, void *out);

/* Whether the call drops; *x becomes x', in at.dropped if it does; *op with s u v beside it. */
int lora_drops(const struct zr_inst *, const struct zr_layer_call *);
int lora_drop(const struct lora_wrapped *, const struct lora_map *, int64_t rows, const void **x);
int lora_updated(const struct lora_wrapped *, const struct lora_map *, uint32_t flags,
		 float dropout, const void *u, const void *v, const struct zr_op_matmul *op);

/* head.c: head_loss with an adapted w; the product of logits, by the use number i. */
int lora_head_loss(const struct zr_ops *, struct zr_stream *, const struct zr_op_head_loss *);
int lora_head_logits(const struct lora_wrapped *, int32_t i, const struct zr_op_matmul *);

/* embedding.c. lora_embedding_at: the scratch of an embedding's adapter, from byte *bytes of `work`
 * on; adds its size to *bytes. */
struct lora_embedding_place lora_embedding_at(const struct lora_layer *,
					      const struct zr_layer_call *, char *work,
					      uint64_t *bytes);
int lora_embedding(const struct zr_ops *, struct zr_stream *, const struct zr_op_embedding *);
int lora_embedding_bwd(const struct zr_ops *, struct zr_stream *,
		       const struct zr_op_embedding_bwd *);

/* experts.c. lora_experts_at: the scratch of the experts' products, from byte *bytes of `work` on;
 * adds its size to *bytes. */
struct lora_experts lora_experts_at(const struct zr_inst *, const struct lora_layer *,
				    const struct zr_layer_call *, char *work, uint64_t *bytes);
int lora_grouped(const struct zr_ops *, struct zr_stream *, const struct zr_op_matmul_grouped *);
int lora_grouped_dw(const struct zr_ops *, struct zr_stream *,
		    const struct zr_op_matmul_grouped_dw *);

#endif
