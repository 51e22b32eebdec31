/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_args.c - command lines: the options that most commands share, and what -o says over the
 * lowest layer of the configuration. An input is one argument a line; its first line says which of
 * the options a command takes.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "fuzz.h"

#define ARGUMENTS 256

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

/* getopt keeps a place in the last argument that it was given, which is gone. */
static void forget_arguments(void)
{
	static const struct option none;
	char *argv[] = { "zeroth", NULL };
	optind = 0;
	getopt_long(1, argv, "", &none, NULL);
}

static int split(char *text, char **argv)
{
	int n = 0;
	for (char *line = strtok(text, "\n"); line && n < ARGUMENTS; line = strtok(NULL, "\n"))
		argv[n++] = line;
	argv[n] = NULL;
	return n;
}

static int configure(const struct zr_cmd_args *a)
{
	struct zr_config *cfg;
	struct zr_error err = { 0 };
	FILE *null;
	if (zr_config_load(NULL, a->overrides, a->n_overrides, &cfg, &err))
		return fuzz_refused(&err);
	null = fopen("/dev/null", "w");
	fuzz_check(null && !zr_config_write_ini(cfg, null, 1));
	fclose(null);
	zr_config_free(cfg);
	fuzz_usable++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *argv[ARGUMENTS + 1], *text = malloc(size + 1);
	struct zr_cmd_args a;
	fuzz_check(text);
	memcpy(text, data, size);
	text[size] = 0;
	int argc = split(text, argv);
	forget_arguments();
	if (argc) {
		int rc =
			zr_cmd_parse(argc, argv, argv[0], strchr(argv[0], '!') ? NULL : "CONF", &a);
		fuzz_check(rc == -1 || rc == 0 || rc == 2);
		fuzz_check(a.n_overrides >= 0 && a.n_overrides <= ZR_CMD_OVERRIDES);
		if (rc == -1)
			configure(&a);
	}
	free(text);
	return 0;
}
