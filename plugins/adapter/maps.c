/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c - the layers of the model, with a table of operations in which matmul knows the adapted
 * weights. Of a product with W as its operand b it makes
 *
 *   forward:   y = x W + bias,  y += s (x' A^T) B^T             x' = drop(x)
 *   backward:  dx = dy W^T,     dx += drop'(s (dy B) A)
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
	void *wide;       /* [N, in or out] of any type */
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
		const uint64_t most = (uint64_t)(m->in > m->out ? m->in : m->out);
		r = (uint64_t)m->r > r ? (uint64_t)m->r : r;
		wide = most > wide ? most : wide;
	}
	s->low = base;
	at += up(rows * r * e);
	s->dlow = base + at;
	at += up(rows * r * e);
	s->wide = base + at;
	at += up(rows * wide * sizeof(float));
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

/* out = a + drop(gain b), n elements. */
static int add(const struct wrapped *w, const struct lora_map *m, int32_t dtype, int64_t n,
	       float gain, float dropout, const void *a, const void *b, void *out)
{
	struct zr_op_residual op = { .size = sizeof op, .dtype = dtype, .dropout = dropout, .n = n,
				     .rng = w->c->rng, .a = a, .b = b, .out = out, .gain = gain };
	op.rng.site = SITE + m->number;
	return w->c->ops->residual(w->c->ops, w->c->stream, &op);
}

/* Adds gain * wide[rows, n] to d, whose rows are ldd elements apart. */
static int add_rows(const struct wrapped *w, const struct lora_map *m, int32_t dtype, int64_t rows,
		    int64_t n, float gain, float dropout, void *d, int64_t ldd)
{
	const int64_t e = dtype == ZR_F32 ? 4 : 2;
	int rc = ZR_OK;
	if (ldd == n)
		return add(w, m, dtype, rows * n, gain, dropout, d, w->s.wide, d);
	for (int64_t i = 0; i < rows && !rc; i++) {
		char *row = (char *)d + i * ldd * e;
		rc = add(w, m, dtype, n, gain, dropout, row, (char *)w->s.wide + i * n * e, row);
	}
	return rc;
}

/* x', and low = x' A^T. */
static int lower(struct wrapped *w, const struct lora_use *u, uint32_t each, const void **x,
		 int64_t rows)
{
	const struct lora_map *m = u->map;
	int rc = ZR_OK;
	if (drops(w->inst, w->c)) {
		rc = add(w, m, w->c->dtype, rows * m->in, 1, (float)w->inst->o.dropout, NULL, *x,
			 w->s.dropped);
		*x = w->s.dropped;
	}
	return rc ? rc :
		    product(w, ZR_MM_TRANS_B | each, rows, m->r, m->in, *x, w->c->param[u->a],
			    w->s.low, w->c->dtype);
}

/* act = gelu(pre); the operation that makes it makes a gradient, too, which goes to the scratch. */
static int gelu(const struct wrapped *w, int64_t n, const void *pre, void *act)
{
	struct zr_op_gelu_bwd op = { .size = sizeof op, .dtype = w->c->dtype, .n = n, .dy = pre,
				     .pre = pre, .dx = w->s.wide, .act = act };
	return w->c->ops->gelu_bwd(w->c->ops, w->c->stream, &op);
}

static int with_gaps(const struct wrapped *w, const struct lora_map *m)
{
	return zr_fail(w->inst->h, ZR_ENOTSUP, "%s: a product with gaps between its rows",
		       m->weight->name);
}

static int forward(struct wrapped *w, const struct lora_use *u, const struct zr_op_matmul *op)
{
	const struct lora_map *m = u->map;
	const uint32_t each = op->flags & ZR_MM_EACH_ROW;
	const int bends = (op->flags & ZR_MM_GELU) != 0;
	struct zr_op_matmul base = *op;
	const void *x = op->a;
	if (op->lda != m->in || (bends && (!op->pre || op->ldd != m->out)))
		return with_gaps(w, m);
	base.flags &= ~ZR_MM_GELU;
	base.d = bends ? op->pre : op->d;
	base.pre = NULL;
	int rc = w->c->ops->matmul(w->c->ops, w->c->stream, &base);
	rc = rc ? rc : lower(w, u, each, &x, op->m);
	rc = rc ? rc :
		  product(w, ZR_MM_TRANS_B | each, op->m, m->out, m->r, w->s.low,
			  w->c->param[u->a + 1], w->s.wide, w->c->dtype);
	rc = rc ? rc :
		  add_rows(w, m, w->c->dtype, op->m, m->out, m->scale, 0, base.d, op->ldd);
	return rc || !bends ? rc : gelu(w, op->m * m->out, op->pre, op->d);
}

static int backward(struct wrapped *w, const struct lora_use *u, const struct zr_op_matmul *op)
{
	const struct lora_map *m = u->map;
	const float dropout = drops(w->inst, w->c) ? (float)w->inst->o.dropout : 0;
	if (op->lda != m->out || op->ldd != m->in)
		return with_gaps(w, m);
	int rc = w->c->ops->matmul(w->c->ops, w->c->stream, op);
	rc = rc ? rc :
		  product(w, 0, op->m, m->r, m->out, op->a, w->c->param[u->a + 1], w->s.dlow,
			  w->c->dtype);
	rc = rc ? rc :
		  product(w, 0, op->m, m->in, m->r, w->s.dlow, w->c->param[u->a], w->s.wide,
			  op->d_dtype);
	return rc ? rc :
		    add_rows(w, m, op->d_dtype, op->m, m->in, m->scale, dropout, op->d, op->ldd);
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
	rc = rc ? rc :
		  add(w, m, c->dtype, op->k * m->r, m->scale, 0, NULL, w->s.low, w->s.low);
	rc = rc ? rc :
		  product(w, 0, op->k, m->r, m->out, dy, c->param[u->a + 1], w->s.dlow, c->dtype);
	rc = rc ? rc :
		  add(w, m, c->dtype, op->k * m->r, m->scale, 0, NULL, w->s.dlow, w->s.dlow);
	if (!rc && da)
		rc = product(w, ZR_MM_TRANS_A | old, m->r, m->in, op->k, w->s.dlow, x, da, ZR_F32);
	if (!rc && db)
		rc = product(w, ZR_MM_TRANS_A | old, m->out, m->r, op->k, dy, w->s.low, db,
			     ZR_F32);
	return rc;
}

static int matmul(const struct zr_ops *ops, struct zr_stream *s, const struct zr_op_matmul *op)
{
	struct wrapped *w = (struct wrapped *)(uintptr_t)ops;
	for (int32_t i = 0; i < w->l->n; i++) {
		const struct lora_use *u = &w->l->use[i];
		const int transposed = (op->flags & ZR_MM_TRANS_B) != 0;
		if (op->d == nowhere + i)
			return gradients(w, u, op);
		if (op->b == w->c->param[u->weight])
			return transposed == (u->map->weight->map == ZR_MAP_OUT_IN) ?
				       forward(w, u, op) : backward(w, u, op);
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
