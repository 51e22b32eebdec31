# SPDX-License-Identifier: Apache-2.0
#
# core/files: what lies on disk, whatever is in it: types of elements, regular files and directories
# that Zeroth owns, JSON, safetensors.
core_libcore_la_SOURCES += \
	core/files/dtype.c core/files/dtype.h \
	core/files/file.c core/files/file.h \
	core/files/json.c core/files/json.h \
	core/files/safetensors.c core/files/safetensors_write.c core/files/safetensors.h
