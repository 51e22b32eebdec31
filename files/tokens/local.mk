# SPDX-License-Identifier: Apache-2.0
#
# files/tokens: files of tokens, as they are written.
noinst_LTLIBRARIES += %D%/libtokens.la
%C%_libtokens_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
%C%_libtokens_la_LIBADD = $(JANSSON_LIBS)
%C%_libtokens_la_SOURCES = %D%/documents.c %D%/documents.h %D%/token_file.c %D%/token_file.h
