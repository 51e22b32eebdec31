# SPDX-License-Identifier: Apache-2.0
#
# files: formats on disk. They use core; core knows nothing of them.
noinst_LTLIBRARIES += files/libfiles.la
files_libfiles_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
files_libfiles_la_SOURCES = %D%/safetensors.c %D%/safetensors.h %D%/safetensors_write.c \
	%D%/sha256.c %D%/sha256.h
files_libfiles_la_LIBADD = files/libprotobuf.la $(JANSSON_LIBS) $(XXHASH_LIBS)

# What a file is, also for plugins.
noinst_LTLIBRARIES += files/libcontent.la
files_libcontent_la_SOURCES = %D%/content.c %D%/content.h

# Protocol Buffers, also for plugins.
noinst_LTLIBRARIES += files/libprotobuf.la
files_libprotobuf_la_SOURCES = %D%/protobuf.c %D%/protobuf.h

include files/chat/local.mk
include files/checkpoint/local.mk
include files/direct/local.mk
include files/gguf/local.mk
include files/pretrained/local.mk
include files/tokenizer/local.mk
include files/tokens/local.mk
include files/torch/local.mk
