# SPDX-License-Identifier: Apache-2.0
#
# core: the microkernel, a convenience library of the program `zeroth`.

noinst_LTLIBRARIES += core/libcore.la
core_libcore_la_CPPFLAGS = $(AM_CPPFLAGS) $(INIH_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) \
	-DZR_PLUGINDIR='"$(plugindir)"' -DZR_DATADIR='"$(pkgdatadir)"' -DZR_PREFIX='"$(prefix)"' \
	-DZR_BINDIR='"$(bindir)"' -DZR_LIBDIR='"$(libdir)"'
core_libcore_la_LIBADD = $(INIH_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) $(DL_LIBS) -lpthread -lm
core_libcore_la_SOURCES = \
	core/session.c core/session_open.c core/session.h core/step.c core/values.c core/values.h \
	core/persistent.c core/persistent.h \
	core/setup.c core/setup_open.c core/setup_start.c core/setup_layers.c core/setup_codes.c \
	core/setup_homes.c core/setup.h

# The paths are compiled in: another --prefix must reach them.
core/plugin/libcore_la-prefix.lo core/plugin/libcore_la-plugin_find.lo: Makefile

include core/base/local.mk
include core/config/local.mk
include core/plugin/local.mk
include core/model/local.mk
include core/memory/local.mk
include core/program/local.mk
include core/lower/local.mk
include core/exec/local.mk
include core/update/local.mk
include core/pretrained/local.mk
