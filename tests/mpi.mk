# Ranks of other launchers: MPI, environment variables, and two hosts played by network namespaces.
TESTS += %D%/mpi.sh %D%/netns.sh
EXTRA_DIST += %D%/mpi_env.sh %D%/mpi.sh %D%/netns.sh

if HAVE_MPI
check_PROGRAMS += %D%/comm_mpi
%C%_comm_mpi_SOURCES = %D%/comm_mpi.c %D%/comm_rig.c %D%/comm_rig.h
%C%_comm_mpi_CFLAGS = $(AM_CFLAGS)
%C%_comm_mpi_LDADD = %D%/libtesthost.la
endif
