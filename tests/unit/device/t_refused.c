/* SPDX-License-Identifier: Apache-2.0
 *
 * t_refused.c - arguments that an operation cannot mean: a device refuses them with a text that
 * says which, and touches nothing.
 */
#include "tests/lib/testdevice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static struct dev d;

static int open_device(void **state)
{
	(void)state;
	return dev_open(&d, 1, "auto");
}

static int close_device(void **state)
{
	(void)state;
	dev_close(&d);
	return 0;
}

static void refused(int rc, const char *text)
{
	assert_int_equal(rc, ZR_EINVAL);
	if (!strstr(test_error(d.h), text))
		fail_msg("\"%s\" does not say \"%s\"", test_error(d.h), text);
}

static void activations(void **state)
{
	struct zr_op_gelu_bwd gelu = {
		.size = sizeof gelu, .dtype = ZR_F32, .n = 1, .activation = ZR_ACT_SILU
	};
	struct zr_op_matmul product = { .size = sizeof product,
					.flags = ZR_MM_GELU,
					.a.dtype = ZR_F32,
					.b.dtype = ZR_F32,
					.d.dtype = ZR_F32,
					.activation = 4 };
	struct zr_op_swiglu glu = { .size = sizeof glu, .dtype = ZR_F32, .activation = 4 };
	struct zr_op_swiglu_bwd back = { .size = sizeof back, .dtype = ZR_F32, .activation = -1 };
	(void)state;
	refused(d.ops->gelu_bwd(d.ops, NULL, &gelu), "gelu_bwd: activation 1 is no GELU");
	refused(d.ops->matmul(d.ops, NULL, &product), "matmul: activation 4 is no GELU");
	refused(d.ops->swiglu(d.ops, NULL, &glu), "swiglu: there is no activation 4");
	refused(d.ops->swiglu_bwd(d.ops, NULL, &back), "swiglu_bwd: there is no activation -1");
}

/* A type that has no scales apart from its elements is not computed as if there were none. */
static void scales_of_types_without(void **state)
{
	static const float scale = 2;
	static float x[ZR_BLOCK];
	struct zr_array *operand[5];
	struct zr_op_matmul product = { .size = sizeof product,
					.m = 1,
					.n = 1,
					.k = 1,
					.a = zr_array_at(ZR_F32, x),
					.b = zr_array_at(ZR_F32, x),
					.d = zr_array_at(ZR_F32, x) };
	struct zr_op_cast cast = { .size = sizeof cast,
				   .n = ZR_BLOCK,
				   .src = zr_array_at(ZR_INT8, x),
				   .dst = zr_array_at(ZR_F32, x) };
	(void)state;
	operand[0] = &product.a;
	operand[1] = &product.b;
	operand[2] = &product.d;
	operand[3] = &cast.src;
	operand[4] = &cast.dst;
	for (int i = 0; i < 5; i++) {
		operand[i]->scales = &scale;
		if (i < 3)
			refused(d.ops->matmul(d.ops, NULL, &product),
				"matmul: element type 1 has no scales apart");
		else
			refused(d.ops->cast(d.ops, NULL, &cast), "has no scales apart");
		operand[i]->scales = NULL;
	}
}

static void codes_of_codes(void **state)
{
	float x[4] = { 0 };
	struct zr_op_cast cast = { .size = sizeof cast,
				   .n = ZR_BLOCK,
				   .src = zr_array_at(ZR_INT8, x),
				   .dst = zr_array_at(ZR_MXINT8, x) };
	struct zr_op_fold fold = {
		.size = sizeof fold, .comm_dtype = ZR_BF16, .number = 1, .from = ZR_MXINT8
	};
	(void)state;
	assert_int_equal(d.ops->cast(d.ops, NULL, &cast), ZR_ENOTSUP);
	cast.src.dtype = ZR_MXINT8;
	assert_int_equal(d.ops->cast(d.ops, NULL, &cast), ZR_ENOTSUP);
	refused(d.ops->fold(d.ops, NULL, &fold), "fold: codes are not rounded to element type 2");
}

static void rows_of_gates(void **state)
{
	static const int64_t width[] = { 4, 3, -1, 0 }, stride[] = { 4, 2, 1, 5 };
	struct zr_op_swiglu glu = { .size = sizeof glu, .dtype = ZR_F32, .n = 6 };
	(void)state;
	for (int i = 0; i < 4; i++) {
		glu.width = width[i];
		glu.stride = stride[i];
		refused(d.ops->swiglu(d.ops, NULL, &glu), "swiglu: 6 elements are no rows of ");
	}
}

