# SPDX-License-Identifier: Apache-2.0
#
# files/checkpoint: files of a training's state, and the way to them and back.
files_libfiles_la_SOURCES += \
	%D%/checkpoint.h %D%/describe.c \
	%D%/dir.c %D%/dir.h \
	%D%/entries.c %D%/entry_data.c \
	%D%/load.c \
	%D%/manifest.c %D%/manifest.h %D%/manifest_read.c \
	%D%/reader.c %D%/reader.h \
	%D%/replicas.c \
	%D%/save.c \
	%D%/writer.c %D%/writer.h
