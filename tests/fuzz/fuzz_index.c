/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_index.c - model.safetensors.index.json beside three good shards.
 */
#include <stdlib.h>
#include <string.h>

#include "core/pretrained/pretrained.h"
#include "core/setup.h"
#include "fuzz.h"

static struct zr_config *cfg;
static struct zr_setup *setup;

static void cleanup(void)
{
	zr_setup_close(setup);
	zr_config_free(cfg);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const shards[] = { "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
					      "model-00003-of-00003.safetensors" };
	char name[128], model[4200], tokens[4200];
	const char *options[] = { model, tokens, "data.plugin=tokens", "data.format=uint16", "train.micro_batch_size=1",
				  "train.gradient_accumulation_steps=1", "train.sequence_length=6" };
	struct zr_error err = { 0 };
	(void)argc, (void)argv;
	fuzz_quiet();
	for (int i = 0; i < 3; i++) {
		size_t size;
		snprintf(name, sizeof name, "pretrained/gpt2-shards/%s", shards[i]);
		char *text = fuzz_golden(name, &size);
		fuzz_file(shards[i], text, size);
		free(text);
	}
	snprintf(model, sizeof model, "model.path=%s", fuzz_golden_path("pretrained/gpt2-shards"));
	snprintf(tokens, sizeof tokens, "data.path=%s", fuzz_golden_path("pretrained/tokens.bin"));
	if (zr_config_load(NULL, options, sizeof options / sizeof *options, &cfg, &err) || zr_setup_open(cfg, ZR_SETUP_ALONE, 1, &setup, &err))
		fuzz_failed(__FILE__, __LINE__, err.text);
	atexit(cleanup);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static float x[1 << 16];
	struct zr_tensor_files *f;
	struct zr_error err = { 0 };
	const struct zr_layout *layout = &setup->layout;
	fuzz_file("model.safetensors.index.json", data, size);
	if (zr_tensor_files_open(fuzz_dir(), layout, "transformer.", "lm_head.weight", &f, &err))
		return fuzz_refused(&err);
	for (int32_t i = 0; i < layout->n_tensors; i++)
		fuzz_check(!zr_tensor_files_read(f, i, 0, layout->tensor[i].elements, x, &err));
	zr_tensor_files_close(f);
	fuzz_usable++;
	return 0;
}
