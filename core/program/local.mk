# SPDX-License-Identifier: Apache-2.0
#
# core/program: what is decided before any memory is taken: the programs that a step replays.
core_libcore_la_SOURCES += \
	%D%/homes.c %D%/onward.c \
	%D%/program.c %D%/program.h \
	%D%/record.c %D%/recorder.h %D%/verbs.c %D%/written.c \
	%D%/route.c %D%/route.h
