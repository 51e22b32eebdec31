# SPDX-License-Identifier: Apache-2.0
#
# core/exec: runs instructions, one function per kind; what ranks tell each other once per step.
core_libcore_la_SOURCES += \
	%D%/beside.c %D%/bind.c %D%/boundary.h %D%/calls.c %D%/compute.c \
	%D%/data.c %D%/decide.c %D%/exec.h %D%/graphs.c %D%/graphs.h %D%/homes.c %D%/issue.c %D%/marks.c %D%/moves.c %D%/ranges.c %D%/run.c %D%/slices.c
