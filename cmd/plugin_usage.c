/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_usage.c - what zeroth plugin and its verbs print as their help.
 */
#include "cmd/plugin.h"

const char zr_plugin_usage[] =
	"usage: zeroth plugin list [--json]\n"
	"       zeroth plugin info [--json] [ROLE/]ID|PATH\n"
	"       zeroth plugin check [--json] [--include PATTERN] [--exclude PATTERN]\n"
	"                           [--timeout S] [-o KEY=VALUE]... [ROLE/]ID|PATH\n"
	"       zeroth plugin new [--dir DIR] ROLE NAME\n"
	"\n"
	"list   shows every plugin that a configuration can name, and why one cannot be used\n"
	"info   shows the options of one: type, range, default, meaning\n"
	"check  tests one: its file, its options, its life and what its role demands, each test\n"
	"       in a process of its own. Prints TAP. Exit code 0: it passed; 1: a test failed;\n"
	"       2: it cannot be loaded; 4: this machine lacks what a test needs\n"
	"new    writes one to begin with: a source, a Makefile, an INI; of any role but\n"
	"       device\n"
	"\n"
	"      --json              machine-readable\n"
	"      --mdoc              info: as a part of zeroth.ini(5); without a name, core's\n"
	"                          sections\n"
	"      --include PATTERN   check: only tests whose names match, as \"step*\"\n"
	"      --exclude PATTERN   check: all tests but those\n"
	"      --timeout S         check: seconds that a test may take; default: 30\n"
	"      --tests             check: shows the tests\n"
	"  -o, --option KEY=VALUE  check: sets an option of the plugin\n"
	"      --dir DIR           new: where; default: NAME\n"
	"  -h, --help              shows this\n"
	"\n"
	"Plugins are ROLE/ID.so in the directories of ZEROTH_PLUGIN_PATH and the installed one.\n";
