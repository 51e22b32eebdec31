/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c - see cmd.h.
 */
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/config/options.h"
#include "train/run/outlet.h"
#include "train/run/supervise.h"

/* ---- options that several commands have -------------------------------------------- */

enum kind { HELP, OVERRIDE, FLAG, TEXT, COUNT, SECONDS, BYTES };

#define AT(field) offsetof(struct zr_cmd_args, field)

/* A command takes those that its usage names. */
static const struct known {
	const char *name;
	enum kind kind;
	size_t at;        /* of its value in struct zr_cmd_args: int, double, uint64_t, a text */
	const char *what; /* of a count: what is counted, for messages */
	char letter;      /* another name, which messages call it by; 0: none */
} options[] = {
	{ "help", HELP, 0, NULL, 'h' },
	{ "option", OVERRIDE, 0, NULL, 'o' },
	{ "ranks", COUNT, AT(ranks), "ranks", 'n' },
	{ "restarts", COUNT, AT(restarts), "restarts", 0 },
	{ "min-ranks", COUNT, AT(min_ranks), "ranks", 0 },
	{ "sequences", COUNT, AT(sequences), "sequences", 0 },
	{ "watchdog", SECONDS, AT(watchdog), NULL, 0 },
	{ "memory", BYTES, AT(memory), NULL, 0 },
	{ "device", BYTES, AT(device), NULL, 0 },
	{ "host", BYTES, AT(host), NULL, 0 },
	{ "disk", BYTES, AT(disk), NULL, 0 },
	{ "resume", TEXT, AT(resume), NULL, 0 },
	{ "rates", TEXT, AT(rates), NULL, 0 },
	{ "card", TEXT, AT(card), NULL, 0 },
	{ "scale", TEXT, AT(scale), NULL, 0 },
	{ "json", FLAG, AT(json), NULL, 0 },
	{ "program", FLAG, AT(program), NULL, 0 },
	{ "other-data", FLAG, AT(other_data), NULL, 0 },
	{ "verify", FLAG, AT(verify), NULL, 0 },
	{ "compare", FLAG, AT(compare), NULL, 0 },
	{ "no-compare", FLAG, AT(no_compare), NULL, 0 },
	{ "fit", FLAG, AT(fit), NULL, 0 },
};
enum { OPTIONS = sizeof options / sizeof *options, NO_LETTER = 256 };

/* What getopt_long(3) wants: its value of an option is the letter, or NO_LETTER and the index. */
static void tell_getopt(struct option longs[OPTIONS + 1], char letters[2 * OPTIONS + 1])
{
	char *letter = letters;
	for (int i = 0; i < OPTIONS; i++) {
		const struct known *o = &options[i];
		const int has_value = o->kind != HELP && o->kind != FLAG;
		longs[i] = (struct option){ o->name, has_value, NULL,
					    o->letter ? o->letter : NO_LETTER + i };
		if (o->letter)
			*letter++ = o->letter;
		if (o->letter && has_value)
			*letter++ = ':';
	}

	longs[OPTIONS] = (struct option){ NULL, 0, NULL, 0 };
	*letter = 0;
}

/* The option of what getopt_long(3) returned; NULL: it knows none. */
static const struct known *option_of(int c)
{
	if (c >= NO_LETTER)
		return &options[c - NO_LETTER];
	for (int i = 0; i < OPTIONS; i++)
		if (options[i].letter == c)
			return &options[i];
	return NULL;
}

/* Whether the usage text names an option. Others are refused. */
static int named(const char *usage, const char *argv0, const struct known *o)
{
	char text[32];
	snprintf(text, sizeof text, "--%s", o->name);
	if (strstr(usage, text))
		return 1;
	fprintf(stderr, "zeroth %s: %s is not an option here\n", argv0, text);
	return 0;
}

static int parse_count(const char *argv0, const char *option, const char *what, const char *text,
		       int *out)
{
	char *end;
	long n = strtol(text, &end, 10);
	if (!*text || *end || n < 1 || n > INT_MAX) {
		fprintf(stderr, "zeroth %s: %s %s: expected a number of %s, 1 or more\n", argv0,
			option, text, what);
		return -1;
	}
	*out = (int)n;
	return 0;
}

static int parse_seconds(const char *argv0, const char *option, const char *text, double *out)
{
	char *end;
	*out = strtod(text, &end);
	if (*text && !*end && *out > 0 && *out < 1e9)
		return 0;
	fprintf(stderr, "zeroth %s: %s %s: expected a number of seconds, more than 0\n", argv0,
		option, text);
	return -1;
}

static int parse_memory(const char *argv0, const char *option, const char *text, uint64_t *out)
{
	static const struct zr_opt o = {
		.name = "bytes", .type = ZR_T_BYTES, .min = 1, .max = ZR_HI
	};
	struct zr_error e = { 0 };
	if (!zr_number_parse(&o, text, out, &e))
		return 0;
	fprintf(stderr, "zeroth %s: %s %s: %s\n", argv0, option, text, e.text);
	return -1;
}

