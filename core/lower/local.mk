# SPDX-License-Identifier: Apache-2.0
#
# core/lower: the instructions of a step, what each waits for, and the proof that this suffices.
core_libcore_la_SOURCES += \
	%D%/before.c %D%/before.h \
	%D%/instr.h \
	%D%/order.c \
	%D%/spans.c %D%/spans.h \
	%D%/verify.c
