# SPDX-License-Identifier: Apache-2.0
#
# cmd/others: checkpoints of other programs.
noinst_LTLIBRARIES += %D%/libothers.la
%C%_libothers_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_libothers_la_SOURCES = \
	%D%/box.c %D%/check.c %D%/dcp.c %D%/deepspeed.c %D%/give.c %D%/give_dcp.c \
	%D%/give_parts.c %D%/give_universal.c %D%/handover.c %D%/handover.h %D%/handover_groups.c %D%/open.c %D%/order.c %D%/order.h %D%/others.c %D%/others.h \
	%D%/parts.c %D%/take.c %D%/trainer.c %D%/universal.c %D%/zero.c
