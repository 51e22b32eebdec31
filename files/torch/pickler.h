/* SPDX-License-Identifier: Apache-2.0
 *
 * pickler.h - writes a pickle of Python, protocol 2, instruction by instruction: the plain data and
 * the tensors that torch.save has, and objects of classes that are named. [any]
 *
 * A list, a tuple or a dictionary is opened, gets its members (of a dictionary keys and values in
 * turn), and is closed. Memory that ran out is remembered, and seen at the end.
 */
#ifndef ZR_FILES_TORCH_PICKLER_H
#define ZR_FILES_TORCH_PICKLER_H

#include <stddef.h>
#include <stdint.h>

struct zr_pickler {
	unsigned char *bytes;
	size_t n, room;
	int failed; /* memory ran out: nothing more is added */
};

void zr_pickler_open(struct zr_pickler *p);  /* begins a pickle; the struct was zeroed, or freed */
void zr_pickler_close(struct zr_pickler *p); /* ends it */
void zr_pickler_free(struct zr_pickler *p);

void zr_pickle_none(struct zr_pickler *p);
void zr_pickle_bool(struct zr_pickler *p, int value);
void zr_pickle_whole(struct zr_pickler *p, int64_t value);
void zr_pickle_real(struct zr_pickler *p, double value);
void zr_pickle_text(struct zr_pickler *p, const char *text);
/* A class, a function or a type: "torch", "float32". */
void zr_pickle_name(struct zr_pickler *p, const char *module, const char *name);

void zr_pickle_open_list(struct zr_pickler *p);
void zr_pickle_close_list(struct zr_pickler *p);
void zr_pickle_open_dict(struct zr_pickler *p);
void zr_pickle_open_ordered(struct zr_pickler *p); /* an OrderedDict */
void zr_pickle_close_dict(struct zr_pickler *p);
void zr_pickle_open_tuple(struct zr_pickler *p);
void zr_pickle_close_tuple(struct zr_pickler *p);

/* What the last two values make: a call of a function, or of a class, with a tuple. */
void zr_pickle_call(struct zr_pickler *p);
/* An object of the class that was the last value, as it is without arguments. What follows, closed
 * by zr_pickle_set, becomes its attributes. */
void zr_pickle_object(struct zr_pickler *p);
void zr_pickle_set(struct zr_pickler *p);

/* A torch.Size. */
void zr_pickle_size(struct zr_pickler *p, int32_t ndim, const int64_t *dims);
/* A tensor that has all of the storage with that number, in the order of its elements.
 * dtype: ZR_F32, ZR_BF16 or ZR_F16. */
void zr_pickle_tensor(struct zr_pickler *p, int64_t storage, int32_t dtype, int32_t ndim,
		      const int64_t *dims);

#endif
