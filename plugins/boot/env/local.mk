# SPDX-License-Identifier: Apache-2.0
#
# boot/env: ranks named by the environment, who meet in a directory.
bootplugin_LTLIBRARIES += plugins/boot/env.la
plugins_boot_env_la_SOURCES = %D%/env.c %D%/env.h %D%/file.c %D%/join.c \
	%D%/name.c %D%/place.c %D%/sweep.c %D%/wait.c
plugins_boot_env_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_boot_env_la_LDFLAGS = $(PLUGIN_LDFLAGS)
