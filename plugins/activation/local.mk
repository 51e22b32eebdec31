# Plugins of the role activation: what happens to activations between forward and backward.
activationplugindir = $(plugindir)/activation
activationplugin_LTLIBRARIES = %D%/keep.la %D%/offload.la %D%/recompute.la

%C%_keep_la_SOURCES = %D%/keep.c
%C%_keep_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_keep_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_offload_la_SOURCES = %D%/offload.c
%C%_offload_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_offload_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_recompute_la_SOURCES = %D%/recompute.c
%C%_recompute_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_recompute_la_LDFLAGS = $(PLUGIN_LDFLAGS)
