# SPDX-License-Identifier: Apache-2.0
#
# core/base: what a program in C needs, whatever it is for: errors, texts, lists, files that Zeroth
# owns, JSON, threads, processes, exact sums.
core_libcore_la_SOURCES += \
	%D%/child.c %D%/child.h \
	%D%/dtype.c %D%/dtype.h \
	%D%/error.c %D%/error.h \
	%D%/exact.c %D%/exact.h \
	%D%/file.c %D%/file.h \
	%D%/json.c %D%/json.h \
	%D%/json_text.c %D%/json_text.h \
	%D%/list.h \
	%D%/log.c %D%/log.h \
	%D%/numbers.h \
	%D%/pages.c %D%/pages.h \
	%D%/pool.c %D%/pool.h \
	%D%/text.c %D%/text.h

# What files/ needs of it where a plugin links those.
noinst_LTLIBRARIES += core/libbase.la
core_libbase_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
core_libbase_la_LIBADD = $(JANSSON_LIBS)
core_libbase_la_SOURCES = %D%/error.c %D%/pages.c %D%/text.c %D%/file.c %D%/json.c
