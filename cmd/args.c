/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c - see cmd.h.
 */
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
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

/* Whether the usage text names an option. Others are refused. */
static int named(const char *usage, const char *argv0, const char *option)
{
	if (strstr(usage, option))
		return 1;
	fprintf(stderr, "zeroth %s: %s is not an option here\n", argv0, option);
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
	static const struct option longs[] = {
		{ "option", 1, NULL, 'o' },    { "json", 0, NULL, 'j' },
		{ "ranks", 1, NULL, 'n' },     { "program", 0, NULL, 'p' },
		{ "help", 0, NULL, 'h' },      { "memory", 1, NULL, 'm' },
		{ "resume", 1, NULL, 'r' },    { "restarts", 1, NULL, 'R' },
		{ "min-ranks", 1, NULL, 'M' }, { "watchdog", 1, NULL, 'W' },
		{ "other-data", 0, NULL, 'D' }, { "sequences", 1, NULL, 'S' },
		{ "verify", 0, NULL, 'V' },
		{ "device", 1, NULL, '1' },    { "host", 1, NULL, '2' },
		{ "disk", 1, NULL, '3' },      { "rates", 1, NULL, '4' },
		{ "card", 1, NULL, '5' },      { "scale", 1, NULL, '6' },
		{ "no-compare", 0, NULL, '7' }, { "fit", 0, NULL, '8' },
		{ "compare", 0, NULL, '9' },
		{ NULL, 0, NULL, 0 }
	};
	int c;
	*out = (struct zr_cmd_args){ 0 };
	optind = 1;
	while ((c = getopt_long(argc, argv, "o:n:h", longs, NULL)) != -1) {
		if (c == 'o' && out->n_overrides < ZR_CMD_OVERRIDES) {
			out->overrides[out->n_overrides++] = optarg;
		} else if (c == 'j' && named(usage, argv[0], "--json")) {
			out->json = 1;
		} else if (c == 'p' && named(usage, argv[0], "--program")) {
			out->program = 1;
		} else if (c == 'n' && named(usage, argv[0], "--ranks") &&
			   !parse_count(argv[0], "-n", "ranks", optarg, &out->ranks)) {
			continue;
		} else if (c == 'R' && named(usage, argv[0], "--restarts") &&
			   !parse_count(argv[0], "--restarts", "restarts", optarg,
					&out->restarts)) {
			continue;
		} else if (c == 'M' && named(usage, argv[0], "--min-ranks") &&
			   !parse_count(argv[0], "--min-ranks", "ranks", optarg, &out->min_ranks)) {
			continue;
		} else if (c == 'S' && named(usage, argv[0], "--sequences") &&
			   !parse_count(argv[0], "--sequences", "sequences", optarg,
					&out->sequences)) {
			continue;
		} else if (c == 'W' && named(usage, argv[0], "--watchdog") &&
			   !parse_seconds(argv[0], "--watchdog", optarg, &out->watchdog)) {
			continue;
		} else if (c == 'r' && named(usage, argv[0], "--resume")) {
			out->resume = optarg;
		} else if (c == 'D' && named(usage, argv[0], "--other-data")) {
			out->other_data = 1;
		} else if (c == 'V' && named(usage, argv[0], "--verify")) {
			out->verify = 1;
		} else if (c == 'm' && named(usage, argv[0], "--memory") &&
			   !parse_memory(argv[0], "--memory", optarg, &out->memory)) {
			continue;
		} else if (c == '1' && named(usage, argv[0], "--device") &&
			   !parse_memory(argv[0], "--device", optarg, &out->device)) {
			continue;
		} else if (c == '2' && named(usage, argv[0], "--host") &&
			   !parse_memory(argv[0], "--host", optarg, &out->host)) {
			continue;
		} else if (c == '3' && named(usage, argv[0], "--disk") &&
			   !parse_memory(argv[0], "--disk", optarg, &out->disk)) {
			continue;
		} else if (c == '4' && named(usage, argv[0], "--rates")) {
			out->rates = optarg;
		} else if (c == '5' && named(usage, argv[0], "--card")) {
			out->card = optarg;
		} else if (c == '6' && named(usage, argv[0], "--scale")) {
			out->scale = optarg;
		} else if (c == '7' && named(usage, argv[0], "--no-compare")) {
			out->no_compare = 1;
		} else if (c == '9' && named(usage, argv[0], "--compare")) {
			out->compare = 1;
		} else if (c == '8' && named(usage, argv[0], "--fit")) {
			out->fit = 1;
		} else if (c == 'h') {
			fputs(usage, stdout);
			return 0;
		} else {
			return zr_cmd_synopsis(usage);
		}
	}
	out->operand = argv[optind];
	if (operand && argc - optind == 1 && !strncmp(operand, "CONF", 4) &&
	    is_foreign(out->operand)) {
		fprintf(stderr, "zeroth: %s is no INI but a configuration of another program: "
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
