/* SPDX-License-Identifier: Apache-2.0
 *
 * complete.c - which candidates there are where the last word stands.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "completion.h"
#include "core/base/child.h"
#include "train/run/outlet.h"

#define HELP_MOST 16384

static const struct zr_command *commands;
static int n_commands;

void zr_complete_commands(const struct zr_command *list, int n)
{
	commands = list;
	n_commands = n;
}

static const struct zr_command *command_of(const char *name)
{
	for (int i = 0; i < n_commands; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* What `zeroth COMMAND --help` prints. */
static void help_of(const struct zr_command *c, char *out)
{
	int fd[2], n = 0, status;
	*out = 0;
	if (pipe2(fd, O_CLOEXEC))
		return;

	zr_outlet_push();
	pid_t child = fork();
	if (!child) {
		char name[32], help[] = "--help", *argv[] = { name, help, NULL };
		snprintf(name, sizeof name, "%s", c->name);
		dup2(fd[1], 1);
		c->run(2, argv);
		fflush(stdout);
		_exit(0);
	}

	close(fd[1]);
	for (ssize_t got; n < HELP_MOST - 1; n += (int)got)
		if ((got = read(fd[0], out + n, (size_t)(HELP_MOST - 1 - n))) <= 0)
			break;
	out[n] = 0;
	close(fd[0]);
	if (child > 0)
		zr_child_wait(child, &status);
}

static void list_kind(const struct zr_candidates *c, const char *kind)
{
	if (!strcmp(kind, "CONF") || strstr(kind, ".ini"))
		zr_complete_files(c, ZR_FILES_INI, c->begin, "");
	else if (strstr(kind, "ID"))
		zr_complete_plugins(c, NULL, "");
	else if (!strcmp(kind, "RUN"))
		zr_complete_files(c, ZR_FILES_RUNS, c->begin, "");
	else if (strstr(kind, "DIR") || !strcmp(kind, "MODEL") || !strcmp(kind, "ADAPTER") ||
		 !strcmp(kind, "OUT"))
		zr_complete_files(c, ZR_FILES_DIRS, c->begin, "");
	else if (strstr(kind, "FILE") || !strcmp(kind, "PATH") || !strcmp(kind, "IN"))
		zr_complete_files(c, ZR_FILES_ANY, c->begin, "");
}

/* "auto|PATH": words as they are, and what a name in capitals stands for. */
static void list_kinds(const struct zr_candidates *c, const char *kinds)
{
	char part[48];
	for (size_t n; *kinds; kinds += n + (kinds[n] == '|')) {
		n = strcspn(kinds, "|");
		snprintf(part, sizeof part, "%.*s", (int)n, kinds);
		if (islower((unsigned char)*part) || isdigit((unsigned char)*part))
			zr_candidate(c, part, NULL);
		else
			list_kind(c, part);
	}
}

static const struct zr_help_option *find(const struct zr_help *h, const char *name)
{
	for (int i = 0; i < h->n_options; i++)
		if (!strcmp(h->option[i].name, name))
			return &h->option[i];
	return NULL;
}

static void list_options(const struct zr_candidates *c, const struct zr_help *h)
{
	for (int i = 0; i < h->n_options; i++)
		if (!strncmp(h->option[i].name, "--", 2))
			zr_candidate(c, h->option[i].name, h->option[i].doc);
	for (int i = 0; i < h->n_options && !strcmp(c->begin, "-"); i++)
		if (h->option[i].name[1] != '-')
			zr_candidate(c, h->option[i].name, h->option[i].doc);
}

/* words[0] is the command. */
static void in_command(const struct zr_candidates *c, const char *const *words, int n)
{
	static char text[HELP_MOST];
	static struct zr_help h;
	const struct zr_command *command = command_of(words[0]);
	if (!command)
		return;

	help_of(command, text);
	zr_help_read(text, words[0], "", &h);
	const int verbs = h.n_verbs;
	if (verbs && n == 2) {
		for (int i = 0; i < verbs; i++)
			zr_candidate(c, h.verb[i], NULL);
		return;
	}
	if (verbs)
		zr_help_read(text, words[0], words[1], &h);
	const struct zr_help_option *o = n > 2 ? find(&h, words[n - 2]) : NULL;
	if (o && *o->value && strstr(o->value, "section.key"))
		zr_complete_option(c, words, n - 1);
	else if (o && *o->value)
		list_kinds(c, o->value);
	else if (*c->begin == '-')
		list_options(c, &h);
	else
		for (int i = 0; i < h.n_operands; i++)
			list_kinds(c, h.operand[i]);
}

void zr_complete_words(const char *const *words, int n, FILE *out)
{
	const struct zr_candidates c = { n ? words[n - 1] : "", out };
	if (n > 1) {
		in_command(&c, words, n);
		return;
	}
	for (int i = 0; i < n_commands; i++)
		zr_candidate(&c, commands[i].name, commands[i].summary);
	if (*c.begin == '-') {
		zr_candidate(&c, "--help", "shows the commands");
		zr_candidate(&c, "--version", "shows the version");
	}
}
