# SPDX-License-Identifier: Apache-2.0
#
# What all decoder-only transformers share; each family's plugin links it.
noinst_LTLIBRARIES += %D%/libdecoder.la
%C%_libdecoder_la_SOURCES = %D%/attention.c %D%/block.c %D%/branch.c %D%/config.c \
	%D%/declare.c %D%/decoder.h %D%/experts.c %D%/experts.h %D%/ffn.c %D%/head.c %D%/head.h \
	%D%/homes.c %D%/keys.h %D%/kinds.c %D%/layers.c \
	%D%/moe.c %D%/names.h %D%/ops.c %D%/options.c %D%/options.h %D%/plugin.h %D%/rope.c
%C%_libdecoder_la_CFLAGS = $(PLUGIN_CFLAGS)
