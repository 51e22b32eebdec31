# SPDX-License-Identifier: Apache-2.0
#
# `zeroth doctor`: looking at the machine, and judging what was seen.
cmd_libcmd_la_SOURCES += \
	%D%/doctor.c %D%/doctor.h %D%/look.c %D%/disk.c %D%/libraries.c %D%/judge.c
