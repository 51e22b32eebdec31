/* SPDX-License-Identifier: Apache-2.0
 *
 * scope.c - see parts.h: variables.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

int zj_scope(struct zj_run *r, struct zj_scope *outer, struct zj_scope **out)
{
	int rc = zj_get(r, sizeof **out, out);
	if (rc)
		return rc;

	(*out)->outer = outer;
	return 0;
}

int zj_assign(struct zj_run *r, struct zj_scope *s, int name, struct zj_value v)
{
	for (int i = 0; i < s->n; i++)
		if (s->v[i].name == name) {
			s->v[i].v = v;
			return 0;
		}

	if (s->n == s->room) {
		struct zj_variable *more;
		const int room = 2 * s->room + 4;
		int rc = zj_get(r, (size_t)room * sizeof *more, &more);
		if (rc)
			return rc;
		if (s->n)
			memcpy(more, s->v, (size_t)s->n * sizeof *more);
		s->v = more;
		s->room = room;
	}

	s->v[s->n++] = (struct zj_variable){ name, v };
	return 0;
}

int zj_lookup(struct zj_run *r, int name, struct zj_value *out)
{
	for (const struct zj_scope *s = r->scope; s; s = s->outer)
		for (int i = 0; i < s->n; i++)
			if (s->v[i].name == name) {
				*out = s->v[i].v;
				return 0;
			}

	*out = r->global[name];
	if (out->kind == ZJ_MISSING)
		*out = zj_undefined(r->t->names[name]);
	return 0;
}
