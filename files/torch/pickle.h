/* SPDX-License-Identifier: Apache-2.0
 *
 * pickle.h - a reader of Python's pickles, protocols 2 to 5, that runs nothing: it knows the
 * instructions that build data, and the classes that classes.c lists. All else is refused by name.
 * Its memory grows with the bytes that it reads, and no further: a pickle cannot ask for more.
 * [any]
 */
#ifndef ZR_FILES_TORCH_PICKLE_H
#define ZR_FILES_TORCH_PICKLE_H

#include "files/torch/object.h"

struct zr_pickle; /* owns the values */

/* path: for messages. The bytes are not needed afterwards. *root: what the pickle holds. */
int zr_pickle_read(const void *bytes, size_t n, const char *path, struct zr_pickle **out,
		   const struct zr_py **root, struct zr_error *err);
void zr_pickle_free(struct zr_pickle *p); /* NULL is fine */

/* ---- classes.c, inside ---- */

/* What becomes of a name that a pickle calls. */
enum zr_py_class {
	ZR_PY_CLASS_UNKNOWN,
	ZR_PY_CLASS_DICT,      /* a dictionary */
	ZR_PY_CLASS_LIST,      /* a list of its only argument */
	ZR_PY_CLASS_TENSOR,    /* a tensor of a storage */
	ZR_PY_CLASS_PARAMETER, /* its first argument, a tensor */
	ZR_PY_CLASS_FROM_TYPE, /* what its first argument makes of its third */
	ZR_PY_CLASS_DATA,      /* an object of which contents are kept */
	ZR_PY_CLASS_TYPE,      /* a type of elements, which nobody calls */
	ZR_PY_CLASS_STORAGE,   /* likewise, of a storage */
};

/* name: "MODULE NAME". *dtype: of a type or a storage; 0: Zeroth has no use for it. */
enum zr_py_class zr_py_class_of(const char *name, int32_t *dtype);

#endif
