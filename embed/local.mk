# SPDX-License-Identifier: Apache-2.0
#
# embed: the library libzeroth, for programs that train.

noinst_LTLIBRARIES += %D%/libembed.la
embed_libembed_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
embed_libembed_la_LIBADD = train/libtrain.la
embed_libembed_la_SOURCES = %D%/engine.h %D%/boot.c %D%/calls.c %D%/engine.c %D%/files.c %D%/handover.c \
	%D%/model.c %D%/open.c %D%/outside.c %D%/rank.c %D%/unused.c %D%/values.c

# Its version is that of libtool: current, revision and age of the interface.
lib_LTLIBRARIES = libzeroth.la
libzeroth_la_SOURCES =
libzeroth_la_LIBADD = %D%/libembed.la
libzeroth_la_LDFLAGS = -version-info 0:0:0 -Wl,--version-script=$(srcdir)/%D%/zeroth.map $(NO_UNDEFINED)
libzeroth_la_DEPENDENCIES = %D%/libembed.la %D%/zeroth.map

EXTRA_DIST += %D%/zeroth.map

# The static library: one object, in which what the library does not export is local, as in the shared one.
libzeroth_archivedir = $(libdir)
nodist_libzeroth_archive_DATA = libzeroth.a
libzeroth.a: %D%/libembed.la
	$(AM_V_AR)$(LD) -r -o libzeroth.o --whole-archive %D%/.libs/libembed.a --no-whole-archive && \
	$(OBJCOPY) --wildcard --keep-global-symbol='zeroth_[a-z]*' libzeroth.o && \
	rm -f $@ && $(AR) cr $@ libzeroth.o && rm -f libzeroth.o
CLEANFILES += libzeroth.a

# For Python, with PYTHONPATH, or as a copy: it needs nothing but libzeroth, and zeroth.torch PyTorch.
zeroth_pythondir = $(pkgdatadir)/python/zeroth
dist_zeroth_python_DATA = %D%/zeroth/__init__.py %D%/zeroth/data.py %D%/zeroth/devices.py %D%/zeroth/outside.py %D%/zeroth/tables.py %D%/zeroth/torch.py
