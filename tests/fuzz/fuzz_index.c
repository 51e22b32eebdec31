/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_index.c - model.safetensors.index.json beside three good shards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/layout.h"
#include "files/pretrained/tensors.h"
#include "files/safetensors.h"
#include "fuzz.h"

#define MOST 64 /* tensors */

static struct zr_tensor tensors[MOST];
static struct zr_unit unit = { .name = "all", .tensors = tensors };
static struct zr_layout layout;

static void cleanup(void)
{
	for (uint32_t i = 0; i < unit.n_tensors; i++)
		free((char *)tensors[i].name);
	zr_layout_free(&layout);
}

/* A model with the tensors of this file, too. */
static void add_tensors(const char *path)
{
	struct zr_st st;
	struct zr_error err = { 0 };
	if (zr_st_open(path, &st, &err))
		fuzz_failed(__FILE__, __LINE__, err.text);
	for (int64_t i = 0; i < st.n; i++) {
		struct zr_tensor *t = &tensors[unit.n_tensors++];
		fuzz_check(unit.n_tensors < MOST && st.tensor[i].ndim <= 4);
		t->name = strdup(st.tensor[i].name);
		t->ndim = (uint32_t)st.tensor[i].ndim;
		memcpy(t->dims, st.tensor[i].dims, (size_t)t->ndim * sizeof *t->dims);
	}
	zr_st_close(&st);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const shards[] = { "model-00001-of-00003.safetensors",
					      "model-00002-of-00003.safetensors",
					      "model-00003-of-00003.safetensors" };
	char name[128];
	(void)argc, (void)argv;
	fuzz_quiet();
	for (int i = 0; i < 3; i++) {
		size_t size;
		snprintf(name, sizeof name, "pretrained/gpt2-shards/%s", shards[i]);
		char *text = fuzz_golden(name, &size);
		add_tensors(fuzz_file(shards[i], text, size));
		free(text);
	}
	struct zr_model_decl decl = { .size = sizeof decl,
				      .n_units = 1,
				      .unit_stride = sizeof unit,
				      .tensor_stride = sizeof *tensors,
				      .units = &unit };
	fuzz_check(!zr_layout_make(&decl, &layout, NULL));
	atexit(cleanup);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static float x[1 << 16];
	struct zr_tensor_files *f;
	struct zr_error err = { 0 };
	fuzz_file("model.safetensors.index.json", data, size);
	if (zr_tensor_files_open(fuzz_dir(), &layout, ZR_FILES_WHOLE, "", "lm_head.weight", &f,
				 &err))
		return fuzz_refused(&err);
	for (int32_t i = 0; i < layout.n_tensors; i++)
		fuzz_check(!zr_tensor_files_read(f, i, 0, layout.tensor[i].elements, x, &err));
	zr_tensor_files_close(f);
	fuzz_usable++;
	return 0;
}
