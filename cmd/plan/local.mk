# SPDX-License-Identifier: Apache-2.0
#
# cmd/plan: `zeroth plan` beside one plan: tables of others, and the search for the fastest.
cmd_libcmd_la_SOURCES += \
	%D%/compare.c \
	%D%/open.c \
	%D%/scale.c \
	%D%/search.c \
	%D%/trial.c %D%/trial.h
