/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_experts.c - the CUDA kernels of a mixture of experts, run by the host (cuda_emulated.h),
 * against device/cpu with scalar kernels: bits but for products. Poisoned results, guards, operands
 * on and off the alignment of tensor cores.
 */
#include "tests/lib/testdevice.h"

#include <kernels_cuda.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define F(b)       ((float *)(void *)(b).p)
#define I(b)       ((int32_t *)(void *)(b).p)
#define DONE(call) assert_int_equal(call, cudaSuccess)

static struct dev d;

static int open_cpu(void **state)
{
	(void)state;
	return dev_open(&d, 1, "scalar");
}

static int close_cpu(void **state)
{
	(void)state;
	dev_close(&d);
	return 0;
}

/* The CPU's result and that of CUDA, with the same start; both of them are freed. */
static void same(const char *what, struct buf *r)
{
	assert_true(buf_guarded(&r[1]));
	for (int64_t i = 0; i < r->n; i++)
		if (memcmp(r[0].p + (size_t)i * width_of(r->dtype),
			   r[1].p + (size_t)i * width_of(r->dtype), width_of(r->dtype)))
			fail_msg("%s, type %d: element %lld is %a, should be %a", what, r->dtype,
				 (long long)i, get(r[1].p, r->dtype, i), get(r[0].p, r->dtype, i));
	buf_free(&r[0]);
	buf_free(&r[1]);
}

static void close_enough(const char *what, struct buf *r, double units)
{
	double step = r->dtype == ZR_F32  ? 0x1p-23 :
		      r->dtype == ZR_BF16 ? 0x1p-8 :
					    0x1p-11,
	       most = 1e-6;
	assert_true(buf_guarded(&r[1]));
	for (int64_t i = 0; i < r->n; i++)
		most = fmax(most, fabs(get(r[0].p, r->dtype, i)));
	for (int64_t i = 0; i < r->n; i++)
		if (!(fabs(get(r[0].p, r->dtype, i) - get(r[1].p, r->dtype, i)) <=
		      units * step * most))
			fail_msg("%s, type %d: element %lld is %g, should be %g", what, r->dtype,
				 (long long)i, get(r[1].p, r->dtype, i), get(r[0].p, r->dtype, i));
	buf_free(&r[0]);
	buf_free(&r[1]);
}

static void two(struct buf *r, int64_t n, int32_t dtype, double scale, int off)
{
	r[0] = scale != 0 ? buf_random(n, dtype, 5, scale) : buf_new(n, dtype, 0);
	r[1] = buf_new(n, dtype, off);
	memcpy(r[1].p, r[0].p, (size_t)n * width_of(dtype));
}

/* ---- routing ---- */

