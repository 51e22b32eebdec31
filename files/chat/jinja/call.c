/* SPDX-License-Identifier: Apache-2.0
 *
 * call.c - see parts.h: what arguments go to.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"

const struct zj_function *zj_find_in(const struct zj_function *table, const char *p, size_t n)
{
	for (; table->name; table++)
		if (strlen(table->name) == n && !memcmp(table->name, p, n))
			return table;

	return NULL;
}

/* The parameter of this name; -1: none. */
static int parameter(const struct zj_function *f, const struct zj_text *name)
{
	for (int i = 0; i < ZJ_PARAMETERS && f->parameter[i]; i++)
		if (strlen(f->parameter[i]) == name->n &&
		    !memcmp(f->parameter[i], name->p, name->n))
			return i;

	return -1;
}

int zj_apply(struct zj_run *r, const char *kind, const struct zj_function *f,
	     const struct zj_value *of, const struct zj_arguments *given, struct zj_value *out)
{
	struct zj_value arg[ZJ_PARAMETERS] = { { 0 } };
	size_t most = 0;

	if (f->all)
		return f->all(r, of, given, out);

	while (most < ZJ_PARAMETERS && f->parameter[most])
		most++;
	if (given->n > most)
		return zj_fail(r, "%s %s: %zu arguments; it takes at most %zu", kind, f->name,
			       given->n, most);

	for (size_t i = 0; i < given->n; i++)
		arg[i] = given->v[i];
	for (size_t i = 0; i < given->n_keywords; i++) {
		const struct zj_text *name = given->keyword[i].name;
		const int at = parameter(f, name);
		if (at < 0 || arg[at].kind != ZJ_MISSING)
			return zj_fail(r, "%s %s: it has no argument %.*s, or has it twice", kind,
				       f->name, (int)name->n, name->p);
		arg[at] = given->keyword[i].v;
	}

	for (int i = 0; i < f->least; i++)
		if (arg[i].kind == ZJ_MISSING)
			return zj_fail(r, "%s %s: its argument %s is missing", kind, f->name,
				       f->parameter[i]);

	return f->fn(r, of, arg, out);
}

/* ---- calls ---- */

int zj_call(struct zj_run *r, const struct zj_value *callee, const struct zj_arguments *given,
	    struct zj_value *out)
{
	switch (callee->kind) {
	case ZJ_MACRO:
		return callee->macro->call(r, callee->macro, given, out);
	case ZJ_FUNCTION:
		return zj_apply(r, "function", callee->function, NULL, given, out);
	case ZJ_METHOD:
		return zj_apply(r, "method", callee->method->function, &callee->method->of, given,
				out);
	case ZJ_UNDEFINED:
		return zj_fail(r, "'%s' is undefined, and is called", callee->what);
	default:
		return zj_fail(r, "'%s' object is not callable", zj_type(callee));
	}
}
