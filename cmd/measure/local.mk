# SPDX-License-Identifier: Apache-2.0
#
# `zeroth bench`: a file per subject.
cmd_libcmd_la_SOURCES += \
	%D%/bench.c %D%/bench.h %D%/rank.c %D%/limits.c %D%/multiply.c %D%/multiply.h \
	%D%/gemm.c %D%/ops.c %D%/adam.c %D%/comm.c %D%/io.c %D%/step.c
