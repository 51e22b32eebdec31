# SPDX-License-Identifier: Apache-2.0
#
# Tests of core's side of optimizers: parameter groups, frozen tensors.
check_PROGRAMS += %D%/t_frozen %D%/t_groups
TESTS += %D%/t_frozen %D%/t_groups %D%/freeze.sh %D%/optimizers.sh %D%/contract.sh %D%/rounding.sh
EXTRA_DIST += %D%/freeze.sh %D%/optimizers.sh %D%/contract.sh %D%/rounding.sh %D%/rounding.c %D%/badoptimizer.c %D%/badprecision.c %D%/lacking.c %D%/golden/checkpoint

%C%_t_frozen_SOURCES = %D%/t_frozen.c $(plan_rig)
%C%_t_frozen_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_frozen_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_groups_SOURCES = %D%/t_groups.c $(plan_rig)
%C%_t_groups_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_groups_LDADD = core/libcore.la $(CMOCKA_LIBS)
