/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - zeroth config import FILE.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/import/import.h"
#include "core/base/json_text.h"
#include "train/rundir.h"

static const char usage[] =
	"usage: zeroth config import [-o OUT.ini] [--force] [--model DIR] [--data FILE]\n"
	"                            [--device cpu|cuda] [--json] FILE\n"
	"\n"
	"Writes a configuration of another program as an INI: DeepSpeed's JSON, the training\n"
	"arguments of Hugging Face's transformers as JSON, with the DeepSpeed file that they "
	"name,\n"
	"or the YAML of Axolotl or accelerate. Each line says which key it comes from. What is\n"
	"mapped, what has no effect here and why, goes to standard error. A key that no such\n"
	"program has, or that asks for what is not here, is an error that names it, and nothing\n"
	"is written.\n"
	"\n"
	"  -o, --output OUT.ini  writes there instead of to standard output\n"
	"  -f, --force           replaces OUT.ini if it is there\n"
	"      --model DIR       [model] path: a directory of Hugging Face\n"
	"      --data FILE       [data] path: tokens, or text (.txt, .gz), or conversations "
	"(.jsonl)\n"
	"      --device cpu|cuda [device] plugin; without it cuda if it can be loaded, else cpu\n"
	"      --json            what became of each key, as JSON on standard output; with -o\n"
	"  -h, --help            shows this\n";

struct args {
	const char *output;
	int json, force;
};

/* -1: go on. */
static int parse(int argc, char **argv, struct args *a, struct zr_import *im)
{
	static const struct option longs[] = {
		{ "output", 1, NULL, 'o' }, { "model", 1, NULL, 'm' }, { "data", 1, NULL, 'd' },
		{ "force", 0, NULL, 'f' },  { "json", 0, NULL, 'j' },  { "device", 1, NULL, 'D' },
		{ "help", 0, NULL, 'h' },   { NULL, 0, NULL, 0 }
	};
	int c;
	optind = 1;
	while ((c = getopt_long(argc, argv, "o:fh", longs, NULL)) != -1) {
		if (c == 'o')
			a->output = optarg;
		else if (c == 'f')
			a->force = 1;
		else if (c == 'm')
			im->model = optarg;
		else if (c == 'd')
			im->data = optarg;
		else if (c == 'D')
			im->device = optarg;
		else if (c == 'j')
			a->json = 1;
		else
			return c == 'h' ? fputs(usage, stdout) < 0 : zr_cmd_synopsis(usage);
	}

	im->file = argv[optind];
	if (argc - optind == 1 && (!a->json || a->output))
		return -1;

	fprintf(stderr, "zeroth config import: %s\n",
		argc == optind    ? "FILE is missing" :
		argc - optind > 1 ? "one FILE at a time" :
				    "--json needs -o: the INI would be on standard output, too");
	return zr_cmd_synopsis(usage);
}

static int write_ini(const struct zr_import *im, const char *path, struct zr_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int bad = !out || zr_import_write(im, out), rc;
	bad |= out && fclose(out);
	if (bad || !text)
		rc = zr_err(err, ZR_ENOMEM, "out of memory");
	else if (path)
		rc = zr_put_text(path, text, err);
	else
		rc = fputs(text, stdout) < 0 ?
			     zr_err(err, ZR_EIO, "standard output: %s", strerror(errno)) :
			     0;
	free(text);
	return rc;
}

int zr_cmd_config_import(int argc, char **argv)
{
	struct zr_import im = { 0 };
	struct args a = { 0 };
	struct zr_error err = { 0 };
	int rc = parse(argc, argv, &a, &im), bad = 0;
	if (rc >= 0)
		return rc;

	rc = a.output ? zr_keep_file(a.output, a.force, &err) : 0;
	if (!rc)
		rc = zr_import_run(&im, &err);
	if (!rc)
		bad = zr_import_count(&im, ZR_FATE_REFUSED) + zr_import_count(&im, ZR_FATE_UNKNOWN);
	if (bad) { /* all that stands in the way, not only the first */
		zr_import_list(&im, ZR_FATE_UNKNOWN, "zeroth: ", stderr);
		zr_import_list(&im, ZR_FATE_REFUSED, "zeroth: ", stderr);
	}
	if (!rc && !bad)
		rc = write_ini(&im, a.output, &err);
	if (!rc && a.json)
		rc = zr_json_print(zr_import_json(&im), JSON_INDENT(2), "the report", &err);
	if (!rc && !bad && !a.json)
		zr_import_report(&im, stderr);
	if (rc)
		rc = zr_cmd_failed(&err);
	else if (bad)
		rc = 2;
	zr_import_free(&im);
	return rc;
}
