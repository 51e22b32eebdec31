# SPDX-License-Identifier: Apache-2.0
#
# plugins/zero: a fixture stands for core.
stages_tests = %D%/t_stages %D%/t_stages_rules
check_PROGRAMS += $(stages_tests)
TESTS += $(stages_tests)

stages_fixture = %D%/stages_fixture.c %D%/stages_fixture.h %D%/stages_case.c %D%/stages_case.h

%C%_t_stages_SOURCES = %D%/t_stages.c $(stages_fixture)
%C%_t_stages_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_stages_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_stages_rules_SOURCES = %D%/t_stages_rules.c $(stages_fixture)
%C%_t_stages_rules_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_stages_rules_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
