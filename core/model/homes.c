/* SPDX-License-Identifier: Apache-2.0
 *
 * homes.c - see homes.h.
 */
#include "core/model/homes.h"

#include <zeroth/model.h>

#include "core/base/numbers.h"

int32_t zr_home_rounds(const struct zr_homes *h)
{
	return (int32_t)((h->tokens + ZR_HOME_ROUND - 1) / ZR_HOME_ROUND);
}

int64_t zr_round_tokens(const struct zr_homes *h, int32_t round)
{
	return zr_fewer(h->tokens - (int64_t)round * ZR_HOME_ROUND, ZR_HOME_ROUND);
}

int64_t zr_home_rows(const struct zr_homes *h, int32_t round, int64_t top, int32_t here)
{
	return h->ranks * zr_round_tokens(h, round) * zr_fewer(top, here);
}

struct zr_home_table zr_home_table_of(const struct zr_homes *h, int32_t experts)
{
	const uint64_t counts = 2 * (uint64_t)h->ranks * sizeof(int64_t);
	struct zr_home_table t = { .elements = counts, .later = 2 * counts };
	t.bytes = t.later + zr_up((uint64_t)experts, 64);
	return t;
}
