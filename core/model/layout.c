/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.c - see layout.h.
 */
#include "core/model/layout.h"

#include <stdlib.h>
#include <string.h>

static const struct zr_unit *unit_at(const struct zr_model_decl *m, uint32_t i)
{
	return (const struct zr_unit *)((const char *)m->units + (size_t)i * m->unit_stride);
}

/* Elements of a shape; 0 if a dimension is not positive or the product is more than what is
 * left. */
static int64_t elements(const struct zr_tensor *t, int64_t left)
{
	int64_t n = 1;
	for (int d = 0; d < t->ndim; d++)
		if (t->dims[d] <= 0 || __builtin_mul_overflow(n, t->dims[d], &n) || n > left)
			return 0;
	return n;
}

static int place_unit(const struct zr_model_decl *m, struct zr_layout *l, int32_t i,
		      struct zr_error *err)
{
	const struct zr_unit *decl = unit_at(m, (uint32_t)i);
	struct zr_unit_place *u = &l->unit[i];
	*u = (struct zr_unit_place){ .name = decl->name,
				     .first = l->n_tensors,
				     .count = (int32_t)decl->n_tensors,
				     .block = l->blocks };
	for (uint32_t k = 0; k < decl->n_tensors; k++) {
		struct zr_place *t = &l->tensor[l->n_tensors++];
		*t = (struct zr_place){ .unit = i, .offset = u->elements, .block = l->blocks };
		t->decl = (const struct zr_tensor *)((const char *)decl->tensors +
						     (size_t)k * m->tensor_stride);
		if (ZR_TENSOR_HAS(m, flags))
			t->flags = t->decl->flags;
		if (ZR_TENSOR_HAS(m, persistent))
			t->persistent = t->decl->persistent;
		t->first_persistent = l->persistent;
		t->elements = elements(t->decl, (1LL << 50) - l->parameters);
		if (!t->elements)
			return zr_err(err, ZR_EINVAL,
				      "tensor %s has an impossible shape, or the "
				      "model over 2^50 parameters",
				      t->decl->name);

		t->blocks = (t->elements + ZR_BLOCK - 1) / ZR_BLOCK;
		u->elements += t->blocks * ZR_BLOCK;
		l->blocks += t->blocks;
		l->parameters += t->elements;
		l->persistent += t->persistent;
	}

	u->blocks = u->elements / ZR_BLOCK;
	return 0;
}

int zr_layout_make(const struct zr_model_decl *m, struct zr_layout *out, struct zr_error *err)
{
	struct zr_layout l = { .n_units = (int32_t)m->n_units };
	size_t tensors = 0;
	for (uint32_t i = 0; i < m->n_units; i++)
		tensors += unit_at(m, i)->n_tensors;
	l.unit = calloc(m->n_units + 1, sizeof *l.unit);
	l.tensor = calloc(tensors + 1, sizeof *l.tensor);
	int rc = 0;
	if (!l.unit || !l.tensor)
		rc = zr_err(err, ZR_ENOMEM, "out of memory for the layout of %zu tensors", tensors);
	for (int32_t i = 0; !rc && i < l.n_units; i++)
		rc = place_unit(m, &l, i, err);
	if (rc)
		zr_layout_free(&l);
	else
		*out = l;
	return rc;
}

void zr_layout_free(struct zr_layout *l)
{
	free(l->unit);
	free(l->tensor);
	memset(l, 0, sizeof *l);
}
