# Plugins of the role model: units of parameters, layers, their forward and backward.
modelplugindir = $(plugindir)/model
modelplugin_LTLIBRARIES = %D%/gpt2.la %D%/llama.la

%C%_gpt2_la_SOURCES = %D%/carver.h %D%/declare.h %D%/gpt2.c %D%/gpt2.h %D%/gpt2_block.c %D%/gpt2_files.c \
	%D%/gpt2_layers.c %D%/gpt2_ops.c %D%/head.c %D%/head.h
%C%_gpt2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gpt2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gpt2_la_LIBADD = -lm

%C%_llama_la_SOURCES = %D%/carver.h %D%/declare.h %D%/head.c %D%/head.h %D%/llama.c %D%/llama.h %D%/llama_block.c \
	%D%/llama_files.c %D%/llama_layers.c %D%/llama_ops.c %D%/llama_options.c %D%/llama_rope.c
%C%_llama_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_llama_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_llama_la_LIBADD = -lm
