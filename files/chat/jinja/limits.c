/* SPDX-License-Identifier: Apache-2.0
 *
 * limits.c - see parts.h: what a rendering may take, and how it fails.
 */
#include <stdio.h>
#include <string.h>

#include "files/chat/jinja/parts.h"

int zj_fail(struct zj_run *r, const char *fmt, ...)
{
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return zr_err(r->err, ZR_EINVAL, "%s:%d: %s", r->t->name, r->line, text);
}

int zj_spend(struct zj_run *r, uint64_t steps)
{
	r->steps += steps;
	if (r->steps <= r->most_steps)
		return 0;

	return zj_fail(r, "the template takes more than %llu steps",
		       (unsigned long long)r->most_steps);
}

int zj_get(struct zj_run *r, size_t bytes, void *to)
{
	void *p = zj_take(r->m, bytes);

	if (!p && r->m->used + bytes > r->m->most / 2)
		return zj_fail(r, "the template takes more than %u MiB of memory",
			       ZR_JINJA_MEMORY >> 20);
	if (!p)
		return zr_no_memory(r->err);

	memcpy(to, &p, sizeof p);
	return 0;
}
