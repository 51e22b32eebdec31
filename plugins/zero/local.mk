# Plugins of the role zero: who holds what, and when it moves.
zeroplugindir = $(plugindir)/zero
zeroplugin_LTLIBRARIES = %D%/stage0.la

%C%_stage0_la_SOURCES = %D%/stage0.c
%C%_stage0_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_stage0_la_LDFLAGS = $(PLUGIN_LDFLAGS)
