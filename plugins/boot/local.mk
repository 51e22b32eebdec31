# Plugins of the role boot: who the ranks are.
bootplugindir = $(plugindir)/boot
bootplugin_LTLIBRARIES = %D%/local.la %D%/env.la

%C%_local_la_SOURCES = %D%/local.c
%C%_local_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_env_la_SOURCES = %D%/env.c %D%/env.h %D%/env_file.c %D%/env_join.c %D%/env_wait.c
%C%_env_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_env_la_LDFLAGS = $(PLUGIN_LDFLAGS)

if HAVE_MPI
bootplugin_LTLIBRARIES += %D%/mpi.la
%C%_mpi_la_SOURCES = %D%/mpi.c %D%/mpi.h %D%/mpi_value.c
%C%_mpi_la_CFLAGS = $(PLUGIN_CFLAGS) $(MPI_CFLAGS)
%C%_mpi_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_mpi_la_LIBADD = $(MPI_LIBS)
endif