static void route_case(int64_t rows, int64_t experts, int64_t k, uint32_t flags, double spread,
		       int masked)
{
	struct buf logits[2], lse[2], ids[2], weights[2], offsets[2], order[2], where[2],
		dlogits[2];
	struct buf dweights = buf_random(rows * k, ZR_F32, 8, 1);
	double sums[2][2 * ZR_EXPERTS + 2], before[2 * ZR_EXPERTS + 2], loss[2];
	float share[2][ZR_EXPERTS + 1];
	int32_t *targets = calloc((size_t)rows, sizeof *targets);
	two(logits, rows * experts, ZR_F32, spread, 1);
	for (int64_t i = 0; i < rows * experts; i += 3) /* ties */
		F(logits[0])[i] = F(logits[1])[i] = (float)(i % 2);
	two(lse, rows, ZR_F32, 0, 1);
	two(ids, rows * k, ZR_F32, 0, 1);
	two(weights, rows * k, ZR_F32, 0, 1);
	two(offsets, experts + 1, ZR_F32, 0, 1);
	two(order, rows * k, ZR_F32, 0, 1);
	two(where, rows * k, ZR_F32, 0, 1);
	two(dlogits, rows * experts, ZR_F32, 0, 1);
	for (int64_t r = 0; r < rows; r++) /* every third token does not count */
		targets[r] = r % 3 == 1 ? ZR_PADDING : -1;
	for (int64_t i = 0; i < 2 * experts + 2; i++)
		before[i] = (double)i / 3;
	for (int i = 0; i < 2; i++) {
		struct zr_op_router_losses sum = { .size = sizeof sum,
						   .blocks = 2,
						   .experts = experts,
						   .balance = 0.5f,
						   .z = 0.25f,
						   .sums = sums[i],
						   .share = share[i],
						   .loss = &loss[i] };
		struct zr_op_route op = { .size = sizeof op,
					  .flags = flags,
					  .rows = rows,
					  .experts = experts,
					  .k = k,
					  .logits = F(logits[i]),
					  .lse = F(lse[i]),
					  .ids = I(ids[i]),
					  .weights = F(weights[i]),
					  .offsets = I(offsets[i]),
					  .order = I(order[i]),
					  .where = I(where[i]),
					  .before = flags ? before : NULL,
					  .sums = sums[i],
					  .targets = masked ? targets : NULL };
		struct zr_op_route_bwd bwd = { .size = sizeof bwd,
					       .flags = flags,
					       .rows = rows,
					       .experts = experts,
					       .k = k,
					       .balance = flags ? 0.5f : 0,
					       .z = 0.25f,
					       .p = F(logits[i]),
					       .lse = F(lse[i]),
					       .ids = I(ids[i]),
					       .weights = F(weights[i]),
					       .share = share[i],
					       .dweights = F(dweights),
					       .dlogits = F(dlogits[i]),
					       .targets = masked ? targets : NULL };
		if (i) {
			DONE(zr_cuda_route(&op, NULL));
			DONE(zr_cuda_router_losses(&sum, NULL));
			DONE(zr_cuda_route_bwd(&bwd, NULL));
		} else {
			assert_int_equal(d.ops->route(d.ops, NULL, &op), ZR_OK);
			assert_int_equal(d.ops->router_losses(d.ops, NULL, &sum), ZR_OK);
			assert_int_equal(d.ops->route_bwd(d.ops, NULL, &bwd), ZR_OK);
		}
	}
	same("p", logits);
	same("lse", lse);
	same("ids", ids);
	same("weights", weights);
	same("offsets", offsets);
	same("order", order);
	same("where", where);
	same("dlogits", dlogits);
	assert_memory_equal(sums[0], sums[1], (size_t)(2 * experts + 2) * sizeof **sums);
	assert_memory_equal(share[0], share[1], (size_t)(experts + 1) * sizeof **share);
	assert_memory_equal(&loss[0], &loss[1], sizeof *loss);
	free(targets);
	buf_free(&dweights);
}

static void routing_has_the_bits_of_the_scalar_kernels(void **state)
{
	(void)state;
	for (int masked = 0; masked < 2; masked++) {
		route_case(1, 1, 1, 0, 1, masked);
		route_case(2, 33, 33, ZR_ROUTE_NORMALISE, 3, masked);
		route_case(300, 5, 2, ZR_ROUTE_NORMALISE, 8, masked);
		route_case(600, 3, 1, 0, 100, masked);
	}
}

#define PARTS 3

/* The losses of sums of `parts` parts, by the CPU or by CUDA. */
static double losses_of(int cuda, int64_t experts, int64_t parts, const double *sums, float *share)
{
	double loss = NAN;
	struct zr_op_router_losses op = { .size = sizeof op,
					  .blocks = 2,
					  .experts = experts,
					  .balance = 0.5f,
					  .z = 0.25f,
					  .sums = sums,
					  .share = share,
					  .loss = &loss,
					  .parts = parts };
	if (cuda)
		DONE(zr_cuda_router_losses(&op, NULL));
	else
		assert_int_equal(d.ops->router_losses(d.ops, NULL, &op), ZR_OK);
	return loss;
}

static void parts_case(int64_t experts)
{
	const int64_t n = 2 * experts + 2;
	const size_t bytes = (size_t)(experts + 1) * sizeof(float);
	double sums[PARTS * (2 * ZR_EXPERTS + 2)], added[2 * ZR_EXPERTS + 2];
	float share[ZR_EXPERTS + 1], want[ZR_EXPERTS + 1];
	for (int64_t i = 0; i < PARTS * n; i++) /* another order would have other bits */
		sums[i] = pow(10, (double)(i % 7)) / (double)(i + 3);
	for (int64_t i = 0; i < n; i++)
		added[i] = sums[i] + sums[n + i] + sums[2 * n + i];
	const double loss = losses_of(0, experts, 1, added, want);
	for (int cuda = 0; cuda < 2; cuda++) {
		const double got = losses_of(cuda, experts, PARTS, sums, share);
		assert_memory_equal(&got, &loss, sizeof got);
		assert_memory_equal(share, want, bytes);
	}
}

static void parts_of_sums_are_added_in_order(void **state)
{
	(void)state;
	parts_case(1);
	parts_case(7);
	parts_case(ZR_EXPERTS);
}

/* ---- rows ---- */

