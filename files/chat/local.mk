# SPDX-License-Identifier: Apache-2.0
#
# files/chat: files of conversations to documents of tokens.
noinst_LTLIBRARIES += %D%/libchat.la
%C%_libchat_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) $(ZLIB_CFLAGS) \
	$(ZSTD_CFLAGS)
%C%_libchat_la_LIBADD = $(JANSSON_LIBS) $(XXHASH_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS)
%C%_libchat_la_SOURCES = %D%/chat.c %D%/chat.h %D%/encode.c %D%/input.c %D%/input.h \
	%D%/json_list.c %D%/json_list.h %D%/parts.h %D%/record.c %D%/record.h %D%/render.c %D%/setup.c %D%/template.c \
	%D%/template.h %D%/unread.c %D%/unread.h
