# SPDX-License-Identifier: Apache-2.0
#
# Recording and planning, before memory is taken.
program_tests = %D%/t_act_moves %D%/t_activation %D%/t_plan %D%/t_plan_experts \
	%D%/t_program %D%/t_record
check_PROGRAMS += $(program_tests)
TESTS += $(program_tests)

activation_fixture = %D%/activation_fixture.c %D%/activation_fixture.h $(plan_fixture)

%C%_t_act_moves_SOURCES = %D%/t_act_moves.c $(activation_fixture)
%C%_t_act_moves_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_act_moves_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_activation_SOURCES = %D%/t_activation.c $(activation_fixture)
%C%_t_activation_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_activation_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_plan_SOURCES = %D%/t_plan.c tests/lib/cards.h $(plan_fixture)
%C%_t_plan_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_plan_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_plan_experts_SOURCES = %D%/t_plan_experts.c $(plan_fixture)
%C%_t_plan_experts_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_plan_experts_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_program_SOURCES = %D%/t_program.c $(plan_fixture)
%C%_t_program_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_program_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_record_SOURCES = %D%/t_record.c $(plan_fixture) $(ranks_fixture)
%C%_t_record_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_record_LDADD = core/libcore.la $(CMOCKA_LIBS)