/* order: a permutation that mixes; where its inverse */
static void permute(int64_t n, struct buf *order, struct buf *where)
{
	*order = buf_new(n, ZR_F32, 0);
	*where = buf_new(n, ZR_F32, 0);
	for (int64_t s = 0; s < n; s++) {
		int64_t i = n % 7 ? s * 7 % n : s * 11 % n;
		I(*order)[s] = (int32_t)i;
		I(*where)[i] = (int32_t)s;
	}
}

static void rows_case(int64_t rows, int64_t k, int64_t width, int32_t t, int off)
{
	struct buf order, where, x = buf_random(rows * width, t, 1, 1),
				 y = buf_random(rows * k * width, t, 2, 1);
	struct buf weights = buf_random(rows * k, ZR_F32, 3, 1), out[2], sum[2], plain[2], act[2],
		   dact[2], dweights[2];
	permute(rows * k, &order, &where);
	two(out, rows * k * width, t, 0, off);
	two(sum, rows * width, t, 0, off);
	two(plain, rows * width, ZR_F32, 0, off);
	two(act, rows * k * width, t, 1, off);
	two(dact, rows * k * width, t, 2, off);
	two(dweights, rows * k, ZR_F32, 0, off);
	for (int i = 0; i < 2; i++) {
		struct zr_op_expert_rows r = { .size = sizeof r,
					       .dtype = t,
					       .rows = rows,
					       .k = k,
					       .width = width,
					       .order = I(order),
					       .x = x.p,
					       .out = out[i].p };
		struct zr_op_expert_combine c = { .size = sizeof c,
						  .dtype = t,
						  .out_dtype = t,
						  .rows = rows,
						  .k = k,
						  .width = width,
						  .where = I(where),
						  .weights = F(weights),
						  .y = y.p,
						  .out = sum[i].p };
		struct zr_op_expert_combine p = c;
		struct zr_op_expert_weigh w = { .size = sizeof w,
						.dtype = t,
						.places = rows * k,
						.width = width,
						.order = I(order),
						.weights = F(weights),
						.x = act[i].p,
						.dy = dact[i].p,
						.dweights = F(dweights[i]) };
		p.out_dtype = ZR_F32;
		p.weights = NULL;
		p.out = plain[i].p;
		if (i) {
			DONE(zr_cuda_expert_rows(&r, NULL));
			DONE(zr_cuda_expert_combine(&c, NULL));
			DONE(zr_cuda_expert_combine(&p, NULL));
			DONE(zr_cuda_expert_weigh(&w, NULL));
			continue;
		}
		assert_int_equal(d.ops->expert_rows(d.ops, NULL, &r), ZR_OK);
		assert_int_equal(d.ops->expert_combine(d.ops, NULL, &c), ZR_OK);
		assert_int_equal(d.ops->expert_combine(d.ops, NULL, &p), ZR_OK);
		assert_int_equal(d.ops->expert_weigh(d.ops, NULL, &w), ZR_OK);
	}
	same("expert_rows", out);
	same("expert_combine", sum);
	same("expert_combine without weights", plain);
	same("expert_weigh: x", act);
	same("expert_weigh: dy", dact);
	same("expert_weigh: dweights", dweights);
	struct buf *const rest[] = { &order, &where, &x, &y, &weights };
	for (int i = 0; i < 5; i++)
		buf_free(rest[i]);
}

static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };

static void rows_have_the_bits_of_the_scalar_kernels(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++) {
		rows_case(1, 1, 1, dtypes[t], 0);
		rows_case(9, 2, 37, dtypes[t], 1);
		rows_case(2, 3, 1040, dtypes[t], 0);
	}
}

/* ---- rows without an order ---- */

#define ALONE 9 /* rows that came from elsewhere */

static void weigh_alone(int cuda, const int32_t *order, const struct buf *weights, struct buf *x,
			struct buf *dy, struct buf *dweights, int32_t t)
{
	const struct zr_op_expert_weigh op = { .size = sizeof op,
					       .dtype = t,
					       .places = ALONE,
					       .width = 37,
					       .order = order,
					       .weights = F(*weights),
					       .x = x->p,
					       .dy = dy->p,
					       .dweights = F(*dweights) };
	if (cuda)
		DONE(zr_cuda_expert_weigh(&op, NULL));
	else
		assert_int_equal(d.ops->expert_weigh(d.ops, NULL, &op), ZR_OK);
}

