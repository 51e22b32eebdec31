# SPDX-License-Identifier: Apache-2.0
#
# comm/local: ranks of one machine, through shared memory.
commplugin_LTLIBRARIES += plugins/comm/local.la
plugins_comm_local_la_SOURCES = %D%/local.c %D%/local.h %D%/area.c %D%/carry.c %D%/compare.c \
	%D%/file.c %D%/group.c %D%/mem.c %D%/move.c %D%/regions.c %D%/ring.c %D%/stage.c %D%/text.c \
	%D%/view.c %D%/wait.c $(comm_segment) $(comm_sum)
plugins_comm_local_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_comm_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)
