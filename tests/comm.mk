# Tests of plugins/comm, plugins/boot and the supervisor: ranks as threads and as processes.
comm_tests = %D%/t_comm %D%/t_comm_fail %D%/t_comm_view %D%/t_boot %D%/t_supervise %D%/t_oom %D%/t_threads
check_PROGRAMS += $(comm_tests)
TESTS += $(comm_tests) %D%/ranks.sh %D%/signals.sh %D%/writers.sh %D%/restart.sh
EXTRA_DIST += %D%/ranks.sh %D%/planted.c %D%/signals.sh %D%/writers.sh %D%/restart.sh %D%/hold.c

comm_rig = %D%/comm_rig.c %D%/comm_rig.h
comm_test_ldadd = %D%/libtesthost.la $(CMOCKA_LIBS)

%C%_t_comm_SOURCES = %D%/t_comm.c $(comm_rig)
%C%_t_comm_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_LDADD = $(comm_test_ldadd)

%C%_t_comm_fail_SOURCES = %D%/t_comm_fail.c $(comm_rig)
%C%_t_comm_fail_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_fail_LDADD = $(comm_test_ldadd)

%C%_t_comm_view_SOURCES = %D%/t_comm_view.c $(comm_rig)
%C%_t_comm_view_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_view_LDADD = $(comm_test_ldadd)

%C%_t_boot_SOURCES = %D%/t_boot.c
%C%_t_boot_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_boot_LDADD = %D%/libtesthost.la $(CMOCKA_LIBS)

%C%_t_supervise_SOURCES = %D%/t_supervise.c
%C%_t_supervise_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_supervise_LDADD = cmd/librun.la $(CMOCKA_LIBS)

%C%_t_oom_SOURCES = %D%/t_oom.c
%C%_t_oom_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_oom_LDADD = cmd/librun.la $(CMOCKA_LIBS)

# A plugin for t_threads; -rpath makes it a shared object though it is not installed.
check_LTLIBRARIES += %D%/threads.la
%C%_threads_la_SOURCES = %D%/threads.c
%C%_threads_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_threads_la_LDFLAGS = $(PLUGIN_LDFLAGS) -rpath /nowhere

%C%_t_threads_SOURCES = %D%/t_threads.c
%C%_t_threads_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_threads_LDADD = core/libcore.la $(CMOCKA_LIBS)
