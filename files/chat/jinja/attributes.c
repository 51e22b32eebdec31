/* SPDX-License-Identifier: Apache-2.0
 *
 * attributes.c - see parts.h: a.b, a[b] and a[b:c:d], as the sandbox of jinja2 has them: a.b is an
 * attribute of Python first, as a method is, and then a member; a[b] is a member first.
 */
#include <string.h>

#include "files/chat/jinja/parts.h"
#include "files/tokenizer/utf8.h"

static int word_is(const struct zj_text *t, const char *word)
{
	return t->n == strlen(word) && !memcmp(t->p, word, t->n);
}

/* ---- loop ---- */

static int element(const struct zj_loop *l, int64_t at, const char *what, struct zj_value *out)
{
	if (at < 0 || (size_t)at >= l->list->n)
		*out = zj_undefined(what);
	else
		*out = l->list->v[at];
	return 0;
}

static int loop_attribute(struct zj_run *r, const struct zj_loop *l, const struct zj_text *name,
			  struct zj_value *out)
{
	const int64_t at = (int64_t)l->at, n = (int64_t)l->list->n;
	const struct {
		const char *name;
		struct zj_value v;
	} has[] = {
		{ "index", zj_int(at + 1) },    { "index0", zj_int(at) },
		{ "revindex", zj_int(n - at) }, { "revindex0", zj_int(n - at - 1) },
		{ "first", zj_bool(at == 0) },  { "last", zj_bool(at + 1 == n) },
		{ "length", zj_int(n) },        { "depth", zj_int(1) },
		{ "depth0", zj_int(0) },
	};

	for (size_t i = 0; i < sizeof has / sizeof *has; i++)
		if (word_is(name, has[i].name)) {
			*out = has[i].v;
			return 0;
		}

	if (word_is(name, "previtem"))
		return element(l, at - 1, "there is no previous item", out);
	if (word_is(name, "nextitem"))
		return element(l, at + 1, "there is no next item", out);

	return zj_fail(r, "loop.%.*s: not in the subset", (int)name->n, name->p);
}

/* ---- attributes ---- */

static int method_of(struct zj_run *r, const struct zj_value *of, const struct zj_text *name,
		     struct zj_value *out)
{
	const struct zj_function *f = zj_find_method(of, name->p, name->n);
	struct zj_method *m;

	*out = (struct zj_value){ .kind = ZJ_MISSING };
	if (!f)
		return 0;

	int rc = zj_get(r, sizeof *m, &m);
	if (rc)
		return rc;

	*m = (struct zj_method){ .function = f, .of = *of };
	*out = (struct zj_value){ .kind = ZJ_METHOD, .method = m };
	return 0;
}

/* What is missing is told by its name where it is used. */
static int undefined_attribute(struct zj_run *r, const struct zj_text *name, struct zj_value *out)
{
	char *what;
	int rc = zj_get(r, name->n + 1, &what);
	if (rc)
		return rc;

	memcpy(what, name->p, name->n);
	*out = zj_undefined(what);
	return 0;
}

static int no_attribute(struct zj_run *r, const struct zj_value *of, const struct zj_text *name)
{
	return zj_fail(r, "'%s' is undefined, and so has no %.*s", of->what,
		       name->n < 100 ? (int)name->n : 100, name->p);
}

/* An attribute that all objects of Python have, as __class__: the sandbox gives none of them. */
static int is_internal(const struct zj_text *name)
{
	const size_t n = name->n;
	return n > 4 && !memcmp(name->p, "__", 2) && !memcmp(name->p + n - 2, "__", 2);
}

int zj_attribute(struct zj_run *r, const struct zj_value *of, const struct zj_text *name,
		 struct zj_value *out)
{
	if (of->kind == ZJ_UNDEFINED)
		return no_attribute(r, of, name);
	if (of->kind == ZJ_LOOP)
		return loop_attribute(r, of->loop, name, out);
	if (is_internal(name))
		return undefined_attribute(r, name, out);

	int rc = 0;
	*out = (struct zj_value){ .kind = ZJ_MISSING };
	if (of->kind != ZJ_NAMESPACE)
		rc = method_of(r, of, name, out);
	if (!rc && out->kind == ZJ_MISSING && (of->kind == ZJ_DICT || of->kind == ZJ_NAMESPACE))
		rc = zj_find_word(r, of->dict, name->p, name->n, out);
	if (rc || out->kind != ZJ_MISSING)
		return rc;

	return undefined_attribute(r, name, out);
}

/* ---- members ---- */

/* Where in [0, n) Python has place i; -1: nowhere. */
static int64_t place(int64_t i, int64_t n)
{
	if (i < 0)
		i += n;

	return i < 0 || i >= n ? -1 : i;
}

/* The byte where a character begins. */
static size_t byte_of(const struct zj_text *t, size_t character)
{
	size_t at = 0, len;

	if (t->is_ascii)
		return character;

	for (; character; character--, at += len)
		zr_utf8_read(t->p + at, &len);

	return at;
}

int zj_cut_text(struct zj_run *r, const struct zj_text *t, size_t from, size_t to,
		struct zj_value *out)
{
	if (from >= to)
		return zj_borrow(r, "", 0, out);

	const size_t start = byte_of(t, from), end = byte_of(t, to);
	int rc = zj_spend(r, end / 64);
	if (rc)
		return rc;

	return zj_borrow(r, t->p + start, end - start, out);
}

