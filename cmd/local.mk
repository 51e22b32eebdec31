# SPDX-License-Identifier: Apache-2.0
#
# cmd: the program `zeroth`, one file per subcommand. librun.la: a whole run with its output.

noinst_LTLIBRARIES += cmd/librun.la
cmd_librun_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
cmd_librun_la_LIBADD = train/libtrain.la files/tokenizer/libtokenizer.la $(JANSSON_LIBS) $(XXHASH_LIBS)
cmd_librun_la_SOURCES = \
	cmd/alike.c cmd/alike.h \
	cmd/base.c cmd/base.h \
	cmd/base_check.c cmd/base_check.h \
	cmd/beat.c cmd/beat.h \
	cmd/breakdown.c cmd/breakdown.h \
	cmd/config_ini.c cmd/config_ini.h \
	cmd/crash.c cmd/crash.h \
	cmd/declare.c cmd/declare.h \
	cmd/export.c cmd/export.h cmd/export_checkpoint.c cmd/export_files.c \
	cmd/inputs.c cmd/inputs.h \
	cmd/json_text.c cmd/json_text.h \
	cmd/former.c cmd/former.h \
	cmd/merge.c cmd/merge.h \
	cmd/pace.c cmd/pace.h \
	cmd/plan_json.c cmd/plan_json.h \
	cmd/probe.c cmd/probe.h \
	cmd/progress.c cmd/progress.h \
	cmd/rates.c cmd/rates.h \
	cmd/run.c cmd/run.h \
	cmd/run_metrics.c cmd/run_metrics.h \
	cmd/oom.c cmd/oom.h \
	cmd/outlet.c cmd/outlet.h \
	cmd/signals.c cmd/signals.h \
	cmd/stacks.c cmd/stacks.h \
	cmd/summary.c \
	cmd/timeline.c cmd/timeline.h \
	cmd/trace.c cmd/trace.h \
	cmd/traffic.c cmd/traffic.h \
	cmd/supervise.c cmd/supervise.h

# The subcommands: programs of tests have them, too.
noinst_LTLIBRARIES += cmd/libcmd.la
cmd_libcmd_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(ZLIB_CFLAGS)
cmd_libcmd_la_SOURCES = \
	cmd/cmd.h cmd/args.c cmd/commands.c \
	cmd/config.c cmd/config_diff.c cmd/config_json.c cmd/import/command.c \
	cmd/data.c cmd/eval.c \
	cmd/plugin.c cmd/plugin.h cmd/plugin_usage.c \
	cmd/new_plugin.c cmd/new_plugin.h \
	cmd/describe.c cmd/schedule.c \
	cmd/checkpoint.c cmd/train.c cmd/restart.c cmd/restart.h cmd/sample.c cmd/samples_file.c cmd/samples_file.h \
	cmd/plan.c cmd/program.c cmd/program.h \
	cmd/forms.c cmd/forms.h \
	cmd/tokenize.c cmd/tokenize.h cmd/tokenize_chat.c cmd/tokenize_progress.c \
	cmd/token_text.c cmd/token_text.h \
	cmd/draw.c cmd/draw.h cmd/eos.c cmd/eos.h cmd/generate.c cmd/generate.h \
	cmd/prompts.c cmd/prompts.h cmd/chat.c cmd/chat.h

cmd_libcmd_la_LIBADD = cmd/import/libimport.la

include cmd/forecast/local.mk
include cmd/import/local.mk
include cmd/bench/local.mk
include cmd/check/local.mk
include cmd/doctor/local.mk
include cmd/completion/local.mk

bin_PROGRAMS += zeroth
zeroth_SOURCES = cmd/main.c
zeroth_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(ZLIB_CFLAGS)
zeroth_LDADD = cmd/libcmd.la cmd/librun.la files/chat/libchat.la files/tokenizer/libtokenizer.la \
	files/tokens/libtokens.la files/libcontent.la core/libcore.la \
	$(JANSSON_LIBS) $(ZLIB_LIBS)

include cmd/report/local.mk
