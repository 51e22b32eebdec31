# SPDX-License-Identifier: Apache-2.0
#
# Tests of core's side of optimizers: parameter groups.
check_PROGRAMS += %D%/t_groups
TESTS += %D%/t_groups %D%/optimizers.sh
EXTRA_DIST += %D%/optimizers.sh

%C%_t_groups_SOURCES = %D%/t_groups.c $(plan_rig)
%C%_t_groups_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_groups_LDADD = core/libcore.la $(CMOCKA_LIBS)
