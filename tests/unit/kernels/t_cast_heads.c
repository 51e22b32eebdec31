/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cast_heads.c - heads are converted to where they belong, and nothing between them is touched.
 */
#include "kernels_fixture.h"

#include <string.h>

#include "cpu/scalar.h"

enum { ROWS = 5, HEADS = 3, ROOM = 900 };

struct layout {
	int64_t stride, head;
};

/* Heads in a row without gaps, with gaps in heads and rows, and head by head. */
static const struct layout layouts[] = {
	{ HEADS * 19, 19 },
	{ HEADS * 23 + 4, 23 },
	{ 21, ROWS * 21 },
};
static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };

/* What the operation's words say, element by element; an element that keeps its type keeps its
 * bits. */
static void cast_plainly(const struct zr_op_cast_heads *o, void *dst)
{
	for (int64_t i = 0; i < o->rows * o->heads * o->head_dim; i++) {
		int64_t d = i % o->head_dim, h = i / o->head_dim % o->heads;
		int64_t r = i / o->head_dim / o->heads;
		int64_t from = r * o->src_stride + h * o->src_head + d;
		int64_t to = r * o->dst_stride + h * o->dst_head + d;
		if (o->src.dtype == o->dst.dtype)
			memcpy(zr_at(dst, to, o->dst.dtype), zr_at(o->src.data, from, o->src.dtype),
			       (size_t)zr_size(o->dst.dtype));
		else
			zr_put(dst, to, o->dst.dtype, zr_get(o->src.data, from, o->src.dtype));
	}
}

static void compare(const struct zr_cpu_kernels *k, const struct layout *from,
		    const struct layout *to, int32_t src, int32_t dst)
{
	uint64_t seed = 3;
	const size_t bytes = ROOM * (size_t)fixture_size(dst);
	struct zr_op_cast_heads op = { .size = sizeof op,
				       .rows = ROWS,
				       .heads = HEADS,
				       .head_dim = 19,
				       .src_stride = from->stride,
				       .src_head = from->head,
				       .dst_stride = to->stride,
				       .dst_head = to->head };
	char want[ROOM * sizeof(float)];

	op.src = zr_array_at(src, fixture_drawn(&seed, ROOM, src, 0.125));
	op.dst = zr_array_at(dst, fixture_buffer(ROOM, dst));
	memcpy(want, op.dst.data, bytes);
	cast_plainly(&op, want);
	k->cast_heads(&op, 2, ROWS);
	k->cast_heads(&op, 0, 2);
	assert_memory_equal(op.dst.data, want, bytes);
	fixture_release();
}

static void each_head_is_where_it_belongs(void **state)
{
	(void)state;
	for (int v = 0; fixture_kernels(v); v++)
		for (int i = 0; fixture_runs(fixture_kernels(v)) && i < 81; i++)
			compare(fixture_kernels(v), &layouts[i % 3], &layouts[i / 3 % 3],
				dtypes[i / 9 % 3], dtypes[i / 27]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_head_is_where_it_belongs),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
