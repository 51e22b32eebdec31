# Tests of plugins/offload: stores that keep what they were given, and how they end when the disk does not.
offload_tests = %D%/t_offload %D%/t_offload_fail
check_PROGRAMS += $(offload_tests)
TESTS += $(offload_tests)

offload_rig = %D%/offload_rig.c %D%/offload_rig.h
offload_ldadd = %D%/libtesthost.la $(CMOCKA_LIBS)

%C%_t_offload_SOURCES = %D%/t_offload.c $(offload_rig)
%C%_t_offload_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_offload_LDADD = $(offload_ldadd)

%C%_t_offload_fail_SOURCES = %D%/t_offload_fail.c $(offload_rig)
%C%_t_offload_fail_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_offload_fail_LDADD = $(offload_ldadd)

# Preloaded, it makes the disk fail.
check_LTLIBRARIES += %D%/baddisk.la
%C%_baddisk_la_SOURCES = %D%/baddisk.c
%C%_baddisk_la_CFLAGS = $(AM_CFLAGS) $(LIBURING_CFLAGS)
%C%_baddisk_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
%C%_baddisk_la_LIBADD = -ldl
