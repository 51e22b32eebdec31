/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_torch.c - files of torch.save, and pickles by themselves: what is read of them lies within
 * them.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "files/torch/torch.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

/* Members of members, as far as a checkpoint has them: values may have themselves. */
static void look_at(const struct zr_torch *t, const struct zr_py *x, int depth)
{
	struct zr_error err = { 0 };
	uint64_t at;
	double v;

	if (!x || depth > 4)
		return;
	if (x->kind == ZR_PY_TENSOR) {
		if (!zr_torch_place(t, x, "x", &at, &err))
			fuzz_check(at + (uint64_t)x->elements *
						   (uint64_t)zr_dtype_bytes(x->dtype) <=
				   t->bytes);
		zr_torch_number(t, x, "x", &v, &err);
		return;
	}
	if (x->kind == ZR_PY_OBJECT)
		zr_py_attribute(x, "cur_scale");
	for (size_t i = 0; i < x->n && i < 20; i++)
		look_at(t, x->at[i], depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_file("x.pt", data, size);
	struct zr_error err = { 0 };
	struct zr_torch t;
	int rc = zr_torch_open(path, &t, &err);

	if (rc && size && *data == 0x80) {
		err = (struct zr_error){ 0 };
		rc = zr_pickle_open(path, &t, &err);
	}
	if (rc)
		return fuzz_refused(&err);

	look_at(&t, t.root, 0);
	zr_torch_close(&t);
	fuzz_usable++;
	return 0;
}
