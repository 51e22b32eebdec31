/* SPDX-License-Identifier: Apache-2.0
 *
 * names.c - see machine.h: names of classes, and what calls of those that classes.c knows make:
 * tensors, lists, dictionaries, and objects of which names and contents are kept.
 */
#include "files/torch/machine.h"

#include <stdio.h>
#include <string.h>

static int push_name(struct zr_pickle_reader *r, const char *module, const char *name)
{
	struct zr_py *x = NULL;
	int32_t dtype;
	const size_t n = strlen(module) + strlen(name) + 2;
	char *whole = zr_pickle_allocate(r, n);
	if (!whole)
		return ZR_ENOMEM;

	snprintf(whole, n, "%s %s", module, name);
	if (zr_py_class_of(whole, &dtype) == ZR_PY_CLASS_UNKNOWN)
		return zr_err(r->err, ZR_EINVAL,
			      "%s: its pickle would run %s.%.200s, which is none of the known "
			      "classes of tensors and checkpoints: nothing of it is read",
			      r->path, module, name);

	int rc = zr_pickle_push_new(r, ZR_PY_NAME, &x);
	if (rc)
		return rc;

	x->text = whole;
	x->dtype = dtype;
	return 0;
}

int zr_pickle_named(struct zr_pickle_reader *r)
{
	const char *module, *name;
	int rc = zr_pickle_line(r, &module);
	if (!rc)
		rc = zr_pickle_line(r, &name);
	if (rc)
		return rc;

	return push_name(r, module, name);
}

int zr_pickle_named_on_stack(struct zr_pickle_reader *r)
{
	struct zr_py *module, *name;
	int rc = zr_pickle_pop(r, &name);
	if (!rc)
		rc = zr_pickle_pop(r, &module);
	if (!rc && (!zr_py_text(module) || !zr_py_text(name)))
		rc = zr_pickle_refuse(r, "a name that is no text");
	if (rc)
		return rc;

	return push_name(r, module->text, name->text);
}

/* ("storage", CLASS, KEY, PLACE, ELEMENTS), as torch.save writes it. */
int zr_pickle_storage(struct zr_pickle_reader *r)
{
	struct zr_py *id, *x;
	int rc = zr_pickle_pop(r, &id);
	if (rc)
		return rc;

	const struct zr_py *of = zr_py_member(id, 1);
	const char *what = zr_py_text(zr_py_member(id, 0)), *key = zr_py_text(zr_py_member(id, 2));
	int64_t elements;
	int32_t dtype;
	if (!what || strcmp(what, "storage") || !key || !of || of->kind != ZR_PY_NAME ||
	    zr_py_class_of(of->text, &dtype) != ZR_PY_CLASS_STORAGE ||
	    !zr_py_whole(zr_py_member(id, 4), &elements) || elements < 0)
		return zr_pickle_refuse(r, "a storage that is not as torch.save writes it");

	rc = zr_pickle_push_new(r, ZR_PY_STORAGE, &x);
	if (rc)
		return rc;

	x->dtype = dtype;
	x->text = key;
	x->elements = elements;
	return 0;
}

/* Whether the last element lies within the storage, too. */
static int fits(const struct zr_py *t)
{
	int64_t last = t->offset, some = 1, part;

	for (int32_t d = 0; d < t->ndim; d++) {
		if (t->dims[d] < 0 || t->stride[d] < 0 ||
		    __builtin_mul_overflow(some, t->dims[d], &some))
			return 0;
		if (t->dims[d] && (__builtin_mul_overflow(t->dims[d] - 1, t->stride[d], &part) ||
				   __builtin_add_overflow(last, part, &last)))
			return 0;
	}

	return !some || last < t->storage->elements;
}

/* (storage, offset, size, stride, ...) */
static int rebuild_tensor(struct zr_pickle_reader *r, const struct zr_py *a)
{
	const struct zr_py *of = zr_py_member(a, 0), *size = zr_py_member(a, 2),
			   *stride = zr_py_member(a, 3);
	struct zr_py *t = NULL;
	int rc = zr_pickle_push_new(r, ZR_PY_TENSOR, &t);
	if (rc)
		return rc;

	if (!of || of->kind != ZR_PY_STORAGE || zr_py_count(size) > ZR_PY_DIMS ||
	    zr_py_count(size) != zr_py_count(stride) ||
	    !zr_py_whole(zr_py_member(a, 1), &t->offset) || t->offset < 0)
		return zr_pickle_refuse(r, "a tensor that is not as torch.save writes it");

	t->storage = of;
	t->dtype = of->dtype;
	t->elements = 1;
	t->ndim = (int32_t)zr_py_count(size);
	for (int32_t d = 0; d < t->ndim; d++)
		if (!zr_py_whole(zr_py_member(size, (size_t)d), &t->dims[d]) ||
		    !zr_py_whole(zr_py_member(stride, (size_t)d), &t->stride[d]))
			return zr_pickle_refuse(r, "a tensor without sizes");
	if (!fits(t))
		return zr_pickle_refuse(r, "a tensor that is larger than its storage");
	for (int32_t d = 0; d < t->ndim; d++)
		t->elements *= t->dims[d];
	return 0;
}