static int add_override(struct zr_cmd_args *out, const char *text)
{
	if (out->n_overrides == ZR_CMD_OVERRIDES)
		return -1;
	out->overrides[out->n_overrides++] = text;
	return 0;
}

/* Takes the value of an option; -1 after a line on what is wrong with it. */
static int take(const char *argv0, const struct known *o, const char *value,
		struct zr_cmd_args *out)
{
	void *at = (char *)out + o->at;
	char name[32];
	if (o->letter)
		snprintf(name, sizeof name, "-%c", o->letter);
	else
		snprintf(name, sizeof name, "--%s", o->name);

	switch (o->kind) {
	case OVERRIDE:
		return add_override(out, value);
	case FLAG:
		*(int *)at = 1;
		return 0;
	case TEXT:
		*(const char **)at = value;
		return 0;
	case COUNT:
		return parse_count(argv0, name, o->what, value, at);
	case SECONDS:
		return parse_seconds(argv0, name, value, at);
	case BYTES:
		return parse_memory(argv0, name, value, at);
	case HELP:
		break;
	}
	return -1;
}

/* ---- what comes behind them -------------------------------------------------------- */

int zr_cmd_check_ranks(const char *argv0, int ranks, int most)
{
	if (ranks <= most)
		return 0;
	fprintf(stderr, "zeroth %s: -n %d: expected a number of ranks in [1, %d]\n", argv0, ranks,
		most);
	return 2;
}

/* A configuration of another program where an INI is expected. */
static int is_foreign(const char *path)
{
	const char *dot = strrchr(path, '.');
	char text[256] = "";
	int fd = zr_file_open(AT_FDCWD, path, 1);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof text - 1) < 0)
		*text = 0;
	close(fd);
	if (text[strspn(text, " \t\r\n")] == '{')
		return 1;
	return dot && (!strcmp(dot, ".json") || !strcmp(dot, ".yml") || !strcmp(dot, ".yaml"));
}

/* A directory where an INI is expected: often that of a run, which has one. */
static int is_directory(const char *path)
{
	char ini[PATH_MAX];
	struct stat st;
	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return 0;

	fprintf(stderr, "zeroth: %s: Is a directory", path);
	int n = snprintf(ini, sizeof ini, "%s/config.ini", path);
	if (n < (int)sizeof ini && !access(ini, F_OK))
		fprintf(stderr, " of a run, whose configuration is %s\n", ini);
	else
		fputs("; name an INI file\n", stderr);
	return 1;
}

int zr_cmd_synopsis(const char *usage)
{
	const char *end = strstr(usage, "\n\n");
	const size_t n = end ? (size_t)(end - usage) : strlen(usage);
	fprintf(stderr, "%.*s\n--help says more\n", (int)n, usage);
	return 2;
}

int zr_cmd_parse(int argc, char **argv, const char *usage, const char *operand,
		 struct zr_cmd_args *out)
{
	struct option longs[OPTIONS + 1];
	char letters[2 * OPTIONS + 1];
	int c;
	*out = (struct zr_cmd_args){ 0 };
	tell_getopt(longs, letters);
	optind = 1;
	while ((c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct known *o = option_of(c);
		if (o && o->kind == HELP) {
			fputs(usage, stdout);
			return 0;
		}
		if (!o || (o->kind != OVERRIDE && !named(usage, argv[0], o)) ||
		    take(argv[0], o, optarg, out))
			return zr_cmd_synopsis(usage);
	}

	out->operand = argv[optind];
	if (operand && argc - optind == 1 && !strncmp(operand, "CONF", 4) &&
	    is_foreign(out->operand)) {
		fprintf(stderr,
			"zeroth: %s is no INI but a configuration of another program: "
			"zeroth config import %s -o imported.ini\n",
			out->operand, out->operand);
		return 2;
	}

	if (operand && argc - optind == 1 && !strcmp(operand, "CONF") && is_directory(out->operand))
		return 2;
	if (argc - optind == (operand ? 1 : 0))
		return -1;
	if (operand && optind == argc)
		fprintf(stderr, "zeroth %s: %s is missing\n", argv[0], operand);
	else
		fprintf(stderr, "zeroth %s: unexpected argument: %s\n", argv[0],
			argv[operand ? optind + 1 : optind]);
	return zr_cmd_synopsis(usage);
}

int zr_cmd_failed(const struct zr_error *err)
{
	zr_outlet_push();
	fprintf(stderr, "zeroth: %s\n", err->text);
	return zr_exit_code(err->code);
}

void zr_cmd_log(const struct zr_config *cfg)
{
	zr_log_level(((const struct zr_log_opts *)zr_config_find(cfg, "log")->opts)->level);
}
