/* SPDX-License-Identifier: Apache-2.0
 *
 * object.c - see object.h.
 */
#include "files/torch/object.h"

#include <string.h>

static int is_kind(const struct zr_py *x, enum zr_py_kind kind)
{
	return x && x->kind == kind;
}

const struct zr_py *zr_py_get(const struct zr_py *dict, const char *key)
{
	for (size_t i = 0; is_kind(dict, ZR_PY_DICT) && i + 1 < dict->n; i += 2) {
		const char *name = zr_py_text(dict->at[i]);
		if (name && !strcmp(name, key))
			return dict->at[i + 1];
	}

	return NULL;
}

const struct zr_py *zr_py_at(const struct zr_py *dict, int64_t key)
{
	for (size_t i = 0; is_kind(dict, ZR_PY_DICT) && i + 1 < dict->n; i += 2)
		if (is_kind(dict->at[i], ZR_PY_INT) && dict->at[i]->whole == key)
			return dict->at[i + 1];

	return NULL;
}

const struct zr_py *zr_py_attribute(const struct zr_py *object, const char *name)
{
	if (!is_kind(object, ZR_PY_OBJECT))
		return NULL;

	return zr_py_get(object->state, name);
}

const struct zr_py *zr_py_member(const struct zr_py *list, size_t i)
{
	if (!is_kind(list, ZR_PY_LIST) || i >= list->n)
		return NULL;

	return list->at[i];
}

size_t zr_py_count(const struct zr_py *x)
{
	if (is_kind(x, ZR_PY_LIST))
		return x->n;
	if (is_kind(x, ZR_PY_DICT))
		return x->n / 2;

	return 0;
}

const char *zr_py_text(const struct zr_py *x)
{
	return is_kind(x, ZR_PY_TEXT) ? x->text : NULL;
}

int zr_py_number(const struct zr_py *x, double *out)
{
	int64_t whole;
	if (is_kind(x, ZR_PY_FLOAT)) {
		*out = x->number;
		return 1;
	}

	if (!zr_py_whole(x, &whole))
		return 0;
	*out = (double)whole;
	return 1;
}

int zr_py_whole(const struct zr_py *x, int64_t *out)
{
	if (!is_kind(x, ZR_PY_INT) && !is_kind(x, ZR_PY_BOOL))
		return 0;

	*out = x->whole;
	return 1;
}

int zr_py_is(const struct zr_py *object, const char *name)
{
	return is_kind(object, ZR_PY_OBJECT) && !strcmp(object->of->text, name);
}

int zr_py_in_a_row(const struct zr_py *t)
{
	int64_t next = 1;

	for (int32_t d = t->ndim - 1; d >= 0; d--) {
		if (t->dims[d] != 1 && t->stride[d] != next)
			return 0;
		next *= t->dims[d];
	}

	return 1;
}
