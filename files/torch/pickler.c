/* SPDX-License-Identifier: Apache-2.0
 *
 * pickler.c - see pickler.h. The instructions are those of Python's pickletools.
 */
#include "files/torch/pickler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/plugin.h>

static void put(struct zr_pickler *p, const void *bytes, size_t n)
{
	if (p->failed)
		return;

	if (n > p->room - p->n) {
		const size_t room = 2 * (p->n + n) + 256;
		unsigned char *more = realloc(p->bytes, room);
		if (!more) {
			p->failed = 1;
			return;
		}
		p->bytes = more;
		p->room = room;
	}

	memcpy(p->bytes + p->n, bytes, n);
	p->n += n;
}

static void put_code(struct zr_pickler *p, unsigned char code)
{
	put(p, &code, 1);
}

/* The low bytes of a number, the lowest first. */
static void put_number(struct zr_pickler *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		put_code(p, (unsigned char)(v >> 8 * i));
}

void zr_pickler_open(struct zr_pickler *p)
{
	*p = (struct zr_pickler){ 0 };
	put_code(p, 0x80); /* PROTO */
	put_code(p, 2);
}

void zr_pickler_close(struct zr_pickler *p)
{
	put_code(p, '.');
}

void zr_pickler_free(struct zr_pickler *p)
{
	free(p->bytes);
	*p = (struct zr_pickler){ 0 };
}

/* ---- values ---- */

void zr_pickle_none(struct zr_pickler *p)
{
	put_code(p, 'N');
}

void zr_pickle_bool(struct zr_pickler *p, int value)
{
	put_code(p, value ? 0x88 : 0x89);
}

void zr_pickle_whole(struct zr_pickler *p, int64_t v)
{
	if (v >= 0 && v < 1 << 8) {
		put_code(p, 'K');
		put_number(p, (uint64_t)v, 1);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		put_code(p, 'J');
		put_number(p, (uint64_t)v, 4);
	} else {
		put_code(p, 0x8a); /* LONG1: its bytes, and so many */
		put_code(p, 8);
		put_number(p, (uint64_t)v, 8);
	}
}

void zr_pickle_real(struct zr_pickler *p, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits);
	put_code(p, 'G');
	for (int i = 7; i >= 0; i--) /* the highest byte first, unlike all others */
		put_code(p, (unsigned char)(bits >> 8 * i));
}

void zr_pickle_text(struct zr_pickler *p, const char *text)
{
	const size_t n = strlen(text);

	put_code(p, 'X');
	put_number(p, n, 4);
	put(p, text, n);
}

void zr_pickle_name(struct zr_pickler *p, const char *module, const char *name)
{
	put_code(p, 'c');
	put(p, module, strlen(module));
	put_code(p, '\n');
	put(p, name, strlen(name));
	put_code(p, '\n');
}

/* ---- what has members ---- */

void zr_pickle_open_list(struct zr_pickler *p)
{
	put_code(p, ']');
	put_code(p, '(');
}

void zr_pickle_close_list(struct zr_pickler *p)
{
	put_code(p, 'e');
}

void zr_pickle_open_dict(struct zr_pickler *p)
{
	put_code(p, '}');
	put_code(p, '(');
}

void zr_pickle_open_ordered(struct zr_pickler *p)
{
	zr_pickle_name(p, "collections", "OrderedDict");
	put_code(p, ')');
	zr_pickle_call(p);
	put_code(p, '(');
}

void zr_pickle_close_dict(struct zr_pickler *p)
{
	put_code(p, 'u');
}

void zr_pickle_open_tuple(struct zr_pickler *p)
{
	put_code(p, '(');
}

void zr_pickle_close_tuple(struct zr_pickler *p)
{
	put_code(p, 't');
}

/* ---- objects ---- */

void zr_pickle_call(struct zr_pickler *p)
{
	put_code(p, 'R');
}

void zr_pickle_object(struct zr_pickler *p)
{
	put_code(p, ')');
	put_code(p, 0x81);
}

void zr_pickle_set(struct zr_pickler *p)
{
	put_code(p, 'b');
}

/* ---- tensors ---- */

static void put_dims(struct zr_pickler *p, int32_t ndim, const int64_t *dims)
{
	zr_pickle_open_tuple(p);
	for (int32_t d = 0; d < ndim; d++)
		zr_pickle_whole(p, dims[d]);
	zr_pickle_close_tuple(p);
}

void zr_pickle_size(struct zr_pickler *p, int32_t ndim, const int64_t *dims)
{
	zr_pickle_name(p, "torch", "Size");
	zr_pickle_open_tuple(p);
	put_dims(p, ndim, dims);
	zr_pickle_close_tuple(p);
	zr_pickle_call(p);
}

static const char *storage_class(int32_t dtype)
{
	if (dtype == ZR_BF16)
		return "BFloat16Storage";
	if (dtype == ZR_F16)
		return "HalfStorage";
	return "FloatStorage";
}

/* ("storage", CLASS, KEY, PLACE, ELEMENTS), of which the reader makes a storage. */
static void put_storage(struct zr_pickler *p, int64_t storage, int32_t dtype, int64_t elements)
{
	char key[24];

	snprintf(key, sizeof key, "%lld", (long long)storage);
	zr_pickle_open_tuple(p);
	zr_pickle_text(p, "storage");
	zr_pickle_name(p, "torch", storage_class(dtype));
	zr_pickle_text(p, key);
	zr_pickle_text(p, "cpu");
	zr_pickle_whole(p, elements);
	zr_pickle_close_tuple(p);
	put_code(p, 'Q');
}

void zr_pickle_tensor(struct zr_pickler *p, int64_t storage, int32_t dtype, int32_t ndim,
		      const int64_t *dims)
{
	int64_t elements = 1, stride[8];

	for (int32_t d = ndim - 1; d >= 0; d--) {
		stride[d] = elements;
		elements *= dims[d];
	}

	zr_pickle_name(p, "torch._utils", "_rebuild_tensor_v2");
	zr_pickle_open_tuple(p);
	put_storage(p, storage, dtype, elements);
	zr_pickle_whole(p, 0);
	put_dims(p, ndim, dims);
	put_dims(p, ndim, stride);
	zr_pickle_bool(p, 0);      /* it needs no gradient, */
	zr_pickle_open_ordered(p); /* and has no hooks */
	zr_pickle_close_dict(p);
	zr_pickle_close_tuple(p);
	zr_pickle_call(p);
}
