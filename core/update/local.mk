# SPDX-License-Identifier: Apache-2.0
#
# core/update: the update of what this rank holds.
core_libcore_la_SOURCES += \
	%D%/update.c
