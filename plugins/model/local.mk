# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role model: units of parameters, layers, their forward and backward.
modelplugindir = $(plugindir)/model
modelplugin_LTLIBRARIES = %D%/gemma.la %D%/gemma2.la %D%/gemma3.la %D%/gpt2.la %D%/gpt_neox.la \
	%D%/granite.la %D%/llama.la %D%/mixtral.la %D%/olmo2.la %D%/olmoe.la %D%/phi3.la %D%/qwen3.la \
	%D%/qwen3_moe.la %D%/smollm3.la %D%/starcoder2.la

include plugins/model/decoder/local.mk

decoder = %D%/carver.h %D%/declare.h
decoder_libs = plugins/model/decoder/libdecoder.la -lm

%C%_gemma_la_SOURCES = %D%/gemma.c $(decoder)
%C%_gemma_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gemma_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gemma_la_LIBADD = $(decoder_libs)

%C%_gemma3_la_SOURCES = %D%/gemma3.c $(decoder)
%C%_gemma3_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gemma3_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gemma3_la_LIBADD = $(decoder_libs)

%C%_gpt2_la_SOURCES = %D%/gpt2.c $(decoder)
%C%_gpt2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gpt2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gpt2_la_LIBADD = $(decoder_libs)

%C%_gpt_neox_la_SOURCES = %D%/gpt_neox.c $(decoder)
%C%_gpt_neox_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gpt_neox_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gpt_neox_la_LIBADD = $(decoder_libs)

%C%_llama_la_SOURCES = %D%/llama.c $(decoder)
%C%_llama_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_llama_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_llama_la_LIBADD = $(decoder_libs)

%C%_olmo2_la_SOURCES = %D%/olmo2.c $(decoder)
%C%_olmo2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_olmo2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_olmo2_la_LIBADD = $(decoder_libs)

%C%_phi3_la_SOURCES = %D%/phi3.c $(decoder)
%C%_phi3_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_phi3_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_phi3_la_LIBADD = $(decoder_libs)

%C%_qwen3_la_SOURCES = %D%/qwen3.c $(decoder)
%C%_qwen3_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_qwen3_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_qwen3_la_LIBADD = $(decoder_libs)

%C%_smollm3_la_SOURCES = %D%/smollm3.c $(decoder)
%C%_smollm3_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_smollm3_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_smollm3_la_LIBADD = $(decoder_libs)

%C%_starcoder2_la_SOURCES = %D%/starcoder2.c $(decoder)
%C%_starcoder2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_starcoder2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_starcoder2_la_LIBADD = $(decoder_libs)

%C%_gemma2_la_SOURCES = %D%/gemma2.c $(decoder)
%C%_gemma2_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_gemma2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_gemma2_la_LIBADD = $(decoder_libs)

%C%_granite_la_SOURCES = %D%/granite.c $(decoder)
%C%_granite_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_granite_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_granite_la_LIBADD = $(decoder_libs)

%C%_mixtral_la_SOURCES = %D%/mixtral.c $(decoder)
%C%_mixtral_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_mixtral_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_mixtral_la_LIBADD = $(decoder_libs)

%C%_olmoe_la_SOURCES = %D%/olmoe.c $(decoder)
%C%_olmoe_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_olmoe_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_olmoe_la_LIBADD = $(decoder_libs)

%C%_qwen3_moe_la_SOURCES = %D%/qwen3_moe.c $(decoder)
%C%_qwen3_moe_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_qwen3_moe_la_LDFLAGS = $(PLUGIN_LDFLAGS)
%C%_qwen3_moe_la_LIBADD = $(decoder_libs)
