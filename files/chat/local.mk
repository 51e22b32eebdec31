# SPDX-License-Identifier: Apache-2.0
#
# files/chat: files of conversations to documents of tokens.
noinst_LTLIBRARIES += %D%/libchat.la
%C%_libchat_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) $(ZLIB_CFLAGS) \
	$(ZSTD_CFLAGS) $(UTF8PROC_CFLAGS)
%C%_libchat_la_LIBADD = $(JANSSON_LIBS) $(XXHASH_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS) $(UTF8PROC_LIBS)
%C%_libchat_la_SOURCES = %D%/chat.c %D%/chat.h %D%/encode.c %D%/input.c %D%/input.h \
	%D%/jinja/arithmetic.c %D%/jinja/attributes.c %D%/jinja/call.c %D%/jinja/compare.c \
	%D%/jinja/evaluate.c %D%/jinja/expressions.c %D%/jinja/filters.c %D%/jinja/functions.c \
	%D%/jinja/jinja.c %D%/jinja/jinja.h %D%/jinja/lex.c %D%/jinja/limits.c %D%/jinja/memory.c %D%/jinja/methods.c %D%/jinja/parts.h \
	%D%/jinja/print.c %D%/jinja/run.c %D%/jinja/scope.c %D%/jinja/statements.c %D%/jinja/tests.c %D%/jinja/text.c \
	%D%/jinja/values.c \
	%D%/json_list.c %D%/json_list.h %D%/look.c %D%/parts.h %D%/record.c %D%/record.h %D%/render.c %D%/setup.c %D%/template.c \
	%D%/template.h %D%/turns.c %D%/turns.h %D%/unread.c %D%/unread.h
