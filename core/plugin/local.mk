# SPDX-License-Identifier: Apache-2.0
#
# core/plugin: plugin files, from a name to what was loaded; instances and the services that they get.
core_libcore_la_SOURCES += \
	%D%/host.c %D%/host.h \
	%D%/loader.c %D%/loader.h \
	%D%/plugin_file.c %D%/plugin_file.h \
	%D%/plugin_find.c \
	%D%/prefix.c %D%/prefix.h \
	%D%/role.c %D%/role.h %D%/roles.def
