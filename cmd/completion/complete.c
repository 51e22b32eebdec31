/* SPDX-License-Identifier: Apache-2.0
 *
 * complete.c - which candidates there are where the last word stands.
 */
#include <ctype.h>
#include <string.h>

#include "cmd/cmd.h"
#include "completion.h"

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

/* The words of "DIR [OUT]" or "RUN...", without brackets and dots. */
static void list_operands(const struct zr_candidates *c, const char *operands)
{
	char word[64];

	for (size_t n; operands && *operands; operands += n + strspn(operands + n, " ")) {
		n = strcspn(operands, " ");
		const int in_brackets = *operands == '[' && operands[n - 1] == ']';
		snprintf(word, sizeof word, "%.*s", (int)n - 2 * in_brackets,
			 operands + in_brackets);

		char *dots = strstr(word, "...");
		if (dots)
			*dots = 0;
		list_kinds(c, word);
	}
}

/* The option that a word is: "--ranks" or "-n". */
static const struct zr_cmd_option *find_option(const struct zr_cmd_usage *usage, const char *word)
{
	for (const struct zr_cmd_option *o = usage->option; o->name; o++) {
		const int is_letter = o->letter && word[0] == '-' && word[1] == o->letter &&
				      !word[2];
		if (is_letter || (!strncmp(word, "--", 2) && !strcmp(word + 2, o->name)))
			return o;
	}

	return NULL;
}

/* The text of an option, which stands with the last one of its row of the help. */
static const char *text_of(const struct zr_cmd_option *o)
{
	while (o->name && !o->help)
		o++;
	return o->help;
}

static void list_options(const struct zr_candidates *c, const struct zr_cmd_usage *usage,
			 const struct zr_cmd_form *form)
{
	const int letters = !strcmp(c->begin, "-");
	char word[40];

	for (const struct zr_cmd_option *o = usage->option; o->name; o++) {
		if (o->place == ZR_CMD_HIDDEN || !zr_cmd_takes(form, o))
			continue;

		snprintf(word, sizeof word, "--%s", o->name);
		zr_candidate(c, word, text_of(o));
		snprintf(word, sizeof word, "-%c", o->letter);
		if (letters && o->letter)
			zr_candidate(c, word, text_of(o));
	}

	zr_candidate(c, "--help", "shows this");
	if (letters)
		zr_candidate(c, "-h", "shows this");
}

/* The form of a usage that has this verb. */
static const struct zr_cmd_form *form_of(const struct zr_cmd_usage *usage, const char *verb)
{
	for (int i = 0; usage->form[i].verb; i++)
		if (!strcmp(usage->form[i].verb, verb))
			return &usage->form[i];
	return NULL;
}

/* What may follow a command, or a verb of it, whose words these are. */
static void in_form(const struct zr_candidates *c, const struct zr_cmd_usage *usage,
		    const struct zr_cmd_form *form, const char *const *words, int n)
{
	const struct zr_cmd_option *o = find_option(usage, words[n - 2]);
	if (o && o->argument && strstr(o->argument, "section.key"))
		zr_complete_option(c, words, n - 1);
	else if (o && o->argument)
		list_kinds(c, o->argument);
	else if (*c->begin == '-')
		list_options(c, usage, form);
	else
		list_operands(c, form->operands);
}

/* words[0] is the command. */
static void in_command(const struct zr_candidates *c, const char *const *words, int n)
{
	const struct zr_command *command = command_of(words[0]);
	if (!command)
		return;

	const struct zr_cmd_usage *usage = command->usage;
	const struct zr_cmd_form *form = &usage->form[0];
	if (form->verb && n == 2) {
		for (; form->verb; form++)
			zr_candidate(c, form->verb, NULL);
		return;
	}

	if (form->verb)
		form = form_of(usage, words[1]);
	if (form && form->own) {
		usage = form->own;
		form = &usage->form[0];
	}

	if (form)
		in_form(c, usage, form, words, n);
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
