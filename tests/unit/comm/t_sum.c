/* SPDX-License-Identifier: Apache-2.0
 *
 * t_sum.c - sums around the caches have the bits of those in them, wherever their results lie.
 */
#include "plugins/comm/sum.h"

#include <zeroth/plugin.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = 5 * 4096 + 64, LINE = 64, RANKS = 3 };

static void fill(char *p, int32_t dtype, int rank)
{
	for (int i = 0; i < BYTES / 8; i++) {
		const double d = i * 1e-3 + rank;
		const float f[2] = { (float)d, (float)-i };
		const int64_t n = i * 0x123456789abcd + rank;
		const void *x = dtype == ZR_F32 ? (const void *)f :
				dtype == ZR_F64 ? (const void *)&d :
						  &n;
		memcpy(p + 8 * i, x, 8);
	}
}

static void sums_around_the_caches_lie_anywhere(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_F64, ZR_I64 };
	static char from[RANKS][BYTES];
	static _Alignas(64) char room[2][BYTES + LINE];
	const char *const sources[RANKS] = { from[0], from[1], from[2] };

	(void)state;
	for (int d = 0; d < 3; d++) {
		for (int r = 0; r < RANKS; r++)
			fill(from[r], dtypes[d], r);
		for (int at = 0; at < LINE; at++) {
			memset(room, 0xa5, sizeof room);
			for (int stream = 0; stream < 2; stream++) {
				char *to = room[stream] + at;
				zl_sum(dtypes[d], &to, 1, sources, RANKS, BYTES, stream);
			}
			assert_memory_equal(room[0], room[1], sizeof room[0]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_around_the_caches_lie_anywhere),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
