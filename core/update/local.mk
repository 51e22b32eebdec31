# SPDX-License-Identifier: Apache-2.0
#
# core/update: parameter groups and their optimizers, and the update of what this rank holds.
core_libcore_la_SOURCES += \
	%D%/clip.c %D%/clip.h \
	%D%/groups.c \
	%D%/optimizers.h %D%/optimizers_start.c \
	%D%/partial.c \
	%D%/run.c \
	%D%/runs.c \
	%D%/states.c \
	%D%/update.c %D%/update.h \
	%D%/waits.c \
	%D%/whole.c
