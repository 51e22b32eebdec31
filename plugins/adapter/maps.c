/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c - the layers of the model, with a table of operations in which matmul knows the adapted
 * weights. Of a product with W as its operand b it makes one with a low-rank update:
 *
 *   forward:   y = x W + s (x' A^T) B^T + bias             x' = drop(x)
 *   backward:  dx = dy W^T + drop'(s (dy B) A)
 *
 * and of the product that is W's gradient, which the model makes of x and dy, since it is given a
 * place for it, dA = s (dy B)^T x' and dB = s dy^T (x' A^T). No product has the size of W.
 */
#include "lora.h"

#include <stddef.h>
#include <string.h>

#define SITE 0x40000000u /* of dropout: beyond those of a model's layers */

/* What the model is given as the place of the gradient of an adapted weight: never written. */
static float nowhere[LORA_TENSORS];

struct scratch {
	void *low, *dlow; /* [N, r] x' A^T and dy B */
	void *dropped;    /* [N, in] x' */
};

struct wrapped {
	struct zr_ops ops; /* the first member: what the model passes leads here */
	const struct zr_inst *inst;
	const struct zr_layer_call *c; /* as core made it */
	const struct lora_layer *l;
	struct scratch s;
};

static uint64_t up(uint64_t n)
{
	return (n + 63) / 64 * 64;
}

static int64_t element(const struct zr_layer_call *c)
{
	return c->dtype == ZR_F32 ? 4 : 2;
}

static int drops(const struct zr_inst *inst, const struct zr_layer_call *c)
{
	return inst->o.dropout > 0 && c->training;
}

/* Bytes of the scratch; base NULL: nothing but that. */
static uint64_t carve(const struct zr_inst *inst, const struct lora_layer *l,
		      const struct zr_layer_call *c, char *base, struct scratch *s)
{
	const uint64_t rows = (uint64_t)(c->batch * c->length), e = (uint64_t)element(c);
	uint64_t r = 0, wide = 0, at = 0;
	for (int32_t i = 0; i < l->n; i++) {
		const struct lora_map *m = l->use[i].map;
		r = (uint64_t)m->r > r ? (uint64_t)m->r : r;
		wide = (uint64_t)m->in > wide ? (uint64_t)m->in : wide;
	}
	s->low = base;
	at += up(rows * r * e);
	s->dlow = base + at;
	at += up(rows * r * e);
	s->dropped = base + at;
	return at + (inst->o.dropout > 0 ? up(rows * wide * e) : 0);
}

uint64_t lora_work(const struct zr_inst *inst, const struct lora_layer *l,
		   const struct zr_layer_call *c)
{
	static char none[1];
	struct scratch s;
	return l->n ? carve(inst, l, c, none, &s) : 0;
}

/* ---- products ------------------------------------------------------------------------------- */

/* d[m, n] = op(a)[m, k] op(b)[k, n], all without gaps. */
static int product(const struct wrapped *w, uint32_t flags, int64_t m, int64_t n, int64_t k,
		   const void *a, const void *b, void *d, int32_t d_dtype)
{
	const int32_t t = w->c->dtype;
	struct zr_op_matmul op = { .size = sizeof op, .flags = flags, .a_dtype = t, .b_dtype = t,
				   .d_dtype = d_dtype, .m = m, .n = n, .k = k,
				   .lda = flags & ZR_MM_TRANS_A ? m : k,
				   .ldb = flags & ZR_MM_TRANS_B ? k : n, .ldd = n, .a = a, .b = b,
				   .d = d };
	return w->c->ops->matmul(w->c->ops, w->c->stream, &op);
}

static struct zr_rng rng_of(const struct wrapped *w, const struct lora_map *m)
{
	struct zr_rng rng = w->c->rng;
	rng.site = SITE + m->number;
	return rng;
}

/* out = drop(gain x), n elements. */
static int scale(const struct wrapped *w, const struct lora_map *m, int64_t n, float gain,
		 float dropout, const void *x, void *out)
{
	struct zr_op_residual op = { .size = sizeof op, .dtype = w->c->dtype, .dropout = dropout,
				     .n = n, .rng = rng_of(w, m), .b = x, .out = out,
				     .gain = gain };
	return w->c->ops->residual(w->c->ops, w->c->stream, &op);
}

/* x', and low = x' A^T. */
static int lower(struct wrapped *w, const struct lora_use *u, uint32_t each, const void **x,
		 int64_t rows)
{
	const struct lora_map *m = u->map;
	int rc = ZR_OK;
	if (drops(w->inst, w->c)) {
		rc = scale(w, m, rows * m->in, 1, (float)w->inst->o.dropout, *x, w->s.dropped);
		*x = w->s.dropped;
	}
	return rc ? rc :
		    product(w, ZR_MM_TRANS_B | each, rows, m->r, m->in, *x, w->c->param[u->a],
			    w->s.low, w->c->dtype);
}

/* *op with s u v beside it. */
static int updated(const struct wrapped *w, const struct lora_map *m, uint32_t flags, float dropout,
		   const void *u, const void *v, const struct zr_op_matmul *op)
{
	struct zr_op_matmul_low_rank low = { .size = sizeof low, .flags = flags, .r = m->r,
					     .gain = m->scale, .dropout = dropout,
					     .rng = rng_of(w, m), .u = u, .v = v,
					     .product = *op };
	return w->c->ops->matmul_low_rank(w->c->ops, w->c->stream, &low);
}

