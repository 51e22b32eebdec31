/* SPDX-License-Identifier: Apache-2.0
 *
 * object.h - what a pickle of PyTorch holds, as plain data: numbers, texts, lists, dictionaries,
 * tensors, and objects of known classes, of which only names and contents are kept. Nothing of it
 * is ever called. All values of a file live as long as the file. [any]
 */
#ifndef ZR_FILES_TORCH_OBJECT_H
#define ZR_FILES_TORCH_OBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

enum zr_py_kind {
	ZR_PY_NONE,
	ZR_PY_BOOL,
	ZR_PY_INT,
	ZR_PY_FLOAT,
	ZR_PY_TEXT,
	ZR_PY_BYTES,
	ZR_PY_LIST, /* also a tuple or a set */
	ZR_PY_DICT, /* also an OrderedDict: keys and values in turn */
	ZR_PY_NAME, /* a class, a function, a type of elements */
	ZR_PY_OBJECT,
	ZR_PY_STORAGE,
	ZR_PY_TENSOR,
	ZR_PY_MARK, /* inside of the reader alone */
};

#define ZR_PY_DIMS 8

struct zr_py {
	enum zr_py_kind kind;
	int32_t dtype; /* of a storage or a tensor, or of the type that a name means: ZR_F32, ... */
	int64_t whole; /* ZR_PY_INT, ZR_PY_BOOL */
	double number; /* ZR_PY_FLOAT */
	/* a text with a 0 behind it, bytes, or the name of a class, "torch._utils f"; the name of a
	 * storage in its file */
	const char *text;
	size_t bytes;
	/* members of a list; keys and values of a dictionary */
	struct zr_py **at;
	size_t n, room;
	/* what an object was made of, and its attributes */
	struct zr_py *of, *arguments, *state;
	/* of a tensor: where it lies in its storage, in elements; of a storage: elements */
	const struct zr_py *storage;
	int64_t offset, elements;
	int32_t ndim;
	int64_t dims[ZR_PY_DIMS], stride[ZR_PY_DIMS];
};

/* All of these take NULL and values of another kind: they answer that nothing is there. */

/* What a dictionary has for a text, or for a number. NULL: nothing. */
const struct zr_py *zr_py_get(const struct zr_py *dict, const char *key);
const struct zr_py *zr_py_at(const struct zr_py *dict, int64_t key);
/* An attribute of an object. NULL: it has none of that name. */
const struct zr_py *zr_py_attribute(const struct zr_py *object, const char *name);
/* Member i of a list, or NULL; how many a list or a dictionary has. */
const struct zr_py *zr_py_member(const struct zr_py *list, size_t i);
size_t zr_py_count(const struct zr_py *x);
/* A text; NULL: it is none. */
const char *zr_py_text(const struct zr_py *x);
/* Whether it is a number, a truth value included, which goes to *out. */
int zr_py_number(const struct zr_py *x, double *out);
int zr_py_whole(const struct zr_py *x, int64_t *out);
int zr_py_is(const struct zr_py *object, const char *name); /* of that class */

/* Whether the elements of a tensor lie in a row. */
int zr_py_in_a_row(const struct zr_py *tensor);

#endif
