# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role model: units of parameters, layers, their forward and backward.
modelplugindir = $(plugindir)/model
modelplugin_LTLIBRARIES = %D%/gpt2.la %D%/llama.la

include plugins/model/decoder/local.mk

decoder = %D%/carver.h %D%/declare.h
decoder_libs = plugins/model/decoder/libdecoder.la -lm

%C%_gpt2_la_SOURCES = %D%/gpt2.c $(decoder)
%C%_gpt2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gpt2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gpt2_la_LIBADD = $(decoder_libs)

%C%_llama_la_SOURCES = %D%/llama.c $(decoder)
%C%_llama_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_llama_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_llama_la_LIBADD = $(decoder_libs)
