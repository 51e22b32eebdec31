/* SPDX-License-Identifier: Apache-2.0
 *
 * golden.h - the inputs that tests/golden/make_head.py draws, and what it wrote.
 */
#ifndef ZR_TESTS_GOLDEN_H
#define ZR_TESTS_GOLDEN_H

#include "tests/lib/testdevice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static inline double draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 40 & 0xff) / 64 - 2;
}

static inline void drawn(const struct buf *b, uint64_t *state)
{
	int64_t i;
	for (i = 0; i < b->n; i++)
		put(b->p, b->dtype, i, draw(state));
}

/* Of the gradient of the logits, which is rounded where products of bf16 take it. */
static inline double rounding_of_logits(const char *variant, int32_t dtype)
{
	int pairs = !strcmp(variant, "avx512bf16") || !strcmp(variant, "amx");
	return dtype == ZR_BF16 && pairs ? 0x1p-8 : 0;
}

/* Compares with a line of golden/head.txt. */
static inline void golden(const char *variant, const char *name, const struct buf *got,
			  double tolerance)
{
	const char *src = getenv("ZR_SRCDIR");
	char path[4096], word[64];
	int64_t n, i;
	double want;
	FILE *f;
	snprintf(path, sizeof path, "%s/tests/golden/head.txt", src ? src : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	while (fscanf(f, "%63s %ld", word, &n) == 2) {
		int here = !strcmp(word, name);
		if (here)
			assert_int_equal(n, got->n);
		for (i = 0; i < n; i++) {
			assert_int_equal(fscanf(f, "%lf", &want), 1);
			if (here && !(fabs(get(got->p, got->dtype, i) - want) <=
				      tolerance * (1 + fabs(want))))
				fail_msg("%s: %s[%d] is %.9g, not %.9g", variant, name, (int)i,
					 get(got->p, got->dtype, i), want);
		}
		if (here) {
			fclose(f);
			return;
		}
	}
	fail_msg("no %s in %s", name, path);
}

#endif
