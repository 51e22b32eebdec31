# SPDX-License-Identifier: Apache-2.0
#
# offload/nvme: files of this run.
offloadplugin_LTLIBRARIES += plugins/offload/nvme.la
plugins_offload_nvme_la_SOURCES = %D%/nvme.c %D%/nvme.h %D%/chunk.c %D%/dir.c %D%/file.c \
	%D%/plain.c %D%/queue.c %D%/request.c %D%/ring.c %D%/thread.c
plugins_offload_nvme_la_CFLAGS = $(PLUGIN_CFLAGS) $(LIBURING_CFLAGS) $(XXHASH_CFLAGS)
plugins_offload_nvme_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_offload_nvme_la_LIBADD = $(LIBURING_LIBS) $(XXHASH_LIBS) -lpthread
