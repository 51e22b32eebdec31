# SPDX-License-Identifier: Apache-2.0
#
# core: the microkernel, a convenience library of the program `zeroth`.

noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(INIH_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) \
	-DZR_PLUGINDIR='"$(plugindir)"' -DZR_DATADIR='"$(pkgdatadir)"' -DZR_PREFIX='"$(prefix)"' \
	-DZR_BINDIR='"$(bindir)"' -DZR_LIBDIR='"$(libdir)"'
core_libcore_la_LIBADD = $(INIH_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) $(DL_LIBS) -lpthread -lm
core_libcore_la_SOURCES = \
	core/child.c core/child.h \
	core/error.c core/error.h \
	core/exact.c core/exact.h \
	core/log.c core/log.h core/text.c core/text.h \
	core/list.h core/pages.c core/pages.h core/pool.c core/pool.h \
	core/session.c core/session_open.c core/session.h core/step.c core/values.c core/values.h \
	core/setup.c core/setup_open.c core/setup_start.c core/setup.h

# What files/ needs of it where a plugin links those.
noinst_LTLIBRARIES += core/libbase.la
core_libbase_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
core_libbase_la_LIBADD = $(JANSSON_LIBS)
core_libbase_la_SOURCES = core/error.c core/pages.c core/text.c core/files/file.c core/files/json.c

# The paths are compiled in: another --prefix must reach them.
core/plugin/libcore_la-prefix.lo core/plugin/libcore_la-plugin_find.lo: Makefile

include core/config/local.mk
include core/plugin/local.mk
include core/model/local.mk
include core/memory/local.mk
include core/program/local.mk
include core/lower/local.mk
include core/exec/local.mk
include core/update/local.mk
include core/files/local.mk
include core/pretrained/local.mk
