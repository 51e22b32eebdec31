/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_args.c - command lines: an option of each kind, and what -o says over the lowest layer of
 * the configuration. An input is one argument a line; with a ! in the first one the command takes
 * no operand.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "fuzz.h"

#define ARGUMENTS 256

struct args {
	const char *overrides[ZR_CMD_OVERRIDES];
	int n_overrides, json, ranks;
	int64_t steps;
	double rate, watchdog;
	uint64_t memory;
	const char *resume, *dtype;
};

#define AT(member) offsetof(struct args, member)

static const struct zr_cmd_option options[] = {
	ZR_CMD_OPTION_RANKS(struct args, "ranks", 256),
	ZR_CMD_OPTION_JSON(struct args, "as JSON"),
	{ 0, "steps", "N", NULL, .kind = ZR_CMD_WHOLE, .at = AT(steps), .least = 1 },
	{ 0, "rate", "X", "a number", .kind = ZR_CMD_NUMBER, .at = AT(rate), .most = 1 },
	{ 0, "watchdog", "SECONDS", "a time", .kind = ZR_CMD_SECONDS, .at = AT(watchdog),
	  .most = 1e9 },
	{ 0, "memory", "BYTES", "bytes", .kind = ZR_CMD_BYTES, .at = AT(memory) },
	{ 0, "resume", "auto|PATH", "a text", .kind = ZR_CMD_TEXT, .at = AT(resume) },
	{ 0, "dtype", "fp32|bf16", "a choice", .kind = ZR_CMD_CHOICE, .at = AT(dtype),
	  .place = ZR_CMD_WITHIN },
	ZR_CMD_OPTION_SET(struct args, "options"),
	{ 0 },
};

static const struct zr_cmd_usage with_conf = {
	.command = "fuzz", .form = { { NULL, "CONF", NULL } }, .about = "", .option = options
};
static const struct zr_cmd_usage without = { .command = "fuzz", .about = "", .option = options };

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

static int configure(const struct args *a)
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
	struct args a = { 0 };
	struct zr_cmd_operands operands;
	fuzz_check(text);
	memcpy(text, data, size);
	text[size] = 0;
	int argc = split(text, argv);
	forget_arguments();
	if (argc) {
		const int is_without = strchr(argv[0], '!') != NULL;
		int rc = zr_cmd_parse(argc, argv, is_without ? &without : &with_conf, NULL, &a,
				      &operands);
		fuzz_check(rc == -1 || rc == 0 || rc == 2);
		fuzz_check(a.n_overrides >= 0 && a.n_overrides <= ZR_CMD_OVERRIDES);
		if (rc == -1)
			configure(&a);
	}
	free(text);
	return 0;
}
