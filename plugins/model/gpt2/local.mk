# SPDX-License-Identifier: Apache-2.0
#
# model/gpt2
modelplugin_LTLIBRARIES += plugins/model/gpt2.la
plugins_model_gpt2_la_SOURCES = %D%/gpt2.c %D%/gpt2.h %D%/block.c %D%/files.c %D%/layers.c \
	%D%/ops.c $(model_parts)
plugins_model_gpt2_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_model_gpt2_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_model_gpt2_la_LIBADD = -lm
