# SPDX-License-Identifier: Apache-2.0
#
# What tests of several areas share: TAP for scripts, fixtures, and the host for plugins under test.
# A test that uses that host says
#   %C%_t_x_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
dist_check_SCRIPTS = %D%/tap.sh %D%/broken_plugins.sh %D%/bytes.sh %D%/cmocka.sh %D%/digests.sh %D%/fixture.sh %D%/gallery.sh %D%/hosts.sh %D%/launched.sh %D%/mpi_env.sh %D%/pairwise.sh %D%/tiers.sh
EXTRA_DIST += %D%/gguf.py %D%/gradients.py %D%/matrix.ini %D%/mixture.ini %D%/sanitize.h %D%/torch_files.py

noinst_LTLIBRARIES += %D%/libtesthost.la
%C%_libtesthost_la_SOURCES = %D%/cards.h %D%/testhost.c %D%/testhost.h %D%/testplugin.c
%C%_libtesthost_la_CFLAGS = $(AM_CFLAGS)
%C%_libtesthost_la_LIBADD = -ldl -lpthread -lm

isa_h = %D%/isa.h
half_h = %D%/half.h
testdevice_h = %D%/testdevice.h %D%/half.h
ckpt_fixture = %D%/ckpt_fixture.c %D%/ckpt_fixture.h
model_fixture = %D%/model_fixture.c %D%/model_fixture.h
plan_fixture = %D%/plan_fixture.c %D%/plan_fixture.h
slices_fixture = %D%/slices_fixture.c %D%/slices_fixture.h
ranks_fixture = %D%/ranks_fixture.c %D%/ranks_fixture.h
