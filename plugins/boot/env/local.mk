# SPDX-License-Identifier: Apache-2.0
#
# boot/env: ranks named by the environment, who meet over TCP or in a directory.
bootplugin_LTLIBRARIES += plugins/boot/env.la
boot_meeting = %D%/env.h %D%/file.c %D%/join.c \
	%D%/name.c %D%/place.c %D%/role.c %D%/sweep.c %D%/tcp.h %D%/tcp_address.c %D%/tcp_client.c %D%/tcp_listen.c \
	%D%/tcp_place.c %D%/tcp_proof.c %D%/tcp_server.c %D%/wait.c
plugins_boot_env_la_SOURCES = %D%/env.c $(boot_meeting)
plugins_boot_env_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_boot_env_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_boot_env_la_LIBADD = $(CRYPT_LIBS)
