# SPDX-License-Identifier: Apache-2.0
#
# core/lower: from what was recorded to what really happens: instructions, their order, and the proof that it is enough.
core_libcore_la_SOURCES += \
	%D%/instr.h \
	%D%/lower.c %D%/lower.h %D%/lower_gather.c %D%/lower_reduce.c %D%/lower_update.c %D%/lower_whole.c \
	%D%/order.c %D%/spans.c %D%/spans.h %D%/text.c %D%/verify.c
