/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_ini.c - INI files as configurations, with all plugins of the build. What is accepted is
 * written as `config show` does, and read again: the same configuration.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "fuzz.h"

static char *shown(const struct zr_config *cfg, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);
	fuzz_check(out && !zr_config_write_ini(cfg, out, 0));
	fuzz_check(!fclose(out));
	return text;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zr_config *cfg, *again;
	struct zr_error err = { 0 };
	size_t n, m;
	if (zr_config_load(fuzz_file("fuzz.ini", data, size), NULL, 0, &cfg, &err))
		return fuzz_refused(&err);
	char *first = shown(cfg, &n), *second;
	if (zr_config_load(fuzz_file("shown.ini", first, n), NULL, 0, &again, &err))
		fuzz_failed(__FILE__, __LINE__, err.text);
	second = shown(again, &m);
	fuzz_check(n == m && !memcmp(first, second, n));
	free(first);
	free(second);
	zr_config_free(cfg);
	zr_config_free(again);
	fuzz_usable++;
	return 0;
}
