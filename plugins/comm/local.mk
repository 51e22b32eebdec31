# Plugins of the role comm: what moves between ranks.
commplugindir = $(plugindir)/comm
commplugin_LTLIBRARIES = %D%/local.la

%C%_local_la_SOURCES = %D%/local.c %D%/local.h %D%/local_area.c %D%/local_mem.c %D%/local_move.c %D%/local_ring.c \
	%D%/names.h %D%/segment.h %D%/local_stage.c %D%/local_sum.c %D%/local_text.c %D%/local_view.c %D%/local_wait.c
%C%_local_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)

if HAVE_MPI
commplugin_LTLIBRARIES += %D%/mpi.la
%C%_mpi_la_SOURCES = %D%/mpi.c %D%/mpi.h %D%/mpi_data.c %D%/mpi_note.c %D%/mpi_piece.c %D%/mpi_post.c %D%/mpi_text.c %D%/mpi_wait.c \
	%D%/local.h %D%/local_sum.c %D%/names.h %D%/segment.h
%C%_mpi_la_CFLAGS = $(PLUGIN_CFLAGS) $(MPI_CFLAGS)
%C%_mpi_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_mpi_la_LIBADD = $(MPI_LIBS)
endif

if HAVE_NCCL
commplugin_LTLIBRARIES += %D%/nccl.la
%C%_nccl_la_SOURCES = %D%/nccl.c %D%/nccl.h %D%/nccl_error.c %D%/nccl_post.c %D%/nccl_watch.c \
	%D%/names.h %D%/segment.h plugins/cuda_missing.h
%C%_nccl_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)
%C%_nccl_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_nccl_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_nccl_la_LIBADD = $(NCCL_LIBS) $(CUDA_LIBS) -lpthread
endif
