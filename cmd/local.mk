# SPDX-License-Identifier: Apache-2.0
#
# cmd: the program `zeroth`, one file per subcommand.

# The subcommands: programs of tests have them, too.
noinst_LTLIBRARIES += cmd/libcmd.la
cmd_libcmd_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(ZLIB_CFLAGS)
cmd_libcmd_la_SOURCES = \
	cmd/cmd.h cmd/args.c cmd/options.c cmd/options.h cmd/help.c cmd/commands.c \
	cmd/config.c cmd/config_diff.c cmd/config_json.c cmd/import/command.c \
	cmd/data.c cmd/eval.c cmd/sequence.c cmd/sequence.h \
	cmd/plugin.c cmd/plugin.h cmd/plugin_usage.c \
	cmd/describe.c cmd/schedule.c \
	cmd/checkpoint.c cmd/checkpoint_import.c cmd/checkpoint_import.h cmd/train.c cmd/train.h cmd/train_options.def cmd/launch.c cmd/sample.c \
	cmd/plan.c cmd/program.c cmd/program.h \
	cmd/tokenize.c cmd/tokenize.h cmd/tokenize_chat.c cmd/tokenize_progress.c cmd/tokenize_rows.c cmd/tokenize_rows.h

cmd_libcmd_la_LIBADD = cmd/import/libimport.la cmd/others/libothers.la

include cmd/plan/local.mk
include cmd/sample/local.mk
include cmd/import/local.mk
include cmd/others/local.mk
include cmd/measure/local.mk
include cmd/new/local.mk
include cmd/look/local.mk
include cmd/check/local.mk
include cmd/doctor/local.mk
include cmd/completion/local.mk

bin_PROGRAMS += zeroth
zeroth_SOURCES = cmd/main.c
zeroth_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(ZLIB_CFLAGS)
zeroth_LDADD = cmd/libcmd.la train/librun.la files/chat/libchat.la files/tokenizer/libtokenizer.la \
	files/tokens/libtokens.la files/libcontent.la core/libcore.la \
	$(JANSSON_LIBS) $(ZLIB_LIBS)

include cmd/report/local.mk
