/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.h - where every tensor lies: units are flat, tensors in declared order, each starting on a
 * block of ZR_BLOCK elements. Who holds which blocks: core/model/mesh.h.
 */
#ifndef ZR_CORE_LAYOUT_H
#define ZR_CORE_LAYOUT_H

#include <stddef.h>
#include <zeroth/model.h>

#include "core/base/error.h"

/* Whether the struct zr_tensor that a declaration was built with has a member. */
#define ZR_TENSOR_HAS(decl, member)                                                                \
	((decl)->tensor_stride >=                                                                  \
	 offsetof(struct zr_tensor, member) + sizeof(((const struct zr_tensor *)0)->member))

struct zr_place {
	const struct zr_tensor *decl; /* name, shape, init: owned by the model */
	int32_t unit;
	uint32_t flags;   /* ZR_TENSOR_* */
	int64_t elements; /* without padding */
	/* elements from the start of its unit, a multiple of ZR_BLOCK */
	int64_t offset;
	int64_t block; /* number of its first block in the whole model */
	int64_t blocks;
	int64_t persistent;       /* how many persistent numbers it has */
	int64_t first_persistent; /* the first of them among those of the whole model */
};

struct zr_unit_place {
	const char *name;
	int32_t first, count;  /* tensors, in canonical order */
	int64_t elements;      /* with padding, a multiple of ZR_BLOCK */
	int64_t block, blocks; /* first block in the whole model, number of blocks */
};

struct zr_layout {
	int32_t n_units, n_tensors;
	struct zr_unit_place *unit;
	struct zr_place *tensor;
	int64_t blocks;     /* of the whole model */
	int64_t parameters; /* without padding */
	int64_t persistent; /* how many persistent numbers all tensors have */
};

int zr_layout_make(const struct zr_model_decl *m, struct zr_layout *out, struct zr_error *err);
void zr_layout_free(struct zr_layout *l);

#endif
