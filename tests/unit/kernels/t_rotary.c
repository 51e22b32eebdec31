/* SPDX-License-Identifier: Apache-2.0
 *
 * t_rotary.c - rotary positions of a part of each head, with a gain, in heads that lie apart:
 * PyTorch's values in every variant.
 */
#include "kernels_mode.h"

enum { LENGTH = 5, ROWS = 2 * LENGTH, HEADS = 2, DIM = 22, TURNED = 16, HEAD = 27, STRIDE = 61 };
enum { N = ROWS * HEADS * DIM, ROOM = ROWS * STRIDE };

static int64_t apart(int64_t i)
{
	return i / (HEADS * DIM) * STRIDE + i / DIM % HEADS * HEAD + i % DIM;
}

static void *spread(const struct mode *m, const void *dense)
{
	void *p = fixture_buffer(ROOM, m->dtype);

	for (int64_t i = 0; i < N; i++)
		fixture_set(p, apart(i), m->dtype, fixture_get(dense, i, m->dtype));
	return p;
}

/* The heads of p have the golden values, and what lies between them is poison. */
static void expect(const struct mode *m, const char *name, const void *p)
{
	const void *poison = zr_at(p, ROOM, m->dtype); /* the guard */
	void *dense = fixture_buffer(N, m->dtype);

	for (int64_t i = 0; i < N; i++)
		fixture_set(dense, i, m->dtype, fixture_get(p, apart(i), m->dtype));
	fixture_golden(m->name, name, dense, N, m->dtype, m->tolerance);
	for (int64_t i = 0; i < ROOM; i++)
		if (i % STRIDE >= HEADS * HEAD || i % STRIDE % HEAD >= DIM)
			assert_memory_equal(zr_at(p, i, m->dtype), poison,
					    (size_t)fixture_size(m->dtype));
}

static void part_golden(void **state)
{
	const struct mode *m = *state;
	uint64_t x = 11;
	need(m);
	struct zr_op_rotary op = { .dtype = m->dtype,
				   .batch = 2,
				   .length = LENGTH,
				   .heads = HEADS,
				   .head_dim = DIM,
				   .stride = STRIDE,
				   .rotary_dim = TURNED,
				   .head_stride = HEAD,
				   .gain = 1.375f };
	void *in = fixture_drawn(&x, N, m->dtype, 1), *dout = fixture_drawn(&x, N, m->dtype, 1);

	for (int i = 0; i < TURNED / 2; i++)
		op.frequency[i] = 3.5f / (float)(1 << i);
	op.x = spread(m, in);
	op.out = fixture_buffer(ROOM, m->dtype);
	CALL(m, rotary, &op, 0, ROWS);
	expect(m, "rotary_part.out", op.out);
	expect(m, "rotary_part.x", op.x);
	op.x = op.out = spread(m, dout); /* in place */
	op.flags = ZR_ROTARY_BACK;
	CALL(m, rotary, &op, 0, ROWS);
	expect(m, "rotary_part.dx", op.out);
	fixture_release();
}

static const struct mode_test tests[] = {
	{ "rotary of a part of each head agrees with torch", part_golden, 0 },
};

int main(void)
{
	return mode_main("rotary", tests, (int)(sizeof tests / sizeof *tests));
}
