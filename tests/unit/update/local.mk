# SPDX-License-Identifier: Apache-2.0
#
# Core's side of optimizers: parameter groups, frozen tensors.
update_tests = %D%/t_frozen %D%/t_groups
check_PROGRAMS += $(update_tests)
TESTS += $(update_tests)

%C%_t_frozen_SOURCES = %D%/t_frozen.c $(plan_fixture)
%C%_t_frozen_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_frozen_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_groups_SOURCES = %D%/t_groups.c $(plan_fixture)
%C%_t_groups_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_groups_LDADD = core/libcore.la $(CMOCKA_LIBS)
