# SPDX-License-Identifier: Apache-2.0
#
# core/checkpoint: files of a training's state, and the way to them and back.
core_libcore_la_SOURCES += \
	core/checkpoint/checkpoint.h core/checkpoint/describe.c core/checkpoint/entry_data.c core/checkpoint/load.c \
	core/checkpoint/replicas.c core/checkpoint/save.c core/checkpoint/writer.c core/checkpoint/writer.h \
	core/checkpoint/dir.c core/checkpoint/dir.h \
	core/checkpoint/entries.c \
	core/checkpoint/frozen.c \
	core/checkpoint/manifest.c core/checkpoint/manifest.h core/checkpoint/manifest_read.c \
	core/checkpoint/reader.c core/checkpoint/reader.h
