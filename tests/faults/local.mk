# SPDX-License-Identifier: Apache-2.0
#
# Calls of the C library that fail: a library to preload, and what runs a training once for each of
# them. The tests are system/faults.sh and system/durable.sh.
check_LTLIBRARIES += %D%/libfaults.la
%C%_libfaults_la_SOURCES = %D%/faults.h %D%/faults.c %D%/memory.c %D%/files.c %D%/names.c \
	%D%/streams.c %D%/ring.c
%C%_libfaults_la_CFLAGS = -std=gnu11 -Wall -Wextra -fvisibility=hidden $(LIBURING_CFLAGS)
%C%_libfaults_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
%C%_libfaults_la_LIBADD = -ldl

check_PROGRAMS += %D%/sweep
%C%_sweep_SOURCES = %D%/sweep.c %D%/job.c %D%/job.h %D%/tree.c %D%/tree.h %D%/faults.h
%C%_sweep_CFLAGS = $(AM_CFLAGS)

EXTRA_DIST += %D%/durable.awk
