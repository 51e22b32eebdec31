/* SPDX-License-Identifier: Apache-2.0
 *
 * experts.c - the products of a mixture's experts with adapters beside their weights, all experts
 * at once, as <zeroth/experts.h> has them:
 *
 *   forward:   y = x W^T + s (x' A^T) B^T          x' = drop(x)
 *   backward:  dx = dy W + drop'(s (dy B) A);  dA = s (dy B)^T x';  dB = s dy^T (x' A^T)
 *
 * A, B and W are those of the row's expert. Nothing is kept from the forward: the x of a gradient
 * may be weighed by the routing, and both low products are small. What is added to a result of 16
 * bits is rounded to 16 bits before.
 */
#include "maps.h"

/* Bytes that the work area has for an element of what an adapter adds: none where the result is of
 * fp32, unless dropout comes between. */
static uint64_t added_bytes(const struct zr_inst *inst, const struct zr_layer_call *c)
{
	if (inst->o.dropout > 0)
		return 4;

	return c->dtype == ZR_F32 ? 0 : 2;
}

/* Rows of the experts' products in a call, at most. */
static uint64_t most_rows(const struct zr_inst *inst, const struct lora_layer *l,
			  const struct zr_layer_call *c, uint64_t top)
{
	const uint64_t N = (uint64_t)(c->batch * c->length);
	if (!inst->decl.expert_ranks || !l->experts)
		return N * top;

	const uint64_t ranks = (uint64_t)inst->decl.expert_ranks;
	const uint64_t here = (uint64_t)l->experts / ranks;
	return ranks * (N < ZR_HOME_ROUND ? N : ZR_HOME_ROUND) * (top < here ? top : here);
}

struct lora_experts lora_experts_at(const struct zr_inst *inst, const struct lora_layer *l,
				    const struct zr_layer_call *c, char *work, uint64_t *bytes)
{
	const uint64_t e = zr_bytes_of(c->dtype, 1);
	uint64_t low = 0, wide = 0;

	for (int32_t i = 0; i < l->n; i++) {
		const struct lora_map *m = l->use[i].map;
		const uint64_t places =
			most_rows(inst, l, c, (uint64_t)m->weight->experts_per_token);
		const uint64_t most = (uint64_t)(m->in > m->out ? m->in : m->out);
		if (places * (uint64_t)m->r > low)
			low = places * (uint64_t)m->r;
		if (places * most > wide)
			wide = places * most;
	}

	low = (low * e + 63) / 64 * 64;
	wide = (wide * added_bytes(inst, c) + 63) / 64 * 64;
	char *at = (char *)((uintptr_t)work + *bytes);
	struct lora_experts x = { at, (char *)((uintptr_t)at + low),
				  (char *)((uintptr_t)at + low + wide) };
	*bytes += low + wide;
	if (inst->o.dropout > 0)
		*bytes += wide;
	return x;
}

/* The adapters of the experts of one product. */
struct group {
	const struct lora_wrapped *w;
	const struct lora_map *m; /* of the first: rank, scale and sizes are those of all */
	int64_t rows, experts;
	const int32_t *offsets;
	const struct lora_use *use[ZR_EXPERTS]; /* whose weights */
	const struct lora_use *gradient[ZR_EXPERTS];
};

/* Of these weights; m NULL: they have no adapters. Where ranks divide experts the same ones come
 * once for each of the ranks. */
static void find_expert_maps(struct group *g, const void *const *weight)
{
	for (int64_t e = 0, i = 0; e < g->experts; e++, i++) {
		i = lora_use_of(g->w, weight[e], (int32_t)i);
		if (i < 0)
			i = lora_use_of(g->w, weight[e], 0);
		if (i < 0)
			return;

		g->use[e] = &g->w->l->use[i];
	}

	g->m = g->use[0]->map;
}

static float dropout(const struct group *g)
{
	if (g->w->c->training)
		return (float)g->w->inst->o.dropout;

	return 0;
}

