/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - zeroth config check|show CONF; `diff` is in config_diff.c, `import` in cmd/import/.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/setup.h"
#include "train/adapter.h"
#include "train/run/trace.h"

static const struct zr_cmd_option options[] = {
	ZR_CMD_OPTION_SET(struct zr_cmd_args, "sets an option over CONF; the last of several wins"),
	{ 0, "json", NULL, "machine-readable: {section: {key: {value, source}}}",
	  .kind = ZR_CMD_FLAG, .at = offsetof(struct zr_cmd_args, json), .verbs = "show" },
	{ 0 },
};

const struct zr_cmd_usage zr_config_usage = {
	.command = "config",
	.form = { { "check", "CONF", NULL },
		  { "show", "CONF", NULL },
		  { "diff", NULL, &zr_config_diff_usage },
		  { "import", NULL, &zr_config_import_usage } },
	.about =
		"check  reads CONF as `zeroth train` would, with the data and the model it names,\n"
		"       and prints what it is, or the first error\n"
		"show   prints every value, `auto` resolved, and where it comes from; what it\n"
		"       prints is a configuration that loads to the same values\n"
		"diff   prints what differs between two configurations, or runs\n"
		"import writes DeepSpeed's JSON and others as an INI: see `zeroth config import "
		"--help`\n",
	.option = options,
};

static void print_ok(const struct zr_config *cfg)
{
	printf("%s: ok:", zr_config_path(cfg));
	for (int i = 0; i < zr_config_count(cfg); i++) {
		const struct zr_section *s = zr_config_at(cfg, i);
		if (s->plugin)
			printf(" %s=%s", s->name, s->plugin->desc->id);
	}

	putchar('\n');
}

int zr_cmd_config(int argc, char **argv)
{
	struct zr_cmd_args a = { 0 };
	struct zr_cmd_operands operands;
	struct zr_config *cfg = NULL;
	struct zr_setup *s = NULL;
	struct zr_error err = { 0 };
	int rc;

	const struct zr_cmd_form *form = zr_cmd_verb(argc, argv, &zr_config_usage, &rc);
	if (!form)
		return rc;
	if (!strcmp(form->verb, "import"))
		return zr_cmd_config_import(argc - 1, argv + 1);
	if (!strcmp(form->verb, "diff"))
		return zr_cmd_config_diff(argc - 1, argv + 1);

	rc = zr_cmd_parse(argc - 1, argv + 1, &zr_config_usage, form, &a, &operands);
	if (rc >= 0)
		return rc;

	rc = zr_config_load(operands.at[0], a.overrides, a.n_overrides, &cfg, &err);
	if (!rc)
		rc = zr_trace_check(cfg, &err);
	if (!rc)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, ZR_SETUP_ALONE, 1, &s, &err);
	if (!rc)
		rc = zr_adapter_settle(s, &err);
	if (!rc && !strcmp(form->verb, "check"))
		print_ok(cfg);
	else if (!rc && (a.json ? zr_cmd_config_json(cfg) : zr_config_write_ini(cfg, stdout, 1)))
		rc = zr_err(&err, ZR_EIO, "standard output: cannot write the configuration: %s",
			    strerror(errno));
	zr_setup_close(s);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