static void groups_of_rows(void **state)
{
	struct zr_op_rmsnorm norm = { .size = sizeof norm,
				      .dtype = ZR_F32,
				      .rows = 4,
				      .width = 8,
				      .per_row = 2,
				      .x_stride = 15 };
	struct zr_op_rmsnorm_bwd back = {
		.size = sizeof back, .dtype = ZR_F32, .rows = 4, .width = 8, .per_row = -1
	};
	(void)state;
	refused(d.ops->rmsnorm(d.ops, NULL, &norm),
		"rmsnorm: x: no 2 rows of 8 fit where groups lie 15 apart");
	norm.x_stride = 0;
	norm.y_stride = -16;
	refused(d.ops->rmsnorm(d.ops, NULL, &norm), "rmsnorm: y: ");
	refused(d.ops->rmsnorm_bwd(d.ops, NULL, &back), "rmsnorm_bwd: dy: no -1 rows");
	back.per_row = 0;
	back.x_stride = 7;
	refused(d.ops->rmsnorm_bwd(d.ops, NULL, &back), "rmsnorm_bwd: x: ");
	back.x_stride = 8;
	back.dx_stride = 7;
	refused(d.ops->rmsnorm_bwd(d.ops, NULL, &back), "rmsnorm_bwd: dx: ");
}

static void windows_and_soft_caps(void **state)
{
	struct zr_op_attention_bwd o = { .size = sizeof o,
					 .fwd = { .size = sizeof o.fwd,
						  .dtype = ZR_F32,
						  .batch = 1,
						  .length = 1,
						  .heads = 1,
						  .kv_heads = 1,
						  .head_dim = 8,
						  .window = -1 } };
	(void)state;
	refused(d.ops->attention(d.ops, NULL, &o.fwd), "attention: a window of -1 tokens");
	refused(d.ops->attention_bwd(d.ops, NULL, &o), "attention: a window of -1 tokens");
	o.fwd.window = 0;
	for (int i = 0; i < 3; i++) {
		o.fwd.softcap = (float[]){ -1, INFINITY, NAN }[i];
		refused(d.ops->attention(d.ops, NULL, &o.fwd), "attention: a soft cap of ");
		refused(d.ops->attention_bwd(d.ops, NULL, &o), "attention: a soft cap of ");
	}
}

static void parts_of_heads(void **state)
{
	struct zr_op_rotary turn = { .size = sizeof turn,
				     .dtype = ZR_F32,
				     .batch = 1,
				     .length = 1,
				     .heads = 1,
				     .head_dim = 8,
				     .rotary_dim = 10 };
	(void)state;
	refused(d.ops->rotary(d.ops, NULL, &turn), "rotary: heads of width 8 do not have 10");
	turn.rotary_dim = 7;
	assert_int_equal(d.ops->rotary(d.ops, NULL, &turn), ZR_ENOTSUP);
	turn.rotary_dim = 4;
	turn.head_stride = 6;
	refused(d.ops->rotary(d.ops, NULL, &turn), "rotary: heads of width 8 do not lie 6 apart");
	turn.head_stride = 0;
	turn.gain = INFINITY;
	refused(d.ops->rotary(d.ops, NULL, &turn), "rotary: a gain of inf is no number");
}

static void logits(void **state)
{
	struct zr_op_logit_cap cap = { .size = sizeof cap, .softcap = -1 };
	struct zr_op_head_loss head = { .size = sizeof head,
					.dtype = ZR_F32,
					.rows = 1,
					.width = 1,
					.vocabulary = 1,
					.logit_gain = NAN };
	(void)state;
	refused(d.ops->logit_cap(d.ops, NULL, &cap),
		"logit_cap: logits are not scaled by 0 and capped at -1");
	refused(d.ops->head_loss(d.ops, NULL, &head), "head_loss: logits are not scaled by ");
	head.logit_gain = 0;
	head.softcap = INFINITY;
	refused(d.ops->head_loss(d.ops, NULL, &head),
		"head_loss: logits are not scaled by 0 and capped at inf");
	if (d.ops->head_loss_rows)
		refused(d.ops->head_loss_rows(d.ops, NULL, &head), "head_loss_rows: logits ");
}

