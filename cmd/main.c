/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the program zeroth: finds the subcommand and calls it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/crash.h"
#include "cmd/fit.h"
#include "cmd/import/import.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

static const struct {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "train", "train a model", zr_cmd_train },
	{ "tokenize", "turn text into the tokens of a tokenizer.json", zr_cmd_tokenize },
	{ "eval", "measure how well a model predicts what is held out", zr_cmd_eval },
	{ "sample", "print text that a trained model continues", zr_cmd_sample },
	{ "plan", "show the memory that a training will take", zr_cmd_plan },
	{ "config", "check, show, compare or import configurations", zr_cmd_config },
	{ "data", "show what a training will learn from", zr_cmd_data },
	{ "plugin", "list plugins, or show the options of one", zr_cmd_plugin },
	{ "checkpoint", "list, verify, export or prune checkpoints", zr_cmd_checkpoint },
	{ "doctor", "show what this machine lacks for training, and what mends it", zr_cmd_doctor },
	{ "bench", "measure what this machine can do, for forecasts", zr_cmd_bench },
	{ "schedule", "print the learning rate of every step", zr_cmd_schedule },
};
#define N_COMMANDS (sizeof commands / sizeof *commands)

static void usage(FILE *out)
{
	fputs("usage: zeroth COMMAND [argument]...\n\n", out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(out, "  %-11s %s\n", commands[i].name, commands[i].summary);
	fputs("\n  -h, --help     shows this; `zeroth COMMAND --help` what COMMAND takes\n"
	      "  -V, --version  shows the version\n",
	      out);
}

/* A full disk or a closed pipe must not look like success. */
static int finish(int code)
{
	zr_crash_unwatch();
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	fprintf(stderr, "zeroth: standard output: %s\n", strerror(errno));
	return code ? code : 4;
}

static int unknown(const char *name)
{
	const char *names[N_COMMANDS], *near;
	for (size_t i = 0; i < N_COMMANDS; i++)
		names[i] = commands[i].name;
	near = zr_nearest(name, names, N_COMMANDS);
	fprintf(stderr, "zeroth: no command %s%s%s%s\n", name,
		near ? "; did you mean " : "; see zeroth --help", near ? near : "",
		near ? "?" : "");
	return 2;
}

int main(int argc, char **argv)
{
	zr_memory_at_start();
	zr_spelling = zr_import_spelling;
	if (argc < 2) {
		usage(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return finish(0);
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("zeroth %s (plugin ABI %d.%d, draft %d)\n", PACKAGE_VERSION, ZR_ABI_MAJOR,
		       ZR_ABI_MINOR, ZR_DRAFT_REVISION);
		return finish(0);
	}
	zr_crash_watch(NULL);
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(argv[1], commands[i].name))
			return finish(commands[i].run(argc - 1, argv + 1));
	return finish(unknown(argv[1]));
}
