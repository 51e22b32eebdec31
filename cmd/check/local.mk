# SPDX-License-Identifier: Apache-2.0
#
# `zeroth plugin check`: tests of a plugin that anybody wrote.
cmd_libcmd_la_SOURCES += \
	%D%/areas.c %D%/at_once.c %D%/bench.c %D%/bench_scalars.c %D%/check.h %D%/comm.c %D%/command.c %D%/command.h \
	%D%/crashes.c %D%/data.c %D%/file.c %D%/general.c %D%/imports.c %D%/instance.c %D%/model.c \
	%D%/offload.c %D%/optimizer.c %D%/optimizer.h %D%/others.c %D%/process.c %D%/ranks.c \
	%D%/results.c %D%/roles.c %D%/routing.c %D%/same.c %D%/tests.c %D%/text.c %D%/training.c %D%/verdict.c
