# SPDX-License-Identifier: Apache-2.0
#
# files/direct: files past the page cache.
files_libfiles_la_SOURCES += %D%/direct.c %D%/direct.h
