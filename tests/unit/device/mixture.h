/* SPDX-License-Identifier: Apache-2.0
 *
 * mixture.h - a mixture of experts, from the logits to all gradients, on any device.
 */
#ifndef ZR_TESTS_MIXTURE_H
#define ZR_TESTS_MIXTURE_H

/* A feed-forward part with everything that it leaves. Numbers are drawn as golden/make_experts.py
 * draws them. */
struct mix {
	int64_t rows, experts, k, width, ffn;
	int32_t dtype;
	uint32_t flags; /* of the routing */
	float balance, z;
	struct buf x, dout, gate; /* gate: the router's weight [experts, width] */
	/* [experts][ffn, width], the same, [experts][width, ffn] */
	struct buf wg, wu, wd;
	struct buf logits, lse, weights, dweights, dlogits;
	struct buf xs, hg, hu, act, y, out; /* forward, by place */
	struct buf dys, dact, dxs, dx, dgate, dwg, dwu, dwd;
	struct buf ids, offsets, order, where; /* whole numbers, as those of ZR_F32 */
	double losses[2], sums[2 * ZR_EXPERTS + 2];
	float share[ZR_EXPERTS + 1];
};

#define F(b) ((float *)(void *)(b).p)
#define I(b) ((int32_t *)(void *)(b).p)

static struct buf drawn(int64_t n, int32_t dtype, uint64_t *state, double scale)
{
	struct buf b = buf_new(n, dtype, 0);
	for (int64_t i = 0; i < n; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		put(b.p, dtype, i, ((double)(*state >> 40 & 0xff) / 64 - 2) * scale);
	}
	return b;
}

/* Weights of expert e: ffn * width numbers each. */
static void draw_expert(struct mix *m, int64_t e, uint64_t *state)
{
	struct buf *const w[] = { &m->wg, &m->wu, &m->wd };
	int64_t n = m->ffn * m->width;
	for (int i = 0; i < 3; i++) {
		struct buf one = drawn(n, m->dtype, state, 0.25);
		memcpy(w[i]->p + (size_t)(e * n) * width_of(m->dtype), one.p,
		       (size_t)n * width_of(m->dtype));
		buf_free(&one);
	}
}

static struct mix mix_new(int64_t rows, int64_t experts, int64_t k, int64_t width, int64_t ffn,
			  int32_t dtype)
{
	struct mix m = { .rows = rows,
			 .experts = experts,
			 .k = k,
			 .width = width,
			 .ffn = ffn,
			 .dtype = dtype,
			 .flags = ZR_ROUTE_NORMALISE,
			 .balance = 0.25f,
			 .z = 0.125f };
	int64_t places = rows * k, all = experts * ffn * width;
	uint64_t state = 7;
	m.x = drawn(rows * width, dtype, &state, 1);
	m.dout = drawn(rows * width, dtype, &state, 1);
	m.gate = drawn(experts * width, dtype, &state, 0.25);
	struct {
		struct buf *b;
		int64_t n;
		int32_t dtype;
	} const rest[] = {
		{ &m.wg, all, dtype },
		{ &m.wu, all, dtype },
		{ &m.wd, all, dtype },
		{ &m.dwg, all, ZR_F32 },
		{ &m.dwu, all, ZR_F32 },
		{ &m.dwd, all, ZR_F32 },
		{ &m.logits, rows * experts, ZR_F32 },
		{ &m.dlogits, rows * experts, ZR_F32 },
		{ &m.lse, rows, ZR_F32 },
		{ &m.weights, places, ZR_F32 },
		{ &m.dweights, places, ZR_F32 },
		{ &m.ids, places, ZR_F32 },
		{ &m.order, places, ZR_F32 },
		{ &m.where, places, ZR_F32 },
		{ &m.offsets, experts + 1, ZR_F32 },
		{ &m.xs, places * width, dtype },
		{ &m.dys, places * width, dtype },
		{ &m.y, places * width, dtype },
		{ &m.dxs, places * width, ZR_F32 },
		{ &m.hg, places * ffn, dtype },
		{ &m.hu, places * ffn, dtype },
		{ &m.act, places * ffn, dtype },
		{ &m.dact, places * ffn, dtype },
		{ &m.out, rows * width, dtype },
		{ &m.dx, rows * width, ZR_F32 },
		{ &m.dgate, experts * width, ZR_F32 },
	};
	for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
		*rest[i].b = buf_new(rest[i].n, rest[i].dtype, (int)(i & 1));
	for (int64_t e = 0; e < experts; e++)
		draw_expert(&m, e, &state);
	return m;
}

