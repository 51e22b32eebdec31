/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_model.c - config.json of a model, as the plugins read it that know Hugging Face's
 * directories.
 */
#include <stdlib.h>
#include <string.h>

#include <zeroth/model.h>

#include "core/config/config.h"
#include "core/pretrained/pretrained.h"
#include "fuzz.h"

static char path[4200];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	snprintf(path, sizeof path, "model.path=%s", fuzz_dir());
	return 0;
}

/* What a setup does with the model's section. */
static void use(struct zr_config *cfg)
{
	struct zr_facts facts = {
		.size = sizeof facts, .world = 1, .workers = 1, .vocabulary = 61
	};
	const struct zr_pretrained_v1 *v;
	struct zr_error err = { 0 };
	char unknown[64];
	fuzz_check(!zr_pretrained_tables(zr_config_model_json(cfg),
					 zr_config_find(cfg, "model")->plugin, &v, &err));
	zr_pretrained_unknown(zr_config_model_json(cfg), v, unknown, sizeof unknown);
	if (zr_config_resolve(cfg, "model", &facts, &err))
		fuzz_refused(&err);
	else
		fuzz_usable++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const plugins[] = { "model.plugin=gpt2", "model.plugin=llama" };
	fuzz_file("config.json", data, size);
	for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
		const char *options[] = { path, plugins[i], "data.plugin=text", "data.path=x" };
		struct zr_config *cfg;
		struct zr_error err = { 0 };
		if (zr_config_load(NULL, options, sizeof options / sizeof *options, &cfg, &err)) {
			fuzz_refused(&err);
			continue;
		}
		use(cfg);
		zr_config_free(cfg);
	}
	return 0;
}
