/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_usage.c - the verbs of zeroth plugin and their options.
 */
#include "cmd/cmd.h"
#include "cmd/plugin.h"

#define AT(member) offsetof(struct zr_plugin_args, member)

static const struct zr_cmd_option options[] = {
	{ 0, "json", NULL, "machine-readable", .kind = ZR_CMD_FLAG, .at = AT(json),
	  .verbs = "list info check" },
	{ 0, "mdoc", NULL, "info: as a part of zeroth.ini(5); without a name, core's sections",
	  .kind = ZR_CMD_FLAG, .at = AT(mdoc), .verbs = "info" },
	{ 0, "include", "PATTERN", "check: only tests whose names match, as \"step*\"",
	  .kind = ZR_CMD_LIST, .at = AT(include), .most = ZR_PLUGIN_PATTERNS,
	  .count = AT(n_include), .verbs = "check" },
	{ 0, "exclude", "PATTERN", "check: all tests but those", .kind = ZR_CMD_LIST,
	  .at = AT(exclude), .most = ZR_PLUGIN_PATTERNS, .count = AT(n_exclude), .verbs = "check" },
	{ 0, "timeout", "S", "check: seconds that a test may take; default: 30",
	  .kind = ZR_CMD_SECONDS, .at = AT(timeout), .most = 1e6, .verbs = "check" },
	{ 0, "tests", NULL, "check: shows the tests", .kind = ZR_CMD_FLAG, .at = AT(list_tests),
	  .verbs = "check" },
	{ 'o', "option", "KEY=VALUE", "check: sets an option of the plugin", .kind = ZR_CMD_LIST,
	  .at = AT(given), .most = ZR_PLUGIN_PATTERNS, .count = AT(n_given), .verbs = "check" },
	{ 0, "dir", "DIR", "new: where; default: NAME", .kind = ZR_CMD_TEXT, .at = AT(dir),
	  .verbs = "new" },
	{ 0 },
};

const struct zr_cmd_usage zr_plugin_usage = {
	.command = "plugin",
	.form = { { "list", NULL, NULL },
		  { "info", "[[ROLE/]ID|PATH]", NULL },
		  { "check", "[[ROLE/]ID|PATH]", NULL },
		  { "new", "ROLE NAME", NULL } },
	.about =
		"list   shows every plugin that a configuration can name, and why one cannot be "
		"used\n"
		"info   shows the options of one: type, range, default, meaning\n"
		"check  tests one: its file, its options, its life and what its role demands, each "
		"test\n"
		"       in a process of its own. Prints TAP. Exit code 0: it passed; 1: a test "
		"failed;\n"
		"       2: it cannot be loaded; 4: this machine lacks what a test needs\n"
		"new    writes one to begin with: a source, a Makefile, an INI; of any role but\n"
		"       device\n",
	.option = options,
	.more = "Plugins are ROLE/ID.so in the directories of ZEROTH_PLUGIN_PATH and the installed "
		"one.\n",
};