/* out = a + drop(gain b), of `width` columns. Dropout counts places as they are sorted here, behind
 * those of all rows before: what a slice drops depends on no other slice. */
static int add_scaled(const struct group *g, int32_t dtype, int64_t width, float gain, float drop,
		      const void *a, const void *b, void *out)
{
	const struct zr_layer_call *c = g->w->c;
	const int64_t places_before = c->slot_first * g->m->weight->experts_per_token;
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = dtype,
				     .dropout = drop,
				     .n = g->rows * width,
				     .rng = c->rng,
				     .a = a,
				     .b = b,
				     .out = out,
				     .gain = gain,
				     .first = places_before * width };

	op.rng.site = LORA_SITE + g->m->number;
	return c->ops->residual(c->ops, c->stream, &op);
}

/* d = x times A (which: 0) or B (1) of the row's expert, of k columns and n */
static int multiply(const struct group *g, int which, uint32_t flags, int64_t n, int64_t k,
		    const void *x, struct zr_array d)
{
	const struct zr_layer_call *c = g->w->c;
	struct zr_op_matmul_grouped op = { .size = sizeof op,
					   .flags = flags,
					   .b_dtype = c->dtype,
					   .rows = g->rows,
					   .experts = g->experts,
					   .n = n,
					   .k = k,
					   .offsets = g->offsets,
					   .a = zr_array_at(c->dtype, x),
					   .d = d };

	for (int64_t e = 0; e < g->experts; e++)
		op.b[e] = c->param[g->use[e]->a + which];

	return c->ops->matmul_grouped(c->ops, c->stream, &op);
}

/* *x becomes x' */
static int drop_inputs(const struct group *g, const void **x)
{
	const void *whole = *x;

	if (!(dropout(g) > 0))
		return ZR_OK;

	*x = g->w->at.experts.dropped;
	return add_scaled(g, g->w->c->dtype, g->m->in, 1, dropout(g), NULL, whole,
			  g->w->at.experts.dropped);
}

/* low = s x A^T, or s dy B */
static int lower(const struct group *g, int which, const void *x)
{
	const int32_t t = g->w->c->dtype;
	void *low = g->w->at.experts.low;
	int64_t k;

	if (which)
		k = g->m->out;
	else
		k = g->m->in;
	int rc = multiply(g, which, which ? 0 : ZR_MM_TRANS_B, g->m->r, k, x, zr_array_at(t, low));
	if (rc)
		return rc;

	return add_scaled(g, t, g->m->r, g->m->scale, 0, NULL, low, low);
}

/* d += drop(low B^T), or low A */
static int raise_to(const struct group *g, int which, float drop, struct zr_array d)
{
	const uint32_t flags = which ? ZR_MM_TRANS_B : 0;
	int64_t n;

	if (which)
		n = g->m->out;
	else
		n = g->m->in;
	const void *low = g->w->at.experts.low;
	void *wide = g->w->at.experts.wide;
	if (d.dtype == ZR_F32 && !(drop > 0))
		return multiply(g, which, flags | ZR_MM_ACCUMULATE, n, g->m->r, low, d);

	int rc = multiply(g, which, flags, n, g->m->r, low, zr_array_at(d.dtype, wide));
	if (rc)
		return rc;

	return add_scaled(g, d.dtype, n, 1, drop, d.data, wide, d.data);
}

int lora_grouped(const struct zr_ops *ops, struct zr_stream *s,
		 const struct zr_op_matmul_grouped *op)
{
	const struct lora_wrapped *w = (const struct lora_wrapped *)(const void *)ops;
	const struct zr_ops *device = w->c->ops;
	struct group g = {
		.w = w, .rows = op->rows, .experts = op->experts, .offsets = op->offsets
	};
	const void *x = op->a.data;

	find_expert_maps(&g, op->b);
	int rc = device->matmul_grouped(device, s, op);
	if (rc || !g.m)
		return rc;
	if (!(op->flags & ZR_MM_TRANS_B)) {
		rc = lower(&g, 1, x);
		if (rc)
			return rc;
		return raise_to(&g, 0, dropout(&g), op->d);
	}

	rc = drop_inputs(&g, &x);
	if (!rc)
		rc = lower(&g, 0, x);
	if (rc)
		return rc;

	return raise_to(&g, 1, 0, op->d);
}

