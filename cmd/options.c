/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - see options.h.
 */
#include "cmd/options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/config/options.h"

#define OPTIONS_MOST 64
#define NO_LETTER    256 /* getopt's value of an option without a letter: this and its index */
#define IS_HELP      'h'

/* ---- messages ---------------------------------------------------------------------- */

int zr_cmd_refuse(const struct zr_cmd_usage *usage, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "zeroth %s: ", usage->command);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return 2;
}

int zr_cmd_wrong(const struct zr_cmd_usage *usage, const char *text)
{
	if (text)
		zr_cmd_refuse(usage, "%s", text);
	zr_cmd_print_usage(usage, stderr);
	fputs("--help says more\n", stderr);
	return 2;
}

/* ---- the value of an option -------------------------------------------------------- */

/* One option as it was given. */
struct given {
	const struct zr_cmd_usage *usage;
	const struct zr_cmd_option *option;
	char name[40]; /* as it was written: -n or --ranks */
	const char *value;
	void *to;
};

static int refuse_value(const struct given *g, const char *expected)
{
	return zr_cmd_refuse(g->usage, "%s %s: expected %s", g->name, g->value, expected);
}

static int refuse_number(const struct given *g)
{
	const struct zr_cmd_option *o = g->option;
	const char *what = o->counts ? o->counts : "a number";
	char text[160];

	if (o->kind == ZR_CMD_SECONDS)
		snprintf(text, sizeof text, "a number of seconds, more than 0");
	else if (o->most)
		snprintf(text, sizeof text, "%s in [%.15g, %.15g]", what, o->least, o->most);
	else
		snprintf(text, sizeof text, "%s, %.15g or more", what, o->least);
	return refuse_value(g, text);
}

static int take_whole(const struct given *g, int64_t most, int64_t *out)
{
	const struct zr_cmd_option *o = g->option;
	char *end;

	errno = 0;
	*out = strtoll(g->value, &end, 10);
	if (!*g->value || *end || errno)
		return refuse_number(g);

	if (o->most)
		most = (int64_t)o->most;
	if (*out < (int64_t)o->least || *out > most)
		return refuse_number(g);
	return 0;
}

static int take_int(const struct given *g)
{
	int64_t n;
	int code = take_whole(g, INT_MAX, &n);
	if (!code)
		*(int *)g->to = (int)n;
	return code;
}

static int take_number(const struct given *g)
{
	const struct zr_cmd_option *o = g->option;
	char *end;

	errno = 0;
	const double x = strtod(g->value, &end);
	if (!*g->value || *end || errno)
		return refuse_number(g);

	if (!(x >= o->least && x <= o->most) || (o->kind == ZR_CMD_SECONDS && x <= 0))
		return refuse_number(g);

	*(double *)g->to = x;
	return 0;
}

static int take_bytes(const struct given *g)
{
	static const struct zr_opt bytes = {
		.name = "bytes", .type = ZR_T_BYTES, .min = 1, .max = ZR_HI
	};
	struct zr_error err = { 0 };

	if (!zr_number_parse(&bytes, g->value, g->to, &err))
		return 0;
	return zr_cmd_refuse(g->usage, "%s %s: %s", g->name, g->value, err.text);
}

static int take_choice(const struct given *g)
{
	const size_t len = strlen(g->value);
	char list[160] = "";

	for (const char *word = g->option->argument; *word;) {
		const size_t n = strcspn(word, "|"), used = strlen(list);
		const int is_last = !word[n];
		if (n == len && !strncmp(word, g->value, n)) {
			*(const char **)g->to = g->value;
			return 0;
		}

		const char *before = is_last ? " or " : ", ";
		snprintf(list + used, sizeof list - used, "%s%.*s", used ? before : "", (int)n,
			 word);
		word += n + !is_last;
	}

	return refuse_value(g, list);
}

static int add_to_list(const struct given *g, void *base)
{
	int *n = (int *)(void *)((char *)base + g->option->count);
	if (*n == (int)g->option->most)
		return zr_cmd_refuse(g->usage, "%s: given more than %d times", g->name, *n);

	((const char **)g->to)[(*n)++] = g->value;
	return 0;
}

/* Returns 0, or the exit code after a line on what is wrong. */
static int take_value(struct given *g, void *base)
{
	g->to = (char *)base + g->option->at;
	switch (g->option->kind) {
	case ZR_CMD_FLAG:
		*(int *)g->to = 1;
		return 0;
	case ZR_CMD_TEXT:
		*(const char **)g->to = g->value;
		return 0;
	case ZR_CMD_CHOICE:
		return take_choice(g);
	case ZR_CMD_LIST:
		return add_to_list(g, base);
	case ZR_CMD_INT:
		return take_int(g);
	case ZR_CMD_WHOLE:
		return take_whole(g, INT64_MAX, g->to);
	case ZR_CMD_NUMBER:
	case ZR_CMD_SECONDS:
		return take_number(g);
	case ZR_CMD_BYTES:
		return take_bytes(g);
	}
	return 2;
}

/* ---- options ----------------------------------------------------------------------- */

/* What getopt_long(3) wants. Letters of options beside --help are in `letters`. */
static void tell_getopt(const struct zr_cmd_option *o, struct option longs[OPTIONS_MOST + 2],
			char letters[2 * OPTIONS_MOST + 2])
{
	int n = 0;

	for (; o[n].name && n < OPTIONS_MOST; n++) {
		longs[n] = (struct option){ o[n].name, o[n].argument != NULL, NULL, NO_LETTER + n };
		if (!o[n].letter)
			continue;

		*letters++ = o[n].letter;
		if (o[n].argument)
			*letters++ = ':';
	}

	*letters++ = IS_HELP;
	*letters = 0;
	longs[n] = (struct option){ "help", 0, NULL, IS_HELP };
	longs[n + 1] = (struct option){ NULL, 0, NULL, 0 };
}

