# Plugins of the role model: units of parameters, layers, their forward and backward.
modelplugindir = $(plugindir)/model
modelplugin_LTLIBRARIES = %D%/gpt2.la

%C%_gpt2_la_SOURCES = %D%/carver.h %D%/gpt2.c %D%/gpt2.h %D%/gpt2_block.c %D%/gpt2_files.c %D%/gpt2_layers.c %D%/gpt2_ops.c
%C%_gpt2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gpt2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gpt2_la_LIBADD = -lm
