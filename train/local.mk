# SPDX-License-Identifier: Apache-2.0
#
# train: what trains, below the commands and libzeroth.

# What a training does beside its steps, without a word about it: libzeroth has it, too.
noinst_LTLIBRARIES += train/libtrain.la
train_libtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
train_libtrain_la_LIBADD = files/libfiles.la core/libcore.la $(JANSSON_LIBS) $(XXHASH_LIBS)
train_libtrain_la_SOURCES = \
	train/adapter.c train/adapter.h \
	train/evaluate.c train/evaluate.h \
	train/fit.c train/fit.h \
	train/launcher.c train/launcher.h \
	train/lock.c train/lock.h \
	train/metrics.c train/metrics.h \
	train/resume.c train/resume.h \
	train/run_eval.c train/run_eval.h \
	train/room.c train/room.h \
	train/rundir.c train/rundir.h \
	train/settings.c train/settings.h \
	train/share.c train/share.h \
	train/weights.c train/weights.h train/weights_files.c

# A whole run with its output.
noinst_LTLIBRARIES += train/librun.la
train_librun_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
train_librun_la_LIBADD = train/libtrain.la files/tokenizer/libtokenizer.la $(JANSSON_LIBS) $(XXHASH_LIBS)
train_librun_la_SOURCES =

include train/weights/local.mk
include train/run/local.mk
include train/forecast/local.mk
