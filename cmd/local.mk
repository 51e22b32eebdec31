# SPDX-License-Identifier: Apache-2.0
#
# cmd: the program `zeroth`, one file per subcommand.

bin_PROGRAMS += zeroth
zeroth_SOURCES = \
	cmd/main.c cmd/cmd.h cmd/args.c \
	cmd/config.c cmd/config_json.c cmd/plugin.c cmd/plugin.h cmd/describe.c cmd/schedule.c \
	cmd/train.c cmd/sample.c cmd/plan.c
zeroth_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
zeroth_LDADD = core/libcore.la $(JANSSON_LIBS)
