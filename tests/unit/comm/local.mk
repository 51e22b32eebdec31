# SPDX-License-Identifier: Apache-2.0
#
# plugins/comm: ranks as threads and as processes.
comm_tests = %D%/t_comm %D%/t_comm_exchange %D%/t_comm_fail %D%/t_comm_view %D%/t_sum
check_PROGRAMS += $(comm_tests)
TESTS += $(comm_tests)

comm_fixture = %D%/comm_fixture.c %D%/comm_fixture.h

%C%_t_comm_SOURCES = %D%/t_comm.c $(comm_fixture)
%C%_t_comm_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_comm_exchange_SOURCES = %D%/t_comm_exchange.c $(comm_fixture)
%C%_t_comm_exchange_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_exchange_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_comm_fail_SOURCES = %D%/t_comm_fail.c $(comm_fixture)
%C%_t_comm_fail_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_fail_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_comm_view_SOURCES = %D%/t_comm_view.c $(comm_fixture)
%C%_t_comm_view_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_comm_view_LDADD = tests/lib/libtesthost.la $(CMOCKA_LIBS)

%C%_t_sum_SOURCES = %D%/t_sum.c plugins/comm/sum.c plugins/comm/sum.h
%C%_t_sum_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
%C%_t_sum_LDADD = $(CMOCKA_LIBS)

# One rank of comm/mpi or comm/tcp, for system/mpi.sh and tcp.sh.
check_PROGRAMS += %D%/comm_mpi
%C%_comm_mpi_SOURCES = %D%/comm_mpi.c $(comm_fixture)
%C%_comm_mpi_CFLAGS = $(AM_CFLAGS)
%C%_comm_mpi_LDADD = tests/lib/libtesthost.la
