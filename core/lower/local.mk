# SPDX-License-Identifier: Apache-2.0
#
# core/lower: the instructions of a step, what each waits for, and the proof that this suffices.
core_libcore_la_SOURCES += \
	%D%/before.c %D%/before.h \
	%D%/emit.c \
	%D%/instr.def %D%/instr.h \
	%D%/late.c \
	%D%/layer_call.c %D%/layer_call.h \
	%D%/lower.c %D%/lower.h %D%/lower_codec.c %D%/lower_layer.c %D%/lower_slices.c \
	%D%/lower_heads.c %D%/lower_trees.c %D%/slices.h \
	%D%/lower_homes.c %D%/lower_gather.c %D%/lower_reduce.c %D%/lower_update.c %D%/lower_whole.c \
	%D%/order.c \
	%D%/place.c \
	%D%/reduce.h %D%/reduce_ways.c %D%/reduce_sums.c %D%/reduce_sends.c \
	%D%/spans.c %D%/spans.h \
	%D%/text.c \
	%D%/verify.c
