/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_safetensors.c - files of tensors: by themselves, as the file of a rank of a checkpoint, and
 * as a model's weights.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "files/checkpoint/manifest.h"
#include "files/pretrained/tensors.h"
#include "fuzz.h"

#define MOST (1 << 20) /* bytes of a tensor that is read whole */

/* A small model, and a checkpoint of it by one rank. */
static const struct zr_tensor tensors[] = {
	{ .name = "a.weight", .dims = { 3, 5 }, .ndim = 2 },
	{ .name = "a.bias", .dims = { 7 }, .ndim = 1 },
};
static const struct zr_unit units[] = { { .name = "a", .tensors = tensors, .n_tensors = 2 } };
static struct zr_ckpt_state states[] = { { "exp_avg", ZR_BF16, 0 }, { "scales", ZR_U8, 3 } };
static struct zr_ckpt_optimizer optimizers[] = {
	{ .id = "adam", .state_version = 1, .n_states = 2, .state = states },
	{ .id = "sgd", .state_version = 4, .state = states }
};
static int32_t optimizer_of[] = { 0, 1 }, of_all[2];
static struct zr_ckpt_file file;
static struct zr_manifest manifest = {
	.step = 5,
	.applied = 3,
	.world = 1,
	.n_optimizers = 2,
	.entry_blocks = 2,
	.optimizer = optimizers,
	.optimizer_of = optimizer_of,
	.ranks = of_all,
	.model = "gpt2",
	.data = "text",
	.dtype = "BF16",
	.master_bits = 32,
	.file = &file,
};

static void cleanup(void)
{
	zr_layout_free(&manifest.layout);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct zr_model_decl decl = { .size = sizeof decl,
						   .n_units = 1,
						   .unit_stride = sizeof *units,
						   .tensor_stride = sizeof *tensors,
						   .units = units };
	(void)argc, (void)argv;
	fuzz_quiet();
	fuzz_check(!zr_layout_make(&decl, &manifest.layout, NULL));
	atexit(cleanup);
	return 0;
}

static void read_tensors(const struct zr_st *st)
{
	static char data[MOST];
	struct zr_error err = { 0 };
	zr_st_meta(st, "format");
	for (int64_t i = 0; i < st->n; i++) {
		const struct zr_st_tensor *t = zr_st_find(st, st->tensor[i].name);
		fuzz_check(t && t->bytes <= st->bytes - st->data);
		if (t->bytes <= sizeof data)
			fuzz_check(!zr_st_read(st, t, 0, t->bytes, data, &err));
	}
}

/* A manifest that means this file: then only what is in it can be wrong. */
static void as_checkpoint(const struct zr_st *st)
{
	static char data[MOST];
	struct zr_error err = { 0 };
	struct zr_ckpt_found found;
	struct zr_st again;
	int64_t n;
	manifest.file[0] = (struct zr_ckpt_file){ st->bytes, st->hash };
	fuzz_check(!zr_ckpt_open(&manifest, fuzz_dir(), 0, &again, &err));
	struct zr_ckpt_entry *e = zr_entries(&manifest, 0, &n);
	fuzz_check(e);
	for (int64_t i = 0; i < n; i++) {
		struct zr_error why = { 0 };
		fuzz_check(e[i].bytes <= sizeof data);
		if (zr_ckpt_find(&manifest, &again, &e[i], &found, &why) ||
		    zr_st_read(&again, found.tensor, 0, e[i].bytes, data, &why) ||
		    zr_ckpt_same(&again, &found, XXH3_64bits(data, e[i].bytes), &why))
			fuzz_refused(&why);
	}
	free(e);
	zr_st_close(&again);
}

static void as_weights(const char *path)
{
	static float x[MOST / 4];
	struct zr_tensor_files *f;
	struct zr_error err = { 0 };
	if (zr_tensor_files_open(path, &manifest.layout, ZR_FILES_WHOLE, "transformer.",
				 "lm_head.weight *.mask", &f, &err)) {
		fuzz_refused(&err);
		return;
	}
	for (int32_t i = 0; i < manifest.layout.n_tensors; i++)
		fuzz_check(!zr_tensor_files_read(f, i, 0, manifest.layout.tensor[i].elements, x,
						 &err));
	zr_tensor_files_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[ZR_CKPT_NAME];
	const char *path = fuzz_file(zr_ckpt_file_name(0, 1, name), data, size);
	struct zr_st st;
	struct zr_error err = { 0 };
	if (zr_st_open(path, &st, &err))
		return fuzz_refused(&err);
	read_tensors(&st);
	as_checkpoint(&st);
	as_weights(path);
	zr_st_close(&st);
	fuzz_usable++;
	return 0;
}

/* Damages the header and makes its length right again, mostly. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
	uint64_t n = 0;
	if (size > sizeof n)
		memcpy(&n, data, sizeof n);
	if (seed % 8 == 0 || n > size - sizeof n || size <= sizeof n || n < 2)
		return LLVMFuzzerMutate(data, size, room);
	size_t rest = size - sizeof n - n;
	if (rest > 4096)
		rest = 4096;
	uint8_t *tail = malloc(rest + 1);
	fuzz_check(tail);
	memcpy(tail, data + sizeof n + n, rest);
	n = LLVMFuzzerMutate(data + sizeof n, n, room - sizeof n - rest);
	memcpy(data, &n, sizeof n);
	memcpy(data + sizeof n + n, tail, rest);
	free(tail);
	return sizeof n + n + rest;
}