static int is_added(const struct group *g, int64_t e, int32_t tensor)
{
	const struct zr_layer_call *c = g->w->c;
	if (c->home)
		return c->home->later[e];

	return c->accumulate[tensor] != 0;
}

/* The use whose weights compute the gradients of use i, which are of expert number e: where ranks
 * divide experts, that of the expert here. */
static const struct lora_use *computing(const struct lora_wrapped *w, int32_t i, int64_t e)
{
	const struct lora_layer *l = w->l;
	const struct zr_home_call *h = w->c->home;
	if (!h)
		return &l->use[i];

	const int64_t maps = (l->n - l->kept) / l->experts; /* of each */
	return &l->use[i + ((int64_t)h->rank * h->here + e % h->here - e) * maps];
}

/* Gradients = or += dy^T x of A (which: 0) or B (1): first of those that store, then of those that
 * add. */
static int gradients(const struct group *g, const struct zr_op_matmul_grouped_dw *given, int which,
		     const void *dy, const void *x)
{
	const struct zr_layer_call *c = g->w->c;
	struct zr_op_matmul_grouped_dw op = *given;
	int rc = ZR_OK;

	if (which)
		op.m = g->m->out;
	else
		op.m = g->m->r;
	if (which)
		op.n = g->m->r;
	else
		op.n = g->m->in;
	op.dy = dy;
	op.x = x;
	for (int flag = 0; !rc && flag < 2; flag++) {
		int wanted = 0;
		op.flags = flag ? ZR_OP_ACCUMULATE : 0;
		for (int64_t e = 0; e < g->experts; e++) {
			const int32_t i = g->gradient[e]->a + which;
			const int here = given->dw[e] && is_added(g, e, i) == flag;
			op.dw[e] = here ? c->dparam[i] : NULL;
			wanted |= op.dw[e] != NULL;
		}

		if (wanted)
			rc = c->ops->matmul_grouped_dw(c->ops, c->stream, &op);
	}

	return rc;
}

int lora_grouped_dw(const struct zr_ops *ops, struct zr_stream *s,
		    const struct zr_op_matmul_grouped_dw *op)
{
	const struct lora_wrapped *w = (const struct lora_wrapped *)(const void *)ops;
	const struct zr_ops *device = w->c->ops;
	struct group g = {
		.w = w, .rows = op->rows, .experts = op->experts, .offsets = op->offsets
	};
	int32_t first = -1;
	int64_t any = 0;

	for (int64_t e = 0; e < op->experts && first < 0; e++) {
		first = lora_marked(op->dw[e]);
		any = e;
	}
	if (first < 0)
		return device->matmul_grouped_dw(device, s, op);

	const struct lora_map *m = w->l->use[first].map;
	const struct lora_use *of_none = computing(w, first, any);
	for (int64_t e = 0; e < op->experts; e++) {
		const int32_t i = lora_marked(op->dw[e]);
		if (i < 0) { /* its gradient is not wanted: any use will do */
			g.gradient[e] = &w->l->use[first];
			g.use[e] = of_none;
			continue;
		}

		g.gradient[e] = &w->l->use[i];
		g.use[e] = computing(w, i, e);
	}

	g.m = m;
	const void *x = op->x;
	int rc = drop_inputs(&g, &x);
	if (!rc)
		rc = lower(&g, 1, op->dy);
	if (!rc)
		rc = gradients(&g, op, 0, w->at.experts.low, x);
	if (!rc)
		rc = lower(&g, 0, x);
	if (rc)
		return rc;

	return gradients(&g, op, 1, op->dy, w->at.experts.low);
}
