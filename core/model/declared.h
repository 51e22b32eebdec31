/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.h - whether core can hold what a model declares: judged once, before anything is laid
 * out by it.
 */
#ifndef ZR_CORE_DECLARED_H
#define ZR_CORE_DECLARED_H

#include <stddef.h>
#include <zeroth/model.h>

#include "core/base/error.h"

/* How a layer may be cut, ZR_CUT_*; layers of an older struct may not. */
static inline int32_t zr_declared_cut(const struct zr_model_decl *m, const struct zr_layer *l)
{
	if (m->layer_stride < offsetof(struct zr_layer, cut) + sizeof l->cut)
		return ZR_CUT_WHOLE;
	return l->cut;
}

/* Whether layers say which of their units are experts. */
static inline int zr_says_experts(const struct zr_model_decl *m)
{
	return m->layer_stride >= offsetof(struct zr_layer, first_beside) + sizeof(int32_t);
}

/* 0, or a failure that names the unit, tensor or layer, its field, and what the field may be. */
int zr_declared_check(const struct zr_model_decl *m, struct zr_error *err);

#endif
