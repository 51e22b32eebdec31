# SPDX-License-Identifier: Apache-2.0
#
# boot/pmix: ranks named by PMIx, who meet as those of boot/env.
if HAVE_PMIX
bootplugin_LTLIBRARIES += plugins/boot/pmix.la
endif
plugins_boot_pmix_la_SOURCES = %D%/pmix.c $(boot_meeting)
plugins_boot_pmix_la_CFLAGS = $(PLUGIN_CFLAGS) $(PMIX_CFLAGS)
plugins_boot_pmix_la_LDFLAGS = $(PLUGIN_LDFLAGS)
plugins_boot_pmix_la_LIBADD = $(PMIX_LIBS) $(CRYPT_LIBS)
