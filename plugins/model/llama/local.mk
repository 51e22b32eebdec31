# SPDX-License-Identifier: Apache-2.0
#
# model/llama
modelplugin_LTLIBRARIES += plugins/model/llama.la
plugins_model_llama_la_SOURCES = %D%/llama.c %D%/llama.h %D%/block.c %D%/files.c %D%/layers.c \
	%D%/ops.c %D%/options.c %D%/rope.c $(model_parts)
plugins_model_llama_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_model_llama_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_model_llama_la_LIBADD = -lm
