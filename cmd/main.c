/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c - the program zeroth: finds the subcommand and calls it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/completion/completion.h"
#include "cmd/import/import.h"
#include "files/checkpoint/checkpoint.h"
#include "train/fit.h"
#include "train/run/crash.h"
#include "train/run/outlet.h"
#include "train/run/signals.h"
#include "train/weights/former.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

#define STACK_LEAST (512 << 10) /* bytes: more than twice what the plugins here take */

static void usage(FILE *out)
{
	fputs("usage: zeroth COMMAND [argument]...\n\n", out);
	for (int i = 0; i < zr_n_commands; i++)
		fprintf(out, "  %-11s %s\n", zr_commands[i].name, zr_commands[i].summary);
	fputs("\n  -h, --help     shows this; `zeroth COMMAND --help` what COMMAND takes\n"
	      "  -V, --version  shows the version\n",
	      out);
}

/* A full disk or a closed pipe must not look like success. */
static int finish(int code)
{
	zr_crash_unwatch();
	const char *why = zr_outlet_flush();
	if (!why)
		return code;

	fprintf(stderr, "zeroth: standard output: %s\n", why);
	return code > 1 ? code : 4; /* 1: what was found, which is lost */
}

static int unknown(const char *name)
{
	const char *names[ZR_COMMANDS], *near;

	for (int i = 0; i < zr_n_commands; i++)
		names[i] = zr_commands[i].name;
	near = zr_nearest(name, names, zr_n_commands);
	fprintf(stderr, "zeroth: no command %s%s%s%s\n", name,
		near ? "; did you mean " : "; see zeroth --help", near ? near : "",
		near ? "?" : "");
	return 2;
}

/* A file that took the number of a closed standard one would get what is printed. What is opened in
 * its place here can neither be read as input nor written as output, as before. */
static void fill_closed_files(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* A smaller stack may end in a crash that names a plugin. */
static int has_stack(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_STACK, &lim) || lim.rlim_cur >= STACK_LEAST)
		return 1;

	fprintf(stderr,
		"zeroth: the stack is limited to %llu KiB, and %d are needed: raise "
		"ulimit -s\n",
		(unsigned long long)lim.rlim_cur >> 10, STACK_LEAST >> 10);
	return 0;
}

int main(int argc, char **argv)
{
	fill_closed_files();
	zr_signals_start();
	if (!has_stack())
		return 4;

	zr_memory_at_start();
	zr_spelling = zr_import_spelling;
	zr_renamed_settings = zr_former_settings;
	zr_complete_commands(zr_commands, zr_n_commands);
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
	for (int i = 0; i < zr_n_commands; i++)
		if (!strcmp(argv[1], zr_commands[i].name))
			return finish(zr_commands[i].run(argc - 1, argv + 1));
	return finish(unknown(argv[1]));
}
