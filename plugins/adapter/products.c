/* SPDX-License-Identifier: Apache-2.0
 *
 * products.c - the small products of adapters, with the device's own operations.
 */
#include "maps.h"

/* d[m, n] = op(a)[m, k] op(b)[k, n], all without gaps. */
int lora_product(const struct lora_wrapped *w, uint32_t flags, int64_t m, int64_t n, int64_t k,
		 const void *a, const void *b, struct zr_array d)
{
	const int32_t t = w->c->dtype;
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = flags,
				   .m = m,
				   .n = n,
				   .k = k,
				   .lda = flags & ZR_MM_TRANS_A ? m : k,
				   .ldb = flags & ZR_MM_TRANS_B ? k : n,
				   .ldd = n,
				   .a = zr_array_at(t, a),
				   .b = zr_array_at(t, b),
				   .d = d };

	return w->c->ops->matmul(w->c->ops, w->c->stream, &op);
}

struct zr_rng lora_rng(const struct lora_wrapped *w, const struct lora_map *m)
{
	struct zr_rng rng = w->c->rng;
	rng.site = LORA_SITE + m->number;
	return rng;
}

/* out = drop(gain x), rows of `width`. */
int lora_scale(const struct lora_wrapped *w, const struct lora_map *m, int64_t rows, int64_t width,
	       float gain, float dropout, const void *x, void *out)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = w->c->dtype,
				     .dropout = dropout,
				     .n = rows * width,
				     .rng = lora_rng(w, m),
				     .b = x,
				     .out = out,
				     .gain = gain,
				     .first = w->c->slot_first * width };

	return w->c->ops->residual(w->c->ops, w->c->stream, &op);
}

int lora_drops(const struct zr_inst *inst, const struct zr_layer_call *c)
{
	return inst->o.dropout > 0 && c->training;
}

int lora_drop(const struct lora_wrapped *w, const struct lora_map *m, int64_t rows, const void **x)
{
	const void *whole = *x;
	if (!lora_drops(w->inst, w->c))
		return ZR_OK;

	*x = w->at.dropped;
	return lora_scale(w, m, rows, m->in, 1, (float)w->inst->o.dropout, whole, w->at.dropped);
}

int lora_updated(const struct lora_wrapped *w, const struct lora_map *m, uint32_t flags,
		 float dropout, const void *u, const void *v, const struct zr_op_matmul *op)
{
	struct zr_op_matmul_low_rank low = { .size = sizeof low,
					     .flags = flags,
					     .r = m->r,
					     .gain = m->scale,
					     .dropout = dropout,
					     .rng = lora_rng(w, m),
					     .first = w->c->slot_first * op->n,
					     .u = u,
					     .v = v,
					     .product = *op };

	return w->c->ops->matmul_low_rank(w->c->ops, w->c->stream, &low);
}