/* The option that getopt_long(3) found. */
static void find_given(const struct zr_cmd_option *o, int c, struct given *g)
{
	if (c >= NO_LETTER) {
		g->option = &o[c - NO_LETTER];
		snprintf(g->name, sizeof g->name, "--%s", g->option->name);
		return;
	}

	while (o->letter != c)
		o++;
	g->option = o;
	snprintf(g->name, sizeof g->name, "-%c", c);
}

static int parse_options(int argc, char **argv, const struct zr_cmd_usage *usage,
			 const struct zr_cmd_form *form, void *to)
{
	struct option longs[OPTIONS_MOST + 2];
	char letters[2 * OPTIONS_MOST + 2];
	struct given g = { .usage = usage };
	int c, code;

	tell_getopt(usage->option, longs, letters);
	optind = 1;
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (c == IS_HELP) {
			zr_cmd_print_help(usage);
			return 0;
		}

		if (c == '?')
			return zr_cmd_wrong(usage, NULL);

		find_given(usage->option, c, &g);
		g.value = optarg;
		if (!zr_cmd_takes(form, g.option))
			return zr_cmd_refuse(usage, "%s is not for %s but for %s", g.name,
					     form->verb, g.option->verbs);
		code = take_value(&g, to);
		if (code)
			return code;
	}

	return -1;
}

/* Whether each option is there that the command cannot do without. */
static int check_required(const struct zr_cmd_usage *usage, const struct zr_cmd_form *form,
			  const void *base)
{
	char text[64];

	for (const struct zr_cmd_option *o = usage->option; o->name; o++) {
		const char *at = (const char *)base + o->at;
		if (o->place != ZR_CMD_REQUIRED || !zr_cmd_takes(form, o))
			continue;

		const int is_there = o->kind == ZR_CMD_WHOLE ?
					     *(const int64_t *)(const void *)at != 0 :
					     *(const char *const *)(const void *)at != NULL;
		if (!is_there) {
			snprintf(text, sizeof text, "--%s is missing", o->name);
			return zr_cmd_wrong(usage, text);
		}
	}

	return -1;
}

/* ---- operands ---------------------------------------------------------------------- */

/* Whether as many operands are there as a text such as "DIR [OUT]" or "RUN..." says. */
static int check_operands(const struct zr_cmd_usage *usage, const char *want,
			  const struct zr_cmd_operands *have)
{
	char text[PATH_MAX + 32];
	int n = 0;

	for (const char *word = want ? want : ""; *word; n++) {
		const size_t len = strcspn(word, " ");
		const int is_optional = *word == '[' && word[len - 1] == ']';
		const int repeats = len > 3 && !strncmp(word + len - 3, "...", 3);
		if (n >= have->n && !is_optional) {
			snprintf(text, sizeof text, "%.*s is missing", (int)len - 3 * repeats,
				 word);
			return zr_cmd_wrong(usage, text);
		}

		if (repeats)
			return -1;

		word += len + strspn(word + len, " ");
	}

	if (have->n <= n)
		return -1;

	snprintf(text, sizeof text, "unexpected argument: %s", have->at[n]);
	return zr_cmd_wrong(usage, text);
}

/* Looks at the only operand where a configuration, or a run as well, is expected. */
static int check_if_conf(const char *want, const char *operand)
{
	const char *name = want ? want + (*want == '[') : "";
	if (strncmp(name, "CONF", 4))
		return 0;
	return zr_cmd_check_conf(operand, name[4] != '|');
}

int zr_cmd_parse(int argc, char **argv, const struct zr_cmd_usage *usage,
		 const struct zr_cmd_form *form, void *to, struct zr_cmd_operands *operands)
{
	char name[64], *verb = argv[0];

	if (!form)
		form = &usage->form[0];

	snprintf(name, sizeof name, "zeroth %s", usage->command);
	argv[0] = name; /* for getopt's messages */
	int code = parse_options(argc, argv, usage, form, to);
	argv[0] = verb;
	if (code < 0)
		code = check_required(usage, form, to);
	if (code >= 0)
		return code;

	operands->at = argv + optind;
	operands->n = argc - optind;
	if (operands->n == 1)
		code = check_if_conf(form->operands, operands->at[0]);
	else
		code = 0;
	if (code)
		return code;
	return check_operands(usage, form->operands, operands);
}

/* ---- verbs ------------------------------------------------------------------------- */

/* "check, show or diff" */
static void list_verbs(const struct zr_cmd_usage *usage, char *text, size_t room)
{
	size_t used = 0;

	for (int i = 0; usage->form[i].verb && used < room; i++) {
		const char *before = usage->form[i + 1].verb ? ", " : " or ";
		used += (size_t)snprintf(text + used, room - used, "%s%s", i ? before : "",
					 usage->form[i].verb);
	}
}

const struct zr_cmd_form *zr_cmd_verb(int argc, char **argv, const struct zr_cmd_usage *usage,
				      int *code)
{
	const char *verb = argc > 1 ? argv[1] : "";
	char verbs[96] = "", text[PATH_MAX];

	if (!strcmp(verb, "-h") || !strcmp(verb, "--help")) {
		zr_cmd_print_help(usage);
		*code = 0;
		return NULL;
	}

	for (int i = 0; usage->form[i].verb; i++)
		if (!strcmp(usage->form[i].verb, verb))
			return &usage->form[i];

	list_verbs(usage, verbs, sizeof verbs);
	snprintf(text, sizeof text, "expected %s%s%s", verbs, *verb ? ", found " : "", verb);
	*code = zr_cmd_wrong(usage, text);
	return NULL;
}
