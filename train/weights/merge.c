/* SPDX-License-Identifier: Apache-2.0
 *
 * merge.c - see merge.h.
 */
#include "train/weights/merge.h"

#include <stdlib.h>

#include "train/adapter.h"

#define CHUNK (1 << 20) /* values at a time, or a row */

/* What is merged into one tensor. */
struct with {
	int32_t n, tensor[ZR_MERGE_WITH];
	float *values[ZR_MERGE_WITH];
};

static int read_with(const struct zr_setup *s, zr_values_fn *fn, void *arg, struct with *w,
		     struct zr_error *err)
{
	int rc = 0;

	for (int32_t i = 0; !rc && i < w->n; i++) {
		const int64_t n = s->facts.layout.tensor[w->tensor[i]].elements;
		w->values[i] = malloc((size_t)n * sizeof(float));
		if (w->values[i])
			rc = fn(arg, w->tensor[i], 0, n, w->values[i], err);
		else
			rc = zr_err(err, ZR_ENOMEM, "out of memory for an adapter");
	}

	return rc;
}

static int put_tensor(struct zr_setup *s, const struct zr_place *t, int32_t tensor,
		      const struct with *w, zr_values_fn *fn, void *arg, struct zr_export *x,
		      struct zr_error *err)
{
	const int64_t rows = w->n ? t->decl->dims[0] : t->elements, row = t->elements / rows;
	const int64_t most = row < CHUNK ? CHUNK / row : 1;
	float *buf = malloc((size_t)(most * row) * sizeof *buf);

	int rc = buf ? 0 : zr_err(err, ZR_ENOMEM, "out of memory for a row of %s", t->decl->name);
	for (int64_t at = 0, n; !rc && at < rows; at += n) {
		n = rows - at < most ? rows - at : most;
		const struct zr_merge g = { .size = sizeof g,
					    .tensor = tensor,
					    .first = at,
					    .n = n,
					    .rows = buf,
					    .with = (const float *const *)w->values };
		rc = fn(arg, tensor, at * row, n * row, buf, err);
		if (!rc && w->n)
			rc = zr_instance_failed(&s->roles.adapter,
						zr_adapter_files(s)->merge(s->roles.adapter.inst,
									   &g),
						"merge", err);
		if (!rc)
			zr_export_put(x, buf, n * row);
	}

	free(buf);
	return rc;
}

int zr_merge_put(struct zr_setup *s, const struct zr_layout *layout, zr_values_fn *fn, void *arg,
		 struct zr_export *x, struct zr_error *err)
{
	const struct zr_adapter_v1 *v = s ? zr_adapter_files(s) : NULL;
	int rc = 0;

	if (s && !(v && ZR_HAS(v, struct zr_adapter_v1, merge) && v->merge_with && v->merge))
		return zr_err(err, ZR_ENOTSUP, "[adapter] %s: what it trains cannot be merged",
			      s->roles.adapter.section->plugin->desc->id);

	for (int32_t i = 0; !rc && i < layout->n_tensors; i++) {
		struct with w = { 0 };
		w.n = s ? v->merge_with(s->roles.adapter.inst, i, w.tensor) : 0;
		rc = w.n ? read_with(s, fn, arg, &w, err) : 0;
		if (!rc)
			rc = put_tensor(s, &layout->tensor[i], i, &w, fn, arg, x, err);
		for (int32_t k = 0; k < w.n; k++)
			free(w.values[k]);
	}

	return rc;
}