static int forward(struct wrapped *w, const struct lora_use *u, const struct zr_op_matmul *op)
{
	const void *x = op->a;
	int rc = lower(w, u, op->flags & ZR_MM_EACH_ROW, &x, op->m);
	return rc ? rc :
		    updated(w, u->map, ZR_LR_TRANS_V, 0, w->s.low, w->c->param[u->a + 1], op);
}

static int backward(struct wrapped *w, const struct lora_use *u, const struct zr_op_matmul *op)
{
	const struct lora_map *m = u->map;
	const float dropout = drops(w->inst, w->c) ? (float)w->inst->o.dropout : 0;
	int rc = product(w, 0, op->m, m->r, m->out, op->a, w->c->param[u->a + 1], w->s.dlow,
			 w->c->dtype);
	return rc ? rc : updated(w, m, 0, dropout, w->s.dlow, w->c->param[u->a], op);
}

/* dA and dB; x and dy are the operands of the product that would be W's gradient. */
static int gradients(struct wrapped *w, const struct lora_use *u, const struct zr_op_matmul *op)
{
	const struct zr_layer_call *c = w->c;
	const struct lora_map *m = u->map;
	const int out_in = m->weight->map == ZR_MAP_OUT_IN;
	const void *dy = out_in ? op->a : op->b, *x = out_in ? op->b : op->a;
	float *da = c->dparam[u->a], *db = c->dparam[u->a + 1];
	const uint32_t old = c->accumulate[u->a] ? ZR_MM_ACCUMULATE : 0;
	int rc = lower(w, u, 0, &x, op->k);
	rc = rc ? rc : scale(w, m, op->k * m->r, m->scale, 0, w->s.low, w->s.low);
	rc = rc ? rc :
		  product(w, 0, op->k, m->r, m->out, dy, c->param[u->a + 1], w->s.dlow, c->dtype);
	rc = rc ? rc : scale(w, m, op->k * m->r, m->scale, 0, w->s.dlow, w->s.dlow);
	if (!rc && da)
		rc = product(w, ZR_MM_TRANS_A | old, m->r, m->in, op->k, w->s.dlow, x, da, ZR_F32);
	if (!rc && db)
		rc = product(w, ZR_MM_TRANS_A | old, m->out, m->r, op->k, dy, w->s.low, db,
			     ZR_F32);
	return rc;
}

/* A product with the weight of a map. */
static int mapped(struct wrapped *w, const struct lora_use *u, const struct zr_op_matmul *op)
{
	const int transposed = (op->flags & ZR_MM_TRANS_B) != 0;
	if (op->lda != op->k)
		return zr_fail(w->inst->h, ZR_ENOTSUP, "%s: a product with gaps between its rows",
			       u->map->weight->name);
	return transposed == (u->map->weight->map == ZR_MAP_OUT_IN) ? forward(w, u, op) :
								      backward(w, u, op);
}

static int matmul(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_matmul *op)
{
	struct wrapped *w = (struct wrapped *)(uintptr_t)ops;
	for (int32_t i = 0; i < w->l->n; i++) {
		const struct lora_use *u = &w->l->use[i];
		if (op->d == nowhere + i)
			return gradients(w, u, op);
		if (op->b == w->c->param[u->weight])
			return mapped(w, u, op);
	}
	return w->c->ops->matmul(w->c->ops, s, op);
}

/* ---- calls ---------------------------------------------------------------------------------- */

struct call {
	struct wrapped w;
	struct zr_layer_call c;
	float *dparam[LORA_TENSORS];
};

/* The call as the model is to see it: its scratch lies behind ours. */
static void wrap(struct zr_inst *inst, const struct zr_layer_call *c, int backward_, struct call *k)
{
	const struct lora_layer *l = &inst->layer[c->layer];
	const size_t known = c->ops->size < sizeof k->w.ops ? c->ops->size : sizeof k->w.ops;
	k->w = (struct wrapped){ .inst = inst, .c = c, .l = l };
	memcpy(&k->w.ops, c->ops, known);
	k->w.ops.size = (uint32_t)known;
	k->w.ops.matmul = matmul;
	k->c = *c;
	if (!l->n)
		return;
	k->c.ops = &k->w.ops;
	k->c.work = (char *)c->work + carve(inst, l, c, c->work, &k->w.s);
	for (int32_t i = 0; i < l->tensors && backward_; i++)
		k->dparam[i] = c->dparam[i];
	for (int32_t i = 0; i < l->n && backward_; i++)
		if (c->dparam[l->use[i].a] || c->dparam[l->use[i].a + 1])
			k->dparam[l->use[i].weight] = nowhere + i;
	k->c.dparam = k->dparam;
}

int lora_call(struct zr_inst *inst, const struct zr_layer_call *c, int backward_)
{
	struct call k;
	wrap(inst, c, backward_, &k);
	return backward_ ? inst->model->backward(inst->base, &k.c) :
			   inst->model->forward(inst->base, &k.c);
}

int lora_logits(struct zr_inst *inst, const struct zr_layer_call *c, int64_t row, float *logits)
{
	struct call k;
	wrap(inst, c, 0, &k);
	return inst->model->logits(inst->base, &k.c, row, logits);
}
