/* SPDX-License-Identifier: Apache-2.0
 *
 * t_scale_heads.c - heads of a matrix are scaled, line by line, whatever part of it is there.
 */
#include <kernels.h>

#include <setjmp.h>

#include <cmocka.h>

#include "cpu/table.h"

enum { ROWS = 23, WIDTH = 31, ALL = ROWS * WIDTH };

static const struct zr_op_scale_heads placed[] = {
	{ .begin = 0, .apart = 4, .lines = 4, .heads = 5 },
	{ .begin = 5, .apart = 6, .lines = 2, .heads = 3 },
	{ .begin = 2, .apart = 7, .lines = 6, .heads = 4, .flags = ZR_SCALE_COLUMNS },
	{ .begin = 0, .apart = 1, .lines = 1, .heads = 31, .flags = ZR_SCALE_COLUMNS },
	{ .begin = 20, .apart = 9, .lines = 9, .heads = 2, .flags = ZR_SCALE_COLUMNS },
};

/* Head of a row and column as the operation's words say. */
static int64_t head_at(const struct zr_op_scale_heads *o, int64_t row, int64_t col)
{
	int64_t line = o->flags & ZR_SCALE_COLUMNS ? col : row;
	for (int64_t h = 0; h < o->heads; h++)
		if (line >= o->begin + h * o->apart && line < o->begin + h * o->apart + o->lines)
			return h;
	return -1;
}

static void each_line_has_the_factor_of_its_head(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof placed / sizeof *placed; k++)
		for (int64_t first = 0; first < ALL; first += 97) {
			struct zr_op_scale_heads o = placed[k];
			float factor[ALL], x[ALL];
			int64_t cut = (ALL - first) / 3;
			for (int64_t i = 0; i < ALL; i++) {
				factor[i] = 1 / (float)(i + 2);
				x[i] = (float)(i + 1);
			}
			o.size = sizeof o;
			o.first = first;
			o.n = ALL - first;
			o.width = WIDTH;
			o.factor = factor;
			o.x = x;
			zr_cpu_scalar.scale_heads(&o, cut, o.n);
			zr_cpu_scalar.scale_heads(&o, 0, cut);
			for (int64_t i = 0; i < ALL; i++) {
				int64_t e = first + i, h = head_at(&o, e / WIDTH, e % WIDTH);
				float want = (float)(i + 1);
				if (i < o.n && h >= 0)
					want *= factor[h];
				assert_true(x[i] == want);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_line_has_the_factor_of_its_head),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
