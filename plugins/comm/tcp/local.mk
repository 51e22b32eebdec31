# SPDX-License-Identifier: Apache-2.0
#
# comm/tcp: ranks of any machines over TCP.
commplugin_LTLIBRARIES += plugins/comm/tcp.la
plugins_comm_tcp_la_SOURCES = %D%/connect.c %D%/fetch.c %D%/group.c %D%/lend.c %D%/move.c %D%/note.c %D%/post.c %D%/sum.c %D%/tcp.c %D%/tcp.h \
	%D%/text.c %D%/wait.c $(comm_segment) $(comm_sum) $(comm_header)
plugins_comm_tcp_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_comm_tcp_la_LDFLAGS = $(PLUGIN_LDFLAGS)