static int item_at(struct zj_run *r, const struct zj_value *of, int64_t i, struct zj_value *out)
{
	int64_t n;
	int rc = zj_length(r, of, &n);
	if (rc)
		return rc;

	const int64_t at = place(i, n);
	*out = (struct zj_value){ .kind = ZJ_MISSING };
	if (at < 0)
		return 0;
	if (of->kind == ZJ_TEXT)
		return zj_cut_text(r, of->text, (size_t)at, (size_t)at + 1, out);

	*out = of->list->v[at];
	return 0;
}

static int has_places(const struct zj_value *v)
{
	if (v->kind == ZJ_TEXT)
		return 1;

	return v->kind == ZJ_LIST && v->list->flavour < ZJ_A_VIEW;
}

int zj_item(struct zj_run *r, const struct zj_value *of, const struct zj_value *key,
	    struct zj_value *out)
{
	int rc = 0;

	*out = (struct zj_value){ .kind = ZJ_MISSING };
	if (of->kind == ZJ_UNDEFINED)
		return zj_fail(r, "'%s' is undefined, and so has no []", of->what);
	if (key->kind == ZJ_UNDEFINED)
		rc = 0;
	else if (of->kind == ZJ_DICT)
		rc = zj_find(r, of->dict, key, out);
	else if (has_places(of) && (key->kind == ZJ_INT || key->kind == ZJ_BOOL))
		rc = item_at(r, of, key->i, out);
	if (rc || out->kind != ZJ_MISSING)
		return rc;

	if (key->kind == ZJ_TEXT)
		return zj_attribute(r, of, key->text, out);

	*out = zj_undefined("an element that is not there");
	return 0;
}

/* ---- slices ---- */

static int bound(struct zj_run *r, const struct zj_value *v, int64_t otherwise, int64_t *to)
{
	if (v->kind == ZJ_NONE)
		*to = otherwise;
	else if (v->kind == ZJ_INT || v->kind == ZJ_BOOL)
		*to = v->i;
	else
		return zj_fail(r, "slice indices must be integers or None, not %s", zj_type(v));

	return 0;
}

static int64_t clamp(int64_t i, int64_t least, int64_t most)
{
	if (i < least)
		return least;

	return i > most ? most : i;
}

/* The bounds of a slice of n, as slice.indices() has them. */
static int indices(struct zj_run *r, const struct zj_value *const v[3], int64_t n, int64_t to[3])
{
	int rc = bound(r, v[2], 1, &to[2]);
	if (rc)
		return rc;
	if (!to[2])
		return zj_fail(r, "slice step cannot be zero");

	const int back = to[2] < 0;
	const int64_t least = back ? -1 : 0, most = back ? n - 1 : n;
	int64_t otherwise[] = { least, most };
	if (back) {
		otherwise[0] = most;
		otherwise[1] = least;
	}

	for (int i = 0; i < 2; i++) {
		rc = bound(r, v[i], otherwise[i], &to[i]);
		if (rc)
			return rc;
		if (v[i]->kind == ZJ_NONE)
			continue;
		if (to[i] < 0 && to[i] >= INT64_MIN + n)
			to[i] += n;
		to[i] = clamp(to[i], least, most);
	}

	return 0;
}

static int slice_text(struct zj_run *r, const struct zj_text *t, const int64_t at[3],
		      struct zj_value *out)
{
	struct zr_buf *b = &r->w->text;
	const size_t from = b->n;
	int rc = 0;

	if (at[2] == 1)
		return zj_cut_text(r, t, (size_t)at[0], (size_t)clamp(at[1], 0, INT64_MAX), out);

	for (int64_t i = at[0]; !rc && (at[2] > 0 ? i < at[1] : i > at[1]); i += at[2]) {
		struct zj_value c;
		rc = zj_cut_text(r, t, (size_t)i, (size_t)i + 1, &c);
		if (!rc)
			rc = zj_print(r, &c, b);
		if (at[2] > INT64_MAX - i - 1 && at[2] > 0)
			break;
	}

	if (rc)
		return rc;

	return zj_cut(r, b, from, out);
}

static int slice_list(struct zj_run *r, const struct zj_list *l, const int64_t at[3],
		      struct zj_value *out)
{
	int rc = zj_list(r, l->flavour, 0, out);

	for (int64_t i = at[0]; !rc && (at[2] > 0 ? i < at[1] : i > at[1]); i += at[2]) {
		rc = zj_append(r, out->list, l->v[i]);
		if (!rc)
			rc = zj_spend(r, 1);
		if (at[2] > 0 && at[2] > INT64_MAX - i - 1)
			break;
	}

	return rc;
}

int zj_slice(struct zj_run *r, const struct zj_value *of, const struct zj_value *from,
	     const struct zj_value *to, const struct zj_value *step, struct zj_value *out)
{
	const struct zj_value *const bounds[] = { from, to, step };
	int64_t at[3] = { 0 }, n;

	if (of->kind == ZJ_UNDEFINED)
		return zj_fail(r, "'%s' is undefined, and so has no [:]", of->what);
	if (!has_places(of)) {
		*out = zj_undefined("a slice of what has no places");
		return 0;
	}

	int rc = zj_length(r, of, &n);
	if (!rc)
		rc = indices(r, bounds, n, at);
	if (rc)
		return rc;
	if (of->kind == ZJ_TEXT)
		return slice_text(r, of->text, at, out);

	return slice_list(r, of->list, at, out);
}
