# SPDX-License-Identifier: Apache-2.0
#
# comm/mpi: ranks on several machines, through MPI.
if HAVE_MPI
commplugin_LTLIBRARIES += plugins/comm/mpi.la
plugins_comm_mpi_la_SOURCES = %D%/mpi.c %D%/mpi.h %D%/data.c %D%/exchange.c %D%/group.c %D%/note.c %D%/piece.c %D%/post.c %D%/stop.c \
	%D%/text.c %D%/wait.c $(comm_segment) $(comm_sum) $(comm_header)
plugins_comm_mpi_la_CFLAGS = $(PLUGIN_CFLAGS) $(MPI_CFLAGS)
plugins_comm_mpi_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_comm_mpi_la_LIBADD = $(MPI_LIBS)
endif