static int make_object(struct zr_pickle_reader *r, struct zr_py *of, struct zr_py *arguments)
{
	struct zr_py *x = NULL;
	int rc = zr_pickle_push_new(r, ZR_PY_OBJECT, &x);
	if (rc)
		return rc;

	x->of = of;
	x->arguments = arguments;
	return 0;
}

static int make_list(struct zr_pickle_reader *r, const struct zr_py *a)
{
	const struct zr_py *first = zr_py_member(a, 0);
	struct zr_py *x = NULL;
	int rc = zr_pickle_push_new(r, ZR_PY_LIST, &x);
	if (rc || !first)
		return rc;
	if (first->kind != ZR_PY_LIST)
		return zr_pickle_refuse(r, "a list of what is none");

	return zr_pickle_append(r, x, first->at, first->n);
}

static int make_parameter(struct zr_pickle_reader *r, const struct zr_py *a)
{
	if (!a->n || a->at[0]->kind != ZR_PY_TENSOR)
		return zr_pickle_refuse(r, "a parameter without a tensor");

	return zr_pickle_push(r, a->at[0]);
}

/* (_rebuild_tensor_v2, class, arguments, attributes): a tensor that has attributes. */
static int rebuild_from_type(struct zr_pickle_reader *r, const struct zr_py *a)
{
	const struct zr_py *f = zr_py_member(a, 0), *of = zr_py_member(a, 2);
	int32_t dtype;

	if (!f || f->kind != ZR_PY_NAME || !of || of->kind != ZR_PY_LIST ||
	    zr_py_class_of(f->text, &dtype) != ZR_PY_CLASS_TENSOR)
		return zr_pickle_refuse(r, "a tensor that is not as torch.save writes it");

	return rebuild_tensor(r, of);
}

static int make_dictionary(struct zr_pickle_reader *r)
{
	struct zr_py *x;

	return zr_pickle_push_new(r, ZR_PY_DICT, &x);
}

int zr_pickle_reduce(struct zr_pickle_reader *r)
{
	struct zr_py *a, *f;
	int32_t dtype;
	int rc = zr_pickle_pop(r, &a);
	if (!rc)
		rc = zr_pickle_pop(r, &f);
	if (rc)
		return rc;
	if (f->kind != ZR_PY_NAME || a->kind != ZR_PY_LIST)
		return zr_pickle_refuse(r, "a call of what is no class");

	switch (zr_py_class_of(f->text, &dtype)) {
	case ZR_PY_CLASS_DICT:
		return make_dictionary(r);
	case ZR_PY_CLASS_LIST:
		return make_list(r, a);
	case ZR_PY_CLASS_TENSOR:
		return rebuild_tensor(r, a);
	case ZR_PY_CLASS_PARAMETER:
		return make_parameter(r, a);
	case ZR_PY_CLASS_FROM_TYPE:
		return rebuild_from_type(r, a);
	case ZR_PY_CLASS_DATA:
		return make_object(r, f, a);
	default:
		return zr_err(r->err, ZR_EINVAL, "%s: its pickle calls %s, which is only a type",
			      r->path, f->text);
	}
}

/* The attributes of an object. Those of a dictionary say nothing of its contents. */
int zr_pickle_build(struct zr_pickle_reader *r)
{
	struct zr_py *state = NULL, *to = NULL;
	int rc = zr_pickle_pop(r, &state);
	if (!rc)
		rc = zr_pickle_top(r, &to);
	if (rc)
		return rc;
	if (to->kind != ZR_PY_OBJECT && to->kind != ZR_PY_DICT)
		return zr_pickle_refuse(r, "attributes of what has none");

	if (to->kind == ZR_PY_OBJECT)
		to->state = state;
	return 0;
}
