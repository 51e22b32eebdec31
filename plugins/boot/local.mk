# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role boot: who the ranks are.
bootplugindir = $(plugindir)/boot
bootplugin_LTLIBRARIES = %D%/local.la

%C%_local_la_SOURCES = %D%/local.c
%C%_local_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)

include plugins/boot/env/local.mk
include plugins/boot/pmix/local.mk

if HAVE_MPI
bootplugin_LTLIBRARIES += %D%/mpi.la
%C%_mpi_la_SOURCES = %D%/mpi.c %D%/mpi.h %D%/mpi_value.c
%C%_mpi_la_CFLAGS = $(PLUGIN_CFLAGS) $(MPI_CFLAGS)
%C%_mpi_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_mpi_la_LIBADD = $(MPI_LIBS)
endif
