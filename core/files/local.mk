# SPDX-License-Identifier: Apache-2.0
#
# core/files: what lies on disk, whatever is in it: types of elements, regular files and directories
# that Zeroth owns, JSON.
core_libcore_la_SOURCES += \
	core/files/dtype.c core/files/dtype.h \
	core/files/file.c core/files/file.h \
	core/files/json.c core/files/json.h
