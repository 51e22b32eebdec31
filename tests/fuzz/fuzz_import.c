/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_import.c - configurations of other programs: JSON, and YAML behind a first byte of 'Y'.
 * Every setting gets a result, and the INI that is made reads back to the lines that it has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/config/ini.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

struct count {
	const struct zr_import *im;
	int n;
};

static int line(void *arg, const char *section, const char *key, const char *value, int number)
{
	struct count *c = arg;
	char to[4096];
	(void)number;
	if (!key)
		return 0;
	snprintf(to, sizeof to, "%s.%s", section, key);
	fuzz_check(zr_import_given(c->im, to) && !strcmp(zr_import_given(c->im, to), value));
	c->n++;
	return 0;
}

static void check_ini(const struct zr_import *im)
{
	struct count c = { .im = im };
	struct zr_error err = { 0 };
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);
	fuzz_check(out && !zr_import_write(im, out));
	fuzz_check(!fclose(out));
	if (zr_ini_read(fuzz_file("made.ini", text, n), "made.ini", line, &c, &err))
		fuzz_failed(__FILE__, __LINE__, err.text);
	fuzz_check(c.n == im->n_lines);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zr_import im = { .device = "cuda", .model = "model" };
	struct zr_error err = { 0 };
	const int yaml = size && *data == 'Y';
	int refused = 1;
	im.file = yaml ? fuzz_file("fuzz.yml", data + 1, size - 1) :
			 fuzz_file("fuzz.json", data, size);
	if (!zr_import_run(&im, &err)) {
		fuzz_check(!zr_import_count(&im, ZR_FATE_OPEN));
		refused = zr_import_count(&im, ZR_FATE_REFUSED) +
			  zr_import_count(&im, ZR_FATE_UNKNOWN);
		if (!refused)
			check_ini(&im);
		zr_import_free(&im);
		fuzz_usable += !refused;
		return 0;
	}
	zr_import_free(&im);
	return fuzz_refused(&err);
}
