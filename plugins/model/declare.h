/* SPDX-License-Identifier: Apache-2.0
 *
 * declare.h - what a model's declaration is made of: the arrays behind struct zr_model_decl, and
 * tensors as models have them.
 */
#ifndef ZR_MODEL_DECLARE_H
#define ZR_MODEL_DECLARE_H

#include <zeroth/model.h>

#define DECL_NAME 64 /* bytes of a name */

/* Owned by the instance, of the host's memory. */
struct decl {
	struct zr_unit *units;
	struct zr_tensor *tensors; /* canonical order, those of a unit one after the other */
	struct zr_layer *layers;
	int32_t *layer_units; /* the units of every layer */
	char (*names)[DECL_NAME];
};

static inline struct zr_tensor decl_matrix(const char *name, int64_t rows, int64_t cols, double std)
{
	return (struct zr_tensor){ .name = name,
				   .dims = { rows, cols, 1, 1 },
				   .ndim = 2,
				   .init = ZR_INIT_NORMAL,
				   .std = std };
}

/* The weight of a linear map, stored as `map` says. */
static inline struct zr_tensor decl_map(const char *name, int32_t map, int64_t rows, int64_t cols,
					double std)
{
	struct zr_tensor t = decl_matrix(name, rows, cols, std);
	t.map = map;
	return t;
}

static inline struct zr_tensor decl_vector(const char *name, int64_t n, double value)
{
	return (struct zr_tensor){ .name = name,
				   .dims = { n, 1, 1, 1 },
				   .ndim = 1,
				   .init = ZR_INIT_CONST,
				   .mean = value };
}

static inline void decl_free(const struct zr_host *h, struct decl *d)
{
	h->release(h, d->units);
	h->release(h, d->tensors);
	h->release(h, d->layers);
	h->release(h, d->layer_units);
	h->release(h, d->names);
}

/* ZR_ENOMEM: some are there, and decl_free is still due. */
static inline int decl_alloc(const struct zr_host *h, struct decl *d, int64_t units,
			     int64_t tensors, int64_t layers, int64_t layer_units, int64_t names)
{
	d->units = h->alloc(h, (uint64_t)units * sizeof *d->units, "model");
	d->tensors = h->alloc(h, (uint64_t)tensors * sizeof *d->tensors, "model");
	d->layers = h->alloc(h, (uint64_t)layers * sizeof *d->layers, "model");
	d->layer_units = h->alloc(h, (uint64_t)layer_units * sizeof *d->layer_units, "model");
	d->names = h->alloc(h, (uint64_t)names * sizeof *d->names, "model");
	if (d->units && d->tensors && d->layers && d->layer_units && d->names)
		return ZR_OK;

	return ZR_ENOMEM;
}

/* The declaration over these arrays; vocabulary, context and flops_per_token are the caller's. */
static inline struct zr_model_decl decl_answer(const struct decl *d, int64_t units, int64_t layers,
					       const char *const *meta)
{
	return (struct zr_model_decl){ .size = sizeof(struct zr_model_decl),
				       .n_units = (uint32_t)units,
				       .n_layers = (uint32_t)layers,
				       .unit_stride = sizeof *d->units,
				       .layer_stride = sizeof *d->layers,
				       .tensor_stride = sizeof *d->tensors,
				       .units = d->units,
				       .layers = d->layers,
				       .meta = meta };
}

#endif
