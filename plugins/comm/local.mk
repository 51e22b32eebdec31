# Plugins of the role comm: what moves between ranks.
commplugindir = $(plugindir)/comm
commplugin_LTLIBRARIES = %D%/local.la

%C%_local_la_SOURCES = %D%/local.c %D%/local.h %D%/local_area.c %D%/local_mem.c %D%/local_move.c %D%/local_ring.c \
	%D%/local_stage.c %D%/local_sum.c %D%/local_text.c %D%/local_wait.c
%C%_local_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)
