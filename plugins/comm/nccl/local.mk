# SPDX-License-Identifier: Apache-2.0
#
# comm/nccl: GPUs, through NCCL.
# All but nccl.c, which tests/doubles/ includes.
comm_nccl = %D%/nccl.h %D%/error.c %D%/finish.c %D%/group.c %D%/host.c %D%/lend.c %D%/move.c %D%/note.c %D%/ordered.c %D%/piece.c %D%/post.c \
	%D%/talk.c %D%/watch.c $(comm_segment) $(comm_header) $(comm_sum) plugins/cuda_missing.h
if HAVE_NCCL
commplugin_LTLIBRARIES += plugins/comm/nccl.la
plugins_comm_nccl_la_SOURCES = %D%/nccl.c $(comm_nccl)
plugins_comm_nccl_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/plugins $(CUDA_CPPFLAGS) \
	$(NCCL_CPPFLAGS)
plugins_comm_nccl_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_comm_nccl_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_comm_nccl_la_LIBADD = $(NCCL_LIBS) $(CUDA_LIBS) -lpthread
endif
