# SPDX-License-Identifier: Apache-2.0
#
# Tests of recording and planning, before memory is taken.
plan_tests = %D%/t_plan %D%/t_record %D%/t_program %D%/t_activation %D%/t_act_moves
check_PROGRAMS += $(plan_tests)
TESTS += $(plan_tests)

plan_rig = %D%/plan_rig.c %D%/plan_rig.h
activation_rig = %D%/activation_rig.c %D%/activation_rig.h
ranks_rig = %D%/ranks_rig.c %D%/ranks_rig.h

%C%_t_plan_SOURCES = %D%/t_plan.c $(plan_rig)
%C%_t_plan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_plan_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_act_moves_SOURCES = %D%/t_act_moves.c $(activation_rig) $(plan_rig)
%C%_t_act_moves_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_act_moves_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_activation_SOURCES = %D%/t_activation.c $(activation_rig) $(plan_rig)
%C%_t_activation_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_activation_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_record_SOURCES = %D%/t_record.c $(plan_rig) $(ranks_rig)
%C%_t_record_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_record_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_program_SOURCES = %D%/t_program.c $(plan_rig)
%C%_t_program_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_program_LDADD = core/libcore.la $(CMOCKA_LIBS)

check_PROGRAMS += %D%/t_order
TESTS += %D%/t_order
%C%_t_order_SOURCES = %D%/t_order.c %D%/order_rig.c %D%/order_rig.h
%C%_t_order_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_order_LDADD = core/libcore.la $(CMOCKA_LIBS)

check_PROGRAMS += %D%/t_cut
TESTS += %D%/t_cut
%C%_t_cut_SOURCES = %D%/t_cut.c $(plan_rig)
%C%_t_cut_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_cut_LDADD = core/libcore.la $(CMOCKA_LIBS)
