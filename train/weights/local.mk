# SPDX-License-Identifier: Apache-2.0
#
# train/weights: what others read of a run: exports, merged adapters, bases, configurations.
train_libtrain_la_SOURCES += \
	%D%/added.c %D%/added.h \
	%D%/base.c %D%/base.h \
	%D%/base_check.c %D%/base_check.h \
	%D%/declare.c %D%/declare.h \
	%D%/export.c %D%/export.h \
	%D%/export_checkpoint.c \
	%D%/export_files.c \
	%D%/former.c %D%/former.h \
	%D%/merge.c %D%/merge.h \
	%D%/origin.c %D%/origin.h \
	%D%/saved.c %D%/saved.h
