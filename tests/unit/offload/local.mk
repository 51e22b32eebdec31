# SPDX-License-Identifier: Apache-2.0
#
# plugins/offload: stores that keep what they were given, and how they end when the disk does not.
offload_tests = %D%/t_offload %D%/t_offload_fail
check_PROGRAMS += $(offload_tests)
TESTS += $(offload_tests)

offload_fixture = %D%/offload_fixture.c %D%/offload_fixture.h

%C%_t_offload_SOURCES = %D%/t_offload.c $(offload_fixture)
%C%_t_offload_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_offload_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_offload_fail_SOURCES = %D%/t_offload_fail.c $(offload_fixture)
%C%_t_offload_fail_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_offload_fail_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)
