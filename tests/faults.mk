# SPDX-License-Identifier: Apache-2.0
#
# Calls of the C library that fail: a library to preload, and what runs a training once for each of them.
check_LTLIBRARIES += %D%/libfaults.la
%C%_libfaults_la_SOURCES = %D%/faults/faults.h %D%/faults/faults.c %D%/faults/memory.c %D%/faults/files.c \
	%D%/faults/names.c %D%/faults/streams.c %D%/faults/ring.c
%C%_libfaults_la_CFLAGS = -std=gnu11 -Wall -Wextra -fvisibility=hidden $(LIBURING_CFLAGS)
%C%_libfaults_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
%C%_libfaults_la_LIBADD = -ldl

check_PROGRAMS += %D%/sweep
%C%_sweep_SOURCES = %D%/faults/sweep.c %D%/faults/job.c %D%/faults/job.h %D%/faults/tree.c %D%/faults/tree.h \
	%D%/faults/faults.h
%C%_sweep_CFLAGS = $(AM_CFLAGS)

TESTS += %D%/faults.sh %D%/durable.sh
EXTRA_DIST += %D%/faults.sh %D%/durable.sh %D%/faults/durable.awk

# Every call of every case, more than 10000; the test alone tries some of each.
.PHONY: check-faults
check-faults: all $(check_LTLIBRARIES) $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) FAULTS=full bash $(srcdir)/tests/faults.sh | awk '{ print } /^not ok/ { bad = 1 } END { exit bad }'
