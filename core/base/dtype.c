/* SPDX-License-Identifier: Apache-2.0
 *
 * dtype.c - see dtype.h.
 */
#include "core/base/dtype.h"

#include <string.h>

static const struct zr_dtype types[] = {
	{ "F32", ZR_F32, 4, 1 }, { "BF16", ZR_BF16, 2, 1 }, { "F16", ZR_F16, 2, 1 },
	{ "F64", ZR_F64, 8, 0 }, { "I32", ZR_I32, 4, 0 },   { "I64", ZR_I64, 8, 0 },
	{ "U8", ZR_U8, 1, 0 },   { "BOOL", 0, 1, 0 },       { "I8", 0, 1, 0 },
	{ "I16", 0, 2, 0 },      { "U16", 0, 2, 0 },        { "U32", 0, 4, 0 },
	{ "U64", 0, 8, 0 },      { "F8_E4M3", 0, 1, 0 },    { "F8_E5M2", 0, 1, 0 },
	{ NULL, 0, 0, 0 },
};

const struct zr_dtype *zr_dtype_find(int32_t id, const char *name)
{
	const struct zr_dtype *t = types;
	while (t->name && (name ? strcmp(t->name, name) : !id || t->id != id))
		t++;
	return t;
}
