# Plugins of the role precision: types, and what to do with a step that overflowed.
precisionplugindir = $(plugindir)/precision
precisionplugin_LTLIBRARIES = %D%/fp32.la %D%/bf16.la %D%/fp16.la

%C%_fp32_la_SOURCES = %D%/fp32.c %D%/unscaled.c %D%/unscaled.h
%C%_fp32_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_fp32_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_bf16_la_SOURCES = %D%/bf16.c %D%/unscaled.c %D%/unscaled.h
%C%_bf16_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_bf16_la_LDFLAGS = $(PLUGIN_LDFLAGS)

%C%_fp16_la_SOURCES = %D%/fp16.c
%C%_fp16_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_fp16_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_fp16_la_LIBADD = -lm
