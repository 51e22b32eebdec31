# Plugins of the role boot: who the ranks are.
bootplugindir = $(plugindir)/boot
bootplugin_LTLIBRARIES = %D%/local.la

%C%_local_la_SOURCES = %D%/local.c
%C%_local_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_local_la_LDFLAGS = $(PLUGIN_LDFLAGS)
