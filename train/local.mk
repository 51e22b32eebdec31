# SPDX-License-Identifier: Apache-2.0
#
# train: what trains, below the commands and libzeroth.

# What a training does without a word about it: libzeroth has it, too.
noinst_LTLIBRARIES += train/libtrain.la
train_libtrain_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
train_libtrain_la_LIBADD = files/libfiles.la files/tokenizer/libtokenizer.la core/libcore.la \
	$(JANSSON_LIBS) $(XXHASH_LIBS)
train_libtrain_la_SOURCES = \
	train/adapter.c train/adapter.h train/adapter_copies.c \
	train/alike.c train/alike.h \
	train/beat.c train/beat.h \
	train/evaluate.c train/evaluate.h \
	train/file_hash.c train/file_hash.h \
	train/fit.c train/fit.h \
	train/inputs.c train/inputs.h \
	train/launcher.c train/launcher.h \
	train/lock.c train/lock.h \
	train/metrics.c train/metrics.h \
	train/pace.c train/pace.h \
	train/probe.c train/probe.h \
	train/resume.c train/resume.h \
	train/room.c train/room.h \
	train/run_eval.c train/run_eval.h \
	train/run_metrics.c train/run_metrics.h \
	train/rundir.c train/rundir.h \
	train/settings.c train/settings.h \
	train/share.c train/share.h \
	train/trainer.c train/trainer.h \
	train/weights.c train/weights.h train/weights_files.c

include train/weights/local.mk
include train/gguf/local.mk
include train/forecast/local.mk

# A whole run with its output.
noinst_LTLIBRARIES += train/librun.la
train_librun_la_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
train_librun_la_LIBADD = train/libtrain.la $(JANSSON_LIBS) $(XXHASH_LIBS)
train_librun_la_SOURCES =

include train/run/local.mk
