/* SPDX-License-Identifier: Apache-2.0
 *
 * twin_attention.h - t_twin.c's cases of attention, forward and backward.
 */
#ifndef ZR_TESTS_TWIN_ATTENTION_H
#define ZR_TESTS_TWIN_ATTENTION_H

static struct zr_op_attention attention_of(const struct side *s, int32_t dtype, int variant)
{
	int64_t w = arg[4], row = (arg[2] + 2 * arg[3]) * w + arg[5];
	size_t size = width_of(dtype);
	return (struct zr_op_attention){ .size = sizeof(struct zr_op_attention),
					 .dtype = dtype,
					 .batch = arg[0],
					 .length = arg[1],
					 .heads = arg[2],
					 .kv_heads = arg[3],
					 .head_dim = w,
					 .q_stride = row,
					 .k_stride = row,
					 .v_stride = row,
					 .out_stride = arg[2] * w + arg[5],
					 .scale = 1 / sqrtf((float)w),
					 .dropout = variant & 1 ? 0.2f : 0,
					 .rng = { 1, 2, 3, 4 },
					 .q = at(s, 0),
					 .k = (char *)at(s, 0) + (size_t)(arg[2] * w) * size,
					 .v = (char *)at(s, 0) +
					      (size_t)((arg[2] + arg[3]) * w) * size,
					 .out = at(s, 1),
					 .lse = f32(s, 2),
					 .window = variant & 2 ? 20 : 0,
					 .softcap = variant & 2 ? 0.5f : 0,
					 .max_scores = f32(s, 6),
					 .first = variant & 4 ? arg[1] / 3 : 0,
					 .first_head = variant & 4 ? 1 : 0,
					 .all_heads = variant & 4 ? arg[2] + 2 : 0,
					 .drop_rows = variant & 4 ? arg[1] + 5 : 0,
					 .key_sums = variant & 4 ? f32(s, 7) : NULL };
}

static int attention(const struct side *s, int32_t dtype, int variant)
{
	struct zr_op_attention op = attention_of(s, dtype, variant);
	return s->d.ops->attention(OPS, &op);
}

static int attention_bwd(const struct side *s, int32_t dtype, int variant)
{
	struct zr_op_attention_bwd op = { .size = sizeof op,
					  .fwd = attention_of(s, dtype, variant),
					  .dout = at(s, 3),
					  .dq = at(s, 4),
					  .work = at(s, 5) };
	int rc = s->d.ops->attention(OPS, &op.fwd);
	op.dk = (char *)op.dq + ((const char *)op.fwd.k - (const char *)op.fwd.q);
	op.dv = (char *)op.dq + ((const char *)op.fwd.v - (const char *)op.fwd.q);
	if (rc)
		return rc;
	return s->d.ops->attention_bwd(OPS, &op);
}

/* Floats of its work that suffice on both. */
static int64_t attention_work(int32_t dtype, int variant)
{
	struct zr_op_attention_bwd op = { .size = sizeof op,
					  .fwd = attention_of(&scalar, dtype, variant) };
	uint64_t a = scalar.d.ops->attention_bwd_work(scalar.d.ops, &op),
		 b = tested.d.ops->attention_bwd_work(tested.d.ops, &op);
	return (int64_t)((a > b ? a : b) / sizeof(float));
}

/* Rows are `pad` elements longer than what they hold. variant: 1 dropout, 2 a window and a soft
 * cap, 4 a part of queries and heads, with sums for keys */
static void attention_case(op_fn *op, const char *name, int32_t batch, int32_t length,
			   int32_t heads, int32_t kv_heads, int32_t width, int32_t pad,
			   int32_t dtype, int variant)
{
	const int32_t set[] = { batch, length, heads, kv_heads, width, pad };
	/* probabilities and their gradients are rounded too */
	const double coarse = dtype == ZR_F32 ? 64 : 8;
	int64_t rows = (int64_t)batch * length, in = (heads + 2 * kv_heads) * width + pad,
		out = heads * width + pad;
	memcpy(arg, set, sizeof set);
	begin((uint64_t)length);
	operand(rows * in, dtype, 1, pad % 8 != 0, 0);
	operand(rows * out, dtype, 1, 0, coarse);
	/* sums of rounded ones */
	operand((int64_t)batch * heads * length, ZR_F32, 0, 0,
		dtype == ZR_BF16 && multiplies_pairs() ? 0x1p14 : 256);
	operand(rows * out, dtype, 1, pad % 8 != 0, 0);
	operand(rows * in, dtype, 1, 0, coarse);
	operand(attention_work(dtype, variant), ZR_F32, 1, 0, -1);
	operand(heads, ZR_F32, 0, 0, 256);
	operand(rows * 2 * kv_heads * width, ZR_F32, 1, 0, dtype == ZR_F32 ? 256 : 0x1p17);
	for (int64_t h = 0; h < heads; h++)
		put(start + operands[6].at, ZR_F32, h, h % 2 ? 0 : 0.125);
	twins(name, op, dtype, variant);
}

/* Of widths that tensor cores take. */
static void wide_attentions(op_fn *op, const char *name, int t, int drop)
{
	attention_case(op, name, 2, 130, 4, 4, 64, 0, dtypes[t], drop);
	attention_case(op, name, 1, 65, 2, 1, 80, 8, dtypes[t], drop);
	attention_case(op, name, 1, 200, 6, 2, 96, 16, dtypes[t], drop);
	attention_case(op, name, 1, 97, 2, 2, 128, 0, dtypes[t], drop);
	attention_case(op, name, 1, 200, 6, 2, 96, 16, dtypes[t], drop | 2);
	attention_case(op, name, 2, 130, 4, 2, 64, 0, dtypes[t], drop | 4);
}

static void other_attentions(op_fn *op, const char *name)
{
	for (int t = 0; t < 3; t++)
		for (int drop = 0; drop < 2; drop++) {
			attention_case(op, name, 1, 33, 3, 1, 18, 3, dtypes[t], drop);
			attention_case(op, name, 1, 33, 3, 1, 18, 3, dtypes[t], drop | 2);
			attention_case(op, name, 2, 33, 3, 1, 18, 3, dtypes[t], drop | 4);
			attention_case(op, name, 1, 1, 1, 1, 130, 1, dtypes[t], drop);
			if (dtypes[t] == ZR_F32)
				wide_attentions(op, name, t, drop);
		}
	all_agreed();
}

static void attentions_of_any_width_are_close(void **state)
{
	(void)state;
	other_attentions(attention, "attention");
}

static void attentions_of_any_width_backward_are_close(void **state)
{
	(void)state;
	other_attentions(attention_bwd, "attention_bwd");
}

static void attentions_in_16_bits_are_close(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k += left_out(1) ? 3 : 1)
		wide_attentions(attention, "attention", 1 + k / 2, k % 2);
	all_agreed();
}

static void attentions_in_16_bits_backward_are_close(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k += left_out(1) ? 3 : 1)
		wide_attentions(attention_bwd, "attention_bwd", 1 + k / 2, k % 2);
	all_agreed();
}

#endif