static void mix_free(struct mix *m)
{
	struct buf *b = &m->x;
	for (; b <= &m->where; b++) {
		assert_true(buf_guarded(b));
		buf_free(b);
	}
}

static void done(const struct dev *d, int rc)
{
	if (rc)
		fail_msg("%s", test_error(d->h));
}

static void multiply(const struct dev *d, const struct mix *m, uint32_t flags, int64_t n, int64_t k,
		     const struct buf *a, const struct buf *w, struct buf *to)
{
	struct zr_op_matmul_grouped op = { .size = sizeof op,
					   .flags = flags,
					   .b_dtype = m->dtype,
					   .rows = m->rows * m->k,
					   .experts = m->experts,
					   .n = n,
					   .k = k,
					   .offsets = I(m->offsets),
					   .a = zr_array_at(m->dtype, a->p),
					   .d = zr_array_at(to->dtype, to->p) };
	for (int64_t e = 0; e < m->experts; e++)
		op.b[e] = w->p + (size_t)(e * n * k) * width_of(m->dtype);
	done(d, d->ops->matmul_grouped(d->ops, NULL, &op));
}

static void gradient(const struct dev *d, const struct mix *m, int64_t rows, int64_t cols,
		     const struct buf *dy, const struct buf *x, struct buf *dw)
{
	struct zr_op_matmul_grouped_dw op = { .size = sizeof op,
					      .dtype = m->dtype,
					      .rows = m->rows * m->k,
					      .experts = m->experts,
					      .m = rows,
					      .n = cols,
					      .k = m->k,
					      .offsets = I(m->offsets),
					      .order = I(m->order),
					      .dy = dy->p,
					      .x = x->p };
	for (int64_t e = 0; e < m->experts; e++)
		op.dw[e] = F(*dw) + e * rows * cols;
	done(d, d->ops->matmul_grouped_dw(d->ops, NULL, &op));
}

static void gather(const struct dev *d, const struct mix *m, const struct buf *x, struct buf *out)
{
	struct zr_op_expert_rows op = { .size = sizeof op,
					.dtype = m->dtype,
					.rows = m->rows,
					.k = m->k,
					.width = m->width,
					.order = I(m->order),
					.x = x->p,
					.out = out->p };
	done(d, d->ops->expert_rows(d->ops, NULL, &op));
}

static void combine(const struct dev *d, const struct mix *m, const float *weights,
		    const struct buf *y, struct buf *out)
{
	struct zr_op_expert_combine op = { .size = sizeof op,
					   .dtype = y->dtype,
					   .out_dtype = out->dtype,
					   .rows = m->rows,
					   .k = m->k,
					   .width = m->width,
					   .where = I(m->where),
					   .weights = weights,
					   .y = y->p,
					   .out = out->p };
	done(d, d->ops->expert_combine(d->ops, NULL, &op));
}

static void route(const struct dev *d, struct mix *m)
{
	struct zr_op_route op = { .size = sizeof op,
				  .flags = m->flags,
				  .rows = m->rows,
				  .experts = m->experts,
				  .k = m->k,
				  .logits = F(m->logits),
				  .lse = F(m->lse),
				  .ids = I(m->ids),
				  .weights = F(m->weights),
				  .offsets = I(m->offsets),
				  .order = I(m->order),
				  .where = I(m->where),
				  .sums = m->sums };
	done(d, d->ops->route(d->ops, NULL, &op));
	for (int i = 0; i < 2; i++) {
		struct zr_op_router_losses loss = { .size = sizeof loss,
						    .blocks = 1,
						    .experts = m->experts,
						    .balance = (float)!i,
						    .z = (float)i,
						    .sums = m->sums,
						    .share = m->share,
						    .loss = &m->losses[i] };
		done(d, d->ops->router_losses(d->ops, NULL, &loss));
	}
}

static void score(const struct dev *d, struct mix *m)
{
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = ZR_MM_TRANS_B,
				   .m = m->rows,
				   .n = m->experts,
				   .k = m->width,
				   .lda = m->width,
				   .ldb = m->width,
				   .ldd = m->experts,
				   .a = zr_array_at(m->dtype, m->x.p),
				   .b = zr_array_at(m->dtype, m->gate.p),
				   .d = zr_array_at(ZR_F32, m->logits.p) };
	done(d, d->ops->matmul(d->ops, NULL, &op));
}