static void gradients_alone(int cuda, const int32_t *order, const struct buf *dy,
			    const struct buf *x, struct buf *dw, int32_t t)
{
	static const int32_t offsets[] = { 0, 0, 4, ALONE };
	struct zr_op_matmul_grouped_dw op = { .size = sizeof op,
					      .dtype = t,
					      .rows = ALONE,
					      .experts = 3,
					      .m = 17,
					      .n = 19,
					      .k = 1,
					      .offsets = offsets,
					      .order = order,
					      .dy = dy->p,
					      .x = x->p };
	for (int e = 0; e < 3; e++)
		op.dw[e] = F(*dw) + e * op.m * op.n;
	if (cuda)
		DONE(zr_cuda_matmul_grouped_dw(&op, NULL));
	else
		assert_int_equal(d.ops->matmul_grouped_dw(d.ops, NULL, &op), ZR_OK);
}

/* The same as with the order in which they are, by the CPU and by CUDA. */
static void alone_case(int cuda, int32_t t)
{
	int32_t as_they_are[ALONE];
	struct buf weights = buf_random(ALONE, ZR_F32, 3, 1), x[2], dy[2], dweights[2], dw[2];
	struct buf left = buf_random(ALONE * 17, t, 4, 1), right = buf_random(ALONE * 19, t, 5, 1);
	two(x, ALONE * 37, t, 1, 0);
	two(dy, ALONE * 37, t, 2, 0);
	two(dweights, ALONE, ZR_F32, 0, 0);
	two(dw, 3 * 17 * 19, ZR_F32, 0, 0);
	for (int32_t s = 0; s < ALONE; s++)
		as_they_are[s] = s;
	for (int i = 0; i < 2; i++) {
		const int32_t *order = i ? NULL : as_they_are;
		weigh_alone(cuda, order, &weights, &x[i], &dy[i], &dweights[i], t);
		gradients_alone(cuda, order, &left, &right, &dw[i], t);
	}

	same("expert_weigh without an order: x", x);
	same("expert_weigh without an order: dy", dy);
	same("expert_weigh without an order: dweights", dweights);
	same("matmul_grouped_dw without an order", dw);
	buf_free(&weights);
	buf_free(&left);
	buf_free(&right);
}

static void rows_without_an_order_are_in_it(void **state)
{
	(void)state;
	for (int t = 0; t < 3; t++)
		for (int cuda = 0; cuda < 2; cuda++)
			alone_case(cuda, dtypes[t]);
}

/* ---- products ---- */

struct crowd {
	int64_t experts;
	int32_t offsets[6];
};
static const struct crowd crowds[] = {
	/* rows 0..2 are nobody's */
	{ 1, { 0, 65 } },
	{ 5, { 0, 0, 1, 1, 67, 67 } },
	{ 3, { 3, 70, 70, 75 } },
};

static void product_case(const struct crowd *c, int64_t n, int64_t k, uint32_t flags, int32_t t,
			 int32_t td, int off)
{
	int64_t rows = c->offsets[c->experts];
	struct buf a = buf_random(rows * k + 1, t, 1, 1),
		   b = buf_random(c->experts * n * k + 1, t, 2, 1), r[2];
	two(r, rows * n, td, 1, 0);
	for (int i = 0; i < 2; i++) {
		struct zr_op_matmul_grouped op = { .size = sizeof op,
						   .flags = flags,
						   .b_dtype = t,
						   .rows = rows,
						   .experts = c->experts,
						   .n = n,
						   .k = k,
						   .offsets = c->offsets,
						   .a = zr_array_at(t,
								    a.p + (off ? width_of(t) : 0)),
						   .d = zr_array_at(td, r[i].p) };
		for (int64_t e = 0; e < c->experts; e++)
			op.b[e] = b.p + (size_t)(e * n * k) * width_of(t);
		if (i)
			DONE(zr_cuda_matmul_grouped(&op, NULL));
		else
			assert_int_equal(d.ops->matmul_grouped(d.ops, NULL, &op), ZR_OK);
	}
	close_enough("matmul_grouped", r, td == ZR_F32 ? 64 : 1);
	buf_free(&a);
	buf_free(&b);
}

static void products_are_close(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const struct crowd *c = &crowds[i % 3];
		uint32_t trans = i & 1 ? ZR_MM_TRANS_B : 0, add = i & 2 ? ZR_MM_ACCUMULATE : 0;
		product_case(c, 67, 21, trans | add, ZR_F32, ZR_F32, 0);
		product_case(c, 136, 72, trans | add, ZR_BF16, ZR_F32, 0);
		product_case(c, 24, 40, trans, ZR_F16, ZR_F16, 0);
		product_case(c, 24, 40, trans, ZR_BF16, ZR_BF16, 1);
		product_case(c, 20, 16, trans | add, ZR_F16, ZR_F32, 0);
	}
}

