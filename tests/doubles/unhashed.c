/* SPDX-License-Identifier: Apache-2.0
 *
 * unhashed.c - data/text as it was before data told its files: its checkpoints have no hash.
 */
#include <zeroth/data.h>

#include "wrapped.h"

WRAP_MADE(data, "data/text.so", "text")

__attribute__((constructor)) static void init(void)
{
	wrap();
	vtbl.size = offsetof(struct zr_data_v1, file);
}

ZR_PLUGIN(&desc);