/* From the logits on. */
static void forward(const struct dev *d, struct mix *m)
{
	struct zr_op_swiglu glu = { .size = sizeof glu,
				    .dtype = m->dtype,
				    .n = m->rows * m->k * m->ffn,
				    .gate = m->hg.p,
				    .up = m->hu.p,
				    .out = m->act.p };
	route(d, m);
	gather(d, m, &m->x, &m->xs);
	multiply(d, m, ZR_MM_TRANS_B, m->ffn, m->width, &m->xs, &m->wg, &m->hg);
	multiply(d, m, ZR_MM_TRANS_B, m->ffn, m->width, &m->xs, &m->wu, &m->hu);
	done(d, d->ops->swiglu(d->ops, NULL, &glu));
	multiply(d, m, ZR_MM_TRANS_B, m->width, m->ffn, &m->act, &m->wd, &m->y);
	combine(d, m, F(m->weights), &m->y, &m->out);
}

static void router_backward(const struct dev *d, struct mix *m)
{
	struct zr_op_route_bwd op = { .size = sizeof op,
				      .flags = m->flags,
				      .rows = m->rows,
				      .experts = m->experts,
				      .k = m->k,
				      .balance = m->balance,
				      .z = m->z,
				      .p = F(m->logits),
				      .lse = F(m->lse),
				      .ids = I(m->ids),
				      .weights = F(m->weights),
				      .share = m->share,
				      .dweights = F(m->dweights),
				      .dlogits = F(m->dlogits) };
	struct zr_op_matmul dx = { .size = sizeof dx,
				   .flags = ZR_MM_ACCUMULATE,
				   .m = m->rows,
				   .n = m->width,
				   .k = m->experts,
				   .lda = m->experts,
				   .ldb = m->width,
				   .ldd = m->width,
				   .a = zr_array_at(ZR_F32, m->dlogits.p),
				   .b = zr_array_at(m->dtype, m->gate.p),
				   .d = zr_array_at(ZR_F32, m->dx.p) };
	struct zr_op_matmul dw = { .size = sizeof dw,
				   .flags = ZR_MM_TRANS_A,
				   .m = m->experts,
				   .n = m->width,
				   .k = m->rows,
				   .lda = m->experts,
				   .ldb = m->width,
				   .ldd = m->width,
				   .a = zr_array_at(ZR_F32, m->dlogits.p),
				   .b = zr_array_at(m->dtype, m->x.p),
				   .d = zr_array_at(ZR_F32, m->dgate.p) };
	done(d, d->ops->route_bwd(d->ops, NULL, &op));
	done(d, d->ops->matmul(d->ops, NULL, &dx));
	done(d, d->ops->matmul(d->ops, NULL, &dw));
}

static void backward(const struct dev *d, struct mix *m)
{
	struct zr_op_expert_weigh weigh = { .size = sizeof weigh,
					    .dtype = m->dtype,
					    .places = m->rows * m->k,
					    .width = m->ffn,
					    .order = I(m->order),
					    .weights = F(m->weights),
					    .x = m->act.p,
					    .dy = m->dact.p,
					    .dweights = F(m->dweights) };
	struct zr_op_swiglu_bwd glu = { .size = sizeof glu,
					.dtype = m->dtype,
					.n = m->rows * m->k * m->ffn,
					.dy = m->dact.p,
					.gate = m->hg.p,
					.up = m->hu.p,
					.dgate = m->hg.p,
					.dup = m->hu.p };
	gather(d, m, &m->dout, &m->dys);
	multiply(d, m, 0, m->ffn, m->width, &m->dys, &m->wd, &m->dact);
	done(d, d->ops->expert_weigh(d->ops, NULL, &weigh));
	gradient(d, m, m->width, m->ffn, &m->dys, &m->act, &m->dwd);
	done(d, d->ops->swiglu_bwd(d->ops, NULL, &glu));
	gradient(d, m, m->ffn, m->width, &m->hg, &m->xs, &m->dwg);
	gradient(d, m, m->ffn, m->width, &m->hu, &m->xs, &m->dwu);
	multiply(d, m, 0, m->width, m->ffn, &m->hg, &m->wg, &m->dxs);
	multiply(d, m, ZR_MM_ACCUMULATE, m->width, m->ffn, &m->hu, &m->wu, &m->dxs);
	combine(d, m, NULL, &m->dxs, &m->dx);
	router_backward(d, m);
}

#endif
