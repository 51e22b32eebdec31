/* SPDX-License-Identifier: Apache-2.0
 *
 * results.c - what a plugin computes, as a list of hashes with names.
 */
#include "cmd/check/check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <xxhash.h>

void zr_result_add(struct zr_check *c, struct zr_results *r, const char *function, const void *data,
		   uint64_t bytes, const char *fmt, ...)
{
	if (r->n == r->room) {
		r->room = r->room ? 2 * r->room : 64;
		r->of = realloc(r->of, (size_t)r->room * sizeof *r->of);
		if (!r->of)
			zr_check_lacks(c, "memory");
	}

	struct zr_result *of = &r->of[r->n++];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(of->what, sizeof of->what, fmt, ap);
	va_end(ap);
	of->function = function;
	of->hash = XXH3_64bits(data, bytes);
}
