/* SPDX-License-Identifier: Apache-2.0
 *
 * machine.h - what the instructions of a pickle work on: bytes, a stack, and memory that goes with
 * the pickle. Inside of files/torch alone.
 */
#ifndef ZR_FILES_TORCH_MACHINE_H
#define ZR_FILES_TORCH_MACHINE_H

#include "files/torch/pickle.h"

struct zr_pickle_piece;

struct zr_pickle {
	struct zr_pickle_piece *last; /* of its memory */
	struct zr_py *root;
};

struct zr_pickle_list {
	struct zr_py **at;
	size_t n, room;
};

struct zr_pickle_reader {
	struct zr_pickle *p;
	const unsigned char *bytes, *end, *next;
	const char *path;
	struct zr_pickle_list stack, memo;
	int done;
	struct zr_error *err;
};

/* Zeroed memory that lives as long as the pickle; NULL, with an error: there is none. */
void *zr_pickle_allocate(struct zr_pickle_reader *r, size_t bytes);
/* Names the place and what is wrong there. */
int zr_pickle_refuse(const struct zr_pickle_reader *r, const char *what);

/* The next n bytes; a number of n bytes, the lowest first, at most 8. */
int zr_pickle_take(struct zr_pickle_reader *r, size_t n, const unsigned char **out);
int zr_pickle_number(struct zr_pickle_reader *r, size_t n, uint64_t *out);
/* Bytes up to the end of a line, with a 0 behind them. */
int zr_pickle_line(struct zr_pickle_reader *r, const char **out);

/* Room for n values. */
int zr_pickle_grow(struct zr_pickle_reader *r, struct zr_pickle_list *l, size_t n);
int zr_pickle_push(struct zr_pickle_reader *r, struct zr_py *x);
int zr_pickle_push_new(struct zr_pickle_reader *r, enum zr_py_kind kind, struct zr_py **out);
int zr_pickle_pop(struct zr_pickle_reader *r, struct zr_py **out);
/* The values behind the last mark, which goes with them; they stay where they are. */
int zr_pickle_pop_marked(struct zr_pickle_reader *r, struct zr_py ***from, size_t *n);
/* The last value, which stays. */
int zr_pickle_top(struct zr_pickle_reader *r, struct zr_py **out);
/* Adds values to a list or a dictionary. */
int zr_pickle_append(struct zr_pickle_reader *r, struct zr_py *to, struct zr_py **from, size_t n);

/* names.c: the instructions that name something, or make something of a name. */
int zr_pickle_named(struct zr_pickle_reader *r);          /* c: by two lines */
int zr_pickle_named_on_stack(struct zr_pickle_reader *r); /* by two texts */
int zr_pickle_storage(struct zr_pickle_reader *r);
int zr_pickle_reduce(struct zr_pickle_reader *r); /* a call */
int zr_pickle_build(struct zr_pickle_reader *r);  /* attributes */

#endif
