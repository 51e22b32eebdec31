# SPDX-License-Identifier: Apache-2.0
#
# Core's mechanism.
core_tests = %D%/t_exact %D%/t_layout %D%/t_pool %D%/t_threads
check_PROGRAMS += $(core_tests)
TESTS += $(core_tests)

%C%_t_exact_SOURCES = %D%/t_exact.c
%C%_t_exact_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_exact_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_layout_SOURCES = %D%/t_layout.c
%C%_t_layout_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_layout_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_pool_SOURCES = %D%/t_pool.c
%C%_t_pool_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_pool_LDADD = core/libcore.la $(CMOCKA_LIBS)

%C%_t_threads_SOURCES = %D%/t_threads.c
%C%_t_threads_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_threads_LDADD = train/librun.la core/libcore.la $(CMOCKA_LIBS)