static void heads_to_scale(void **state)
{
	struct zr_op_scale_heads h = {
		.size = sizeof h, .width = 8, .lines = 4, .apart = 3, .heads = 2
	};
	(void)state;
	refused(d.ops->scale_heads(d.ops, NULL, &h),
		"scale_heads: 2 heads of 4 lines, 3 apart, are not in rows of 8");
	h.apart = 4;
	h.width = 0;
	refused(d.ops->scale_heads(d.ops, NULL, &h), "scale_heads: 2 heads of 4 lines, 4 apart");
}

static void queries_and_heads_of_dropout(void **state)
{
	struct zr_op_attention_bwd o = { .size = sizeof o,
					 .fwd = { .size = sizeof o.fwd,
						  .dtype = ZR_F32,
						  .first = 9,
						  .batch = 1,
						  .length = 8,
						  .heads = 2,
						  .kv_heads = 1,
						  .head_dim = 8 } };
	(void)state;
	refused(d.ops->attention(d.ops, NULL, &o.fwd), "attention: from query 9 on of 8");
	refused(d.ops->attention_bwd(d.ops, NULL, &o), "attention: from query 9 on of 8");
	o.fwd.first = -1;
	refused(d.ops->attention_bwd(d.ops, NULL, &o), "attention: from query -1 on of 8");
	o.fwd.first = 0;
	o.fwd.first_head = 3;
	o.fwd.all_heads = 4;
	refused(d.ops->attention(d.ops, NULL, &o.fwd), "attention: heads 3 to 5 are not of 4");
	o.fwd.first_head = 2;
	o.fwd.drop_rows = 7;
	refused(d.ops->attention_bwd(d.ops, NULL, &o),
		"attention: dropout of 7 rows has none for 8");
}

static void elements_of_dropout(void **state)
{
	struct zr_op_residual r = { .size = sizeof r, .dtype = ZR_F32, .first = -1 };
	struct zr_op_matmul_low_rank m = { .size = sizeof m, .first = -4 };
	(void)state;
	refused(d.ops->residual(d.ops, NULL, &r), "residual: dropout has no element -1");
	refused(d.ops->matmul_low_rank(d.ops, NULL, &m),
		"matmul_low_rank: dropout has no element -4");
}

static void parts_of_sums(void **state)
{
	struct zr_op_router_losses o = { .size = sizeof o, .experts = 3, .parts = -2 };
	(void)state;
	refused(d.ops->router_losses(d.ops, NULL, &o), "router_losses: sums of -2 parts");
	o.parts = 0;
	o.experts = ZR_EXPERTS + 1;
	assert_int_equal(d.ops->router_losses(d.ops, NULL, &o), ZR_ENOTSUP);
}

static void heads_to_cast(void **state)
{
	struct zr_op_cast_heads h = { .size = sizeof h,
				      .rows = 2,
				      .heads = 3,
				      .head_dim = 8,
				      .dst_stride = 8,
				      .dst_head = 7,
				      .src.dtype = ZR_F32,
				      .dst.dtype = ZR_BF16 };
	(void)state;
	refused(d.ops->cast_heads(d.ops, NULL, &h),
		"cast_heads: 2 rows, 8 apart, of 3 heads, 7 apart, have no room for heads of width "
		"8");
	h.dst_head = 16;
	h.dst_stride = 0;
	refused(d.ops->cast_heads(d.ops, NULL, &h), "cast_heads: 2 rows, 0 apart, of 3 heads");
	h.src.dtype = ZR_INT8;
	assert_int_equal(d.ops->cast_heads(d.ops, NULL, &h), ZR_ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(activations),
		cmocka_unit_test(rows_of_gates),
		cmocka_unit_test(groups_of_rows),
		cmocka_unit_test(windows_and_soft_caps),
		cmocka_unit_test(parts_of_heads),
		cmocka_unit_test(logits),
		cmocka_unit_test(heads_to_scale),
		cmocka_unit_test(scales_of_types_without),
		cmocka_unit_test(codes_of_codes),
		cmocka_unit_test(heads_to_cast),
		cmocka_unit_test(queries_and_heads_of_dropout),
		cmocka_unit_test(elements_of_dropout),
		cmocka_unit_test(parts_of_sums),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, open_device, close_device);
}
