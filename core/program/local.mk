# SPDX-License-Identifier: Apache-2.0
#
# core/program: what is decided before any memory is taken: uses, lives of buffers, and the programs that a step replays.
core_libcore_la_SOURCES += \
	%D%/activation.c %D%/activation.h \
	%D%/lifetime.c %D%/lifetime.h \
	%D%/program.c %D%/program.h \
	%D%/record.c %D%/recorder.h %D%/verbs.c \
	%D%/schedule.c %D%/schedule.h \
	%D%/ways.c %D%/ways.h
