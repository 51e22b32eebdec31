# SPDX-License-Identifier: Apache-2.0
#
# What tests of several areas share: TAP for scripts, fixtures, and the host for plugins under test.
# A test that uses that host says
#   %C%_t_x_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
dist_check_SCRIPTS = %D%/tap.sh %D%/cmocka.sh %D%/digests.sh %D%/rig.sh %D%/mpi_env.sh %D%/pairwise.sh %D%/tiers.sh
EXTRA_DIST += %D%/matrix.ini %D%/mixture.ini

noinst_LTLIBRARIES += %D%/libtesthost.la
%C%_libtesthost_la_SOURCES = %D%/testhost.c %D%/testhost.h %D%/testplugin.c
%C%_libtesthost_la_CFLAGS = $(AM_CFLAGS)
%C%_libtesthost_la_LIBADD = -ldl -lpthread -lm

isa_h = %D%/isa.h
half_h = %D%/half.h
testdevice_h = %D%/testdevice.h %D%/half.h
ckpt_rig = %D%/ckpt_rig.c %D%/ckpt_rig.h
model_rig = %D%/model_rig.c %D%/model_rig.h
plan_rig = %D%/plan_rig.c %D%/plan_rig.h
ranks_rig = %D%/ranks_rig.c %D%/ranks_rig.h
