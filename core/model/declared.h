/* SPDX-License-Identifier: Apache-2.0
 *
 * declared.h - whether core can hold what a model declares: judged once, before anything is laid
 * out by it.
 */
#ifndef ZR_CORE_DECLARED_H
#define ZR_CORE_DECLARED_H

#include <zeroth/model.h>

#include "core/base/error.h"

/* 0, or a failure that names the unit, tensor or layer, its field, and what the field may be. */
int zr_declared_check(const struct zr_model_decl *m, struct zr_error *err);

#endif