/* Places of two of each token; `order` ascends in each expert, by `step`. */
static void gradient_case(const struct crowd *c, int64_t m, int64_t n, uint32_t flags, int32_t t,
			  int32_t step)
{
	int64_t rows = c->offsets[c->experts];
	struct buf dy = buf_random(rows * m, t, 1, 1), x = buf_random(rows * n, t, 2, 1),
		   order = buf_new(rows, ZR_F32, 0), r[2];
	for (int64_t e = 0; e < c->experts; e++)
		for (int32_t s = c->offsets[e]; s < c->offsets[e + 1]; s++)
			I(order)[s] = (s - c->offsets[e]) * step;
	two(r, c->experts * m * n, ZR_F32, 1, 1);
	for (int i = 0; i < 2; i++) {
		struct zr_op_matmul_grouped_dw op = { .size = sizeof op,
						      .flags = flags,
						      .dtype = t,
						      .rows = rows,
						      .experts = c->experts,
						      .m = m,
						      .n = n,
						      .k = 2,
						      .offsets = c->offsets,
						      .order = I(order),
						      .dy = dy.p,
						      .x = x.p };
		for (int64_t e = 0; e < c->experts; e++)
			op.dw[e] = e == 3 ? NULL : F(r[i]) + e * m * n;
		if (i)
			DONE(zr_cuda_matmul_grouped_dw(&op, NULL));
		else
			assert_int_equal(d.ops->matmul_grouped_dw(d.ops, NULL, &op), ZR_OK);
	}
	close_enough("matmul_grouped_dw", r, 64);
	buf_free(&dy);
	buf_free(&x);
	buf_free(&order);
}

static void gradients_are_close(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t flags = i & 1 ? ZR_OP_ACCUMULATE : 0;
		int32_t step = i ? 100 : 2; /* a chunk each 41 places, or one only */
		gradient_case(&crowds[i], 67, 21, flags, ZR_F32, step);
		gradient_case(&crowds[i], i ? 16 : 72, i ? 136 : 24, flags, ZR_BF16, step);
		gradient_case(&crowds[i], 8, 16, flags, ZR_F16, step);
		gradient_case(&crowds[i], 9, 16, flags, ZR_F16, step);
	}
}

/* Whole numbers, whose sums are exact: a wrong row or chunk shows whatever is close. */
static void whole_numbers_are_exact(void **state)
{
	const struct crowd *c = &crowds[1];
	struct buf a = buf_new(67 * 32, ZR_BF16, 0), b = buf_new(5 * 40 * 32, ZR_BF16, 0), r[2];
	(void)state;
	for (int64_t i = 0; i < a.n; i++)
		put(a.p, ZR_BF16, i, (double)(i * 7 % 11 - 5));
	for (int64_t i = 0; i < b.n; i++)
		put(b.p, ZR_BF16, i, (double)(i * 5 % 13 - 6));
	for (uint32_t trans = 0; trans < 2; trans++) {
		two(r, 67 * 40, ZR_F32, 0, 0);
		for (int i = 0; i < 2; i++) {
			struct zr_op_matmul_grouped op = { .size = sizeof op,
							   .flags = trans ? ZR_MM_TRANS_B : 0,
							   .b_dtype = ZR_BF16,
							   .rows = 67,
							   .experts = 5,
							   .n = 40,
							   .k = 32,
							   .offsets = c->offsets,
							   .a = zr_array_at(ZR_BF16, a.p),
							   .d = zr_array_at(ZR_F32, r[i].p) };
			for (int64_t e = 0; e < 5; e++)
				op.b[e] = b.p + (size_t)(e * 40 * 32) * 2;
			if (i)
				DONE(zr_cuda_matmul_grouped(&op, NULL));
			else
				assert_int_equal(d.ops->matmul_grouped(d.ops, NULL, &op), ZR_OK);
		}
		same("matmul_grouped of whole numbers", r);
	}
	buf_free(&a);
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(routing_has_the_bits_of_the_scalar_kernels),
		cmocka_unit_test(parts_of_sums_are_added_in_order),
		cmocka_unit_test(rows_have_the_bits_of_the_scalar_kernels),
		cmocka_unit_test(rows_without_an_order_are_in_it),
		cmocka_unit_test(products_are_close),
		cmocka_unit_test(gradients_are_close),
		cmocka_unit_test(whole_numbers_are_exact),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
