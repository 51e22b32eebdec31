/* SPDX-License-Identifier: Apache-2.0
 *
 * box.c - see others.h: a part of a tensor that is cut in any of its dimensions.
 */
#include "cmd/others/others.h"

#include "core/base/dtype.h"

/* Dimensions before those that a row of the part covers, and the elements of a row. */
static int32_t rows_of(const struct zr_other_tensor *t, const struct zr_other_box *b, int64_t *row)
{
	int32_t d = t->ndim;

	*row = 1;
	while (d && (d == t->ndim || b->dims[d] == t->dims[d]))
		*row *= b->dims[--d];
	return d;
}

/* The first element of row i of the part in its tensor. */
static int64_t first_of(const struct zr_other_tensor *t, const struct zr_other_box *b, int32_t rows,
			int64_t i)
{
	int64_t first = 0, stride = 1, at[ZR_OTHER_DIMS] = { 0 };

	for (int32_t d = rows - 1; d >= 0; d--) {
		at[d] = i % b->dims[d];
		i /= b->dims[d];
	}

	for (int32_t d = t->ndim - 1; d >= 0; d--) {
		first += (b->offset[d] + at[d]) * stride;
		stride *= t->dims[d];
	}

	return first;
}

static int fits(const struct zr_other_tensor *t, const struct zr_other_box *b)
{
	int same = b->ndim == t->ndim;

	for (int32_t d = 0; same && d < t->ndim; d++)
		same = b->offset[d] >= 0 && b->dims[d] >= 0 && b->dims[d] <= t->dims[d] &&
		       b->offset[d] <= t->dims[d] - b->dims[d];
	return same;
}

int zr_other_put_box(struct zr_others *o, struct zr_other_tensor *t, const char *name,
		     struct zr_other_piece p, const struct zr_other_box *b, struct zr_error *err)
{
	int64_t row, n = 1;
	int rc = 0;

	if (!fits(t, b))
		return zr_err(err, ZR_EINVAL,
			      "%s: tensor %s: a part of its %s that is not one of its tensor",
			      o->file[p.file], t->name, name);

	const int32_t rows = rows_of(t, b, &row);
	for (int32_t d = 0; d < rows; d++)
		n *= b->dims[d];

	p.n = row;
	for (int64_t i = 0; !rc && row && i < n; i++) {
		p.first = first_of(t, b, rows, i);
		rc = zr_other_put(o, t, name, p, err);
		p.at += (uint64_t)(row * zr_dtype_bytes(p.dtype));
	}

	return rc;
}
