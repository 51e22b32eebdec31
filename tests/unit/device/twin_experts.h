/* SPDX-License-Identifier: Apache-2.0
 *
 * twin_experts.h - t_twin.c's case of a mixture of experts: routing, rows, products and all
 * gradients, one after the other.
 */
#ifndef ZR_TESTS_TWIN_EXPERTS_H
#define ZR_TESTS_TWIN_EXPERTS_H

#define TOKENS  150
#define EXPERTS 6

static int32_t *whole(const struct side *s, int which)
{
	return at(s, which);
}

/* Two of six experts of each token; widths arg[0] and arg[1]. */
static int experts(const struct side *s, int32_t dtype, int variant)
{
	const struct zr_ops *o = s->d.ops;
	const uint32_t normalise = variant ? ZR_ROUTE_NORMALISE : 0;
	struct zr_op_route r = { .size = sizeof r,
				 .flags = normalise,
				 .rows = TOKENS,
				 .experts = EXPERTS,
				 .k = 2,
				 .logits = f32(s, 0),
				 .lse = f32(s, 1),
				 .ids = whole(s, 2),
				 .weights = f32(s, 3),
				 .offsets = whole(s, 4),
				 .order = whole(s, 5),
				 .where = whole(s, 6),
				 .sums = at(s, 7) };
	struct zr_op_router_losses l = { .size = sizeof l,
					 .blocks = 1,
					 .experts = EXPERTS,
					 .balance = 0.5f,
					 .z = 0.25f,
					 .sums = at(s, 7),
					 .share = f32(s, 16),
					 .loss = at(s, 17) };
	struct zr_op_expert_rows g = { .size = sizeof g,
				       .dtype = dtype,
				       .rows = TOKENS,
				       .k = 2,
				       .width = arg[0],
				       .order = whole(s, 5),
				       .x = at(s, 8),
				       .out = at(s, 9) };
	struct zr_op_matmul_grouped m = { .size = sizeof m,
					  .flags = variant ? ZR_MM_TRANS_B : 0,
					  .b_dtype = dtype,
					  .rows = 2 * TOKENS,
					  .experts = EXPERTS,
					  .n = arg[1],
					  .k = arg[0],
					  .offsets = whole(s, 4),
					  .a = zr_array_at(dtype, at(s, 9)),
					  .d = zr_array_at(dtype, at(s, 11)) };
	struct zr_op_matmul_grouped_dw w = { .size = sizeof w,
					     .flags = variant ? ZR_OP_ACCUMULATE : 0,
					     .dtype = dtype,
					     .rows = 2 * TOKENS,
					     .experts = EXPERTS,
					     .m = arg[1],
					     .n = arg[0],
					     .k = 2,
					     .offsets = whole(s, 4),
					     .order = whole(s, 5),
					     .dy = at(s, 12),
					     .x = at(s, 9) };
	struct zr_op_expert_weigh h = { .size = sizeof h,
					.dtype = dtype,
					.places = 2 * TOKENS,
					.width = arg[1],
					.order = whole(s, 5),
					.weights = f32(s, 3),
					.x = at(s, 12),
					.dy = at(s, 13),
					.dweights = f32(s, 15) };
	struct zr_op_expert_combine c = { .size = sizeof c,
					  .dtype = dtype,
					  .out_dtype = dtype,
					  .rows = TOKENS,
					  .k = 2,
					  .width = arg[0],
					  .where = whole(s, 6),
					  .weights = f32(s, 3),
					  .y = at(s, 9),
					  .out = at(s, 8) };
	struct zr_op_route_bwd b = { .size = sizeof b,
				     .flags = normalise,
				     .rows = TOKENS,
				     .experts = EXPERTS,
				     .k = 2,
				     .balance = 0.5f,
				     .z = 0.25f,
				     .p = f32(s, 0),
				     .lse = f32(s, 1),
				     .ids = whole(s, 2),
				     .weights = f32(s, 3),
				     .share = f32(s, 16),
				     .dweights = f32(s, 15),
				     .dlogits = f32(s, 0) };
	for (int e = 0; e < EXPERTS; e++) {
		m.b[e] = (char *)at(s, 10) + (size_t)(e * arg[0] * arg[1]) * width_of(dtype);
		w.dw[e] = f32(s, 14) + e * arg[0] * arg[1];
	}
	int rc = o->route(OPS, &r);
	if (!rc)
		rc = o->router_losses(OPS, &l);
	if (!rc)
		rc = o->expert_rows(OPS, &g);
	if (!rc)
		rc = o->matmul_grouped(OPS, &m);
	if (!rc)
		rc = o->matmul_grouped_dw(OPS, &w);
	if (!rc)
		rc = o->expert_weigh(OPS, &h);
	if (!rc)
		rc = o->expert_combine(OPS, &c);
	if (rc)
		return rc;
	return o->route_bwd(OPS, &b);
}

static void experts_are_close(void **state)
{
	(void)state;
	for (int k = 0; k < 3 * 4; k++) {
		const int32_t t = dtypes[k % 3];
		const int64_t places = 2 * TOKENS, c = k < 6 ? 72 : 67, f = k < 6 ? 136 : 21;
		const struct {
			int64_t n;
			int32_t dtype;
			double scale, units;
		} each[] = { { TOKENS * EXPERTS, ZR_F32, 3, 0 },
			     { TOKENS, ZR_F32, 0, 0 },
			     { places, ZR_F32, 0, 0 },
			     { places, ZR_F32, 0, 0 },
			     { EXPERTS + 1, ZR_F32, 0, 0 },
			     { places, ZR_F32, 0, 0 },
			     { places, ZR_F32, 0, 0 },
			     { 2 * EXPERTS + 2, ZR_F64, 0, 0 },
			     { TOKENS * c, t, 1, 0 },
			     { places * c, t, 0, 0 },
			     { EXPERTS * c * f, t, 1, 0 },
			     { places * f, t, 0, t == ZR_F32 ? 64 : 1 },
			     { places * f, t, 1, 0 },
			     { places * f, t, 1, 0 },
			     { EXPERTS * c * f, ZR_F32, 1, 64 },
			     { places, ZR_F32, 0, 0 },
			     { EXPERTS + 1, ZR_F32, 0, 0 },
			     { 1, ZR_F64, 0, 0 } };
		arg[0] = c;
		arg[1] = f;
		begin((uint64_t)k);
		for (size_t i = 0; i < sizeof each / sizeof *each; i++)
			operand(each[i].n, each[i].dtype, each[i].scale, 0, each[i].units);
		twins("experts", experts, t, k / 3 & 1);
	}
	all_agreed();
}

#endif
