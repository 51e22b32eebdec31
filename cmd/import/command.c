/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - zeroth config import FILE.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/import/import.h"
#include "core/base/json_text.h"
#include "train/rundir.h"

struct args {
	const char *output, *model, *data, *device;
	int json, force;
};

#define AT(member) offsetof(struct args, member)

static const struct zr_cmd_option options[] = {
	{ 'o', "output", "OUT.ini", "writes there instead of to standard output",
	  .kind = ZR_CMD_TEXT, .at = AT(output) },
	{ 'f', "force", NULL, "replaces OUT.ini if it is there", .kind = ZR_CMD_FLAG,
	  .at = AT(force) },
	{ 0, "model", "DIR", "[model] path: a directory of Hugging Face", .kind = ZR_CMD_TEXT,
	  .at = AT(model) },
	{ 0, "data", "FILE", "[data] path: tokens, or text (.txt, .gz), or conversations (.jsonl)",
	  .kind = ZR_CMD_TEXT, .at = AT(data) },
	{ 0, "device", "cpu|cuda", "[device] plugin; without it cuda if it can be loaded, else cpu",
	  .kind = ZR_CMD_TEXT, .at = AT(device) },
	{ 0, "json", NULL, "what became of each key, as JSON on standard output; with -o",
	  .kind = ZR_CMD_FLAG, .at = AT(json) },
	{ 0 },
};

const struct zr_cmd_usage zr_config_import_usage = {
	.command = "config import",
	.form = { { NULL, "FILE", NULL } },
	.about = "Writes a configuration of another program as an INI: DeepSpeed's JSON, the "
		 "training\n"
		 "arguments of Hugging Face's transformers as JSON, with the DeepSpeed file that "
		 "they "
		 "name,\n"
		 "or the YAML of Axolotl or accelerate. Each line says which key it comes from. "
		 "What is\n"
		 "mapped, what has no effect here and why, goes to standard error. A key that no "
		 "such\n"
		 "program has, or that asks for what is not here, is an error that names it, and "
		 "nothing\n"
		 "is written.\n",
	.option = options,
};

static int write_ini(const struct zr_import *im, const char *path, struct zr_error *err)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int bad = !out || zr_import_write(im, out), rc;

	bad |= out && fclose(out);
	if (bad || !text)
		rc = zr_no_memory(err);
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
	struct zr_cmd_operands operands;
	int bad = 0;

	int rc = zr_cmd_parse(argc, argv, &zr_config_import_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;
	if (a.json && !a.output)
		return zr_cmd_wrong(&zr_config_import_usage,
				    "--json needs -o: the INI would be on standard output, too");

	im.file = operands.at[0];
	im.model = a.model;
	im.data = a.data;
	im.device = a.device;
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
