/* SPDX-License-Identifier: Apache-2.0
 *
 * help.c - what --help prints of a command, made of its table of options.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/options.h"

#define USAGE_WIDTH 80
#define HELP_WIDTH  100
#define NAMES_MOST  32 /* columns of names beside which a help text stands */
#define NAMES_AT    6  /* where long names begin, behind "  -n, " */
#define GROUP_ROOM  256

int zr_cmd_takes(const struct zr_cmd_form *form, const struct zr_cmd_option *o)
{
	if (!o->verbs || !form->verb)
		return 1;

	const size_t len = strlen(form->verb);
	const char *at = strstr(o->verbs, form->verb);
	if (!at || (at > o->verbs && at[-1] != ' '))
		return 0;
	return at[len] == ' ' || !at[len];
}

/* ---- usage -------------------------------------------------------------------------- */

/* Words of a usage, which go on below the first operand or option where a line is full. */
struct line {
	FILE *out;
	int indent, at;
};

static void put_word(struct line *l, const char *word)
{
	const int width = (int)strlen(word);
	if (l->at > l->indent && l->at + 1 + width > USAGE_WIDTH) {
		fprintf(l->out, "\n%*s", l->indent, "");
		l->at = l->indent;
	}

	l->at += fprintf(l->out, " %s", word);
}

/* "-n RANKS", "--json" */
static void name_option(const struct zr_cmd_option *o, char *text, size_t room)
{
	const char *blank = o->argument ? " " : "", *argument = o->argument ? o->argument : "";
	if (o->letter)
		snprintf(text, room, "-%c%s%s", o->letter, blank, argument);
	else
		snprintf(text, room, "--%s%s%s", o->name, blank, argument);
}

static void append(char text[GROUP_ROOM], const char *before, const char *name)
{
	const size_t used = strlen(text);
	snprintf(text + used, GROUP_ROOM - used, "%s%s", before, name);
}

static int is_joined(const struct zr_cmd_option *o)
{
	return o->place == ZR_CMD_WITHIN || o->place == ZR_CMD_OR;
}

/* The option and those in its brackets. Returns the option behind them. */
static const struct zr_cmd_option *put_group(struct line *l, const struct zr_cmd_form *form,
					     const struct zr_cmd_option *o)
{
	const struct zr_cmd_option *first = o;
	const char *opening = first->place == ZR_CMD_REQUIRED ? "" : "[";
	char text[GROUP_ROOM] = "", name[96];

	name_option(first, name, sizeof name);
	append(text, opening, name);
	for (o++; o->name && is_joined(o); o++) {
		if (!zr_cmd_takes(form, o))
			continue;

		const int within = o->place == ZR_CMD_WITHIN;
		name_option(o, name, sizeof name);
		append(text, within ? " [" : " | ", name);
		if (within)
			append(text, "]", o->kind == ZR_CMD_LIST ? "..." : "");
	}

	if (*opening)
		append(text, "]", first->kind == ZR_CMD_LIST ? "..." : "");
	put_word(l, text);
	return o;
}

static void put_options(struct line *l, const struct zr_cmd_usage *usage,
			const struct zr_cmd_form *form)
{
	for (const struct zr_cmd_option *o = usage->option; o->name;) {
		const int is_left_out = usage->is_long && o->place != ZR_CMD_REQUIRED;
		if (o->place == ZR_CMD_HIDDEN || is_left_out || !zr_cmd_takes(form, o))
			o++;
		else
			o = put_group(l, form, o);
	}

	if (usage->is_long)
		put_word(l, "[options]");
}

static void print_form(FILE *out, const char *start, const struct zr_cmd_usage *usage,
		       const struct zr_cmd_form *form)
{
	struct line l = { .out = out };

	l.at = fprintf(out, "%s zeroth %s", start, usage->command);
	if (form->verb && !form->own)
		l.at += fprintf(out, " %s", form->verb);
	l.indent = l.at;

	if (form->own)
		put_options(&l, form->own, &form->own->form[0]);
	else
		put_options(&l, usage, form);
	if (form->operands)
		put_word(&l, form->operands);
	fputc('\n', out);
}

void zr_cmd_print_usage(const struct zr_cmd_usage *usage, FILE *out)
{
	for (int i = 0; i == 0 || usage->form[i].verb; i++) {
		const struct zr_cmd_form *form = &usage->form[i];
		const char *start = i ? "      " : "usage:";
		if (form->own) /* whose name has the verb */
			print_form(out, start, form->own, &form->own->form[0]);
		else
			print_form(out, start, usage, form);
	}
}

/* ---- options ------------------------------------------------------------------------ */

/* "  -n, --ranks RANKS" */
static int print_names(const struct zr_cmd_option *o, FILE *out)
{
	int n = 0;

	if (o->letter)
		n += fprintf(out, "-%c, ", o->letter);
	n += fprintf(out, "--%s", o->name);
	if (o->argument)
		n += fprintf(out, " %s", o->argument);
	return n;
}

/* Columns of the names in a row of the help. */
static int names_width(const struct zr_cmd_option *o)
{
	int n = NAMES_AT + 2 + (int)strlen(o->name);
	if (o->argument)
		n += 1 + (int)strlen(o->argument);
	return n;
}

/* The column of the texts: behind the widest names that are not too wide. */
static int text_column(const struct zr_cmd_option *o)
{
	int widest = names_width(&(struct zr_cmd_option){ .name = "help" });

	for (; o->name; o++) {
		const int width = names_width(o);
		if (o->place != ZR_CMD_HIDDEN && width > widest && width <= NAMES_MOST)
			widest = width;
	}

	return widest + 2;
}

/* A text from column `at`, in which the cursor stands. */
static void print_text(const char *text, int at, FILE *out)
{
	int used = at;

	while (*text) {
		const int width = (int)strcspn(text, " ");
		if (used > at && used + 1 + width > HELP_WIDTH) {
			fprintf(out, "\n%*s", at, "");
			used = at;
		}

		used += fprintf(out, "%s%.*s", used > at ? " " : "", width, text);
		text += width + (text[width] == ' ');
	}

	fputc('\n', out);
}

/* A row of the help: options up to the first one that has a text. Returns the option behind. */
static const struct zr_cmd_option *print_row(const struct zr_cmd_option *o, int column, FILE *out)
{
	int at = o->letter ? 2 : NAMES_AT;

	fprintf(out, "%*s", at, "");
	for (;; o++) {
		at += print_names(o, out);
		if (o->help)
			break;

		fputc(',', out);
		at += 2;
		if (at + names_width(o + 1) - NAMES_AT > HELP_WIDTH) {
			fprintf(out, "\n%*s", NAMES_AT, "");
			at = NAMES_AT;
		} else {
			fputc(' ', out);
		}
	}

	if (at + 2 > column) {
		fputc('\n', out);
		at = 0;
	}

	fprintf(out, "%*s", column - at, "");
	print_text(o->help, column, out);
	return o + 1;
}

void zr_cmd_print_help(const struct zr_cmd_usage *usage)
{
	static const struct zr_cmd_option help = { .letter = 'h',
						   .name = "help",
						   .help = "shows this" };
	const int column = text_column(usage->option);

	zr_cmd_print_usage(usage, stdout);
	printf("\n%s\n", usage->about);
	for (const struct zr_cmd_option *o = usage->option; o->name;) {
		if (o->place == ZR_CMD_HIDDEN)
			o++;
		else
			o = print_row(o, column, stdout);
	}

	print_row(&help, column, stdout);
	if (usage->more)
		printf("\n%s", usage->more);
}
