# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role offload: where data lives that does not fit the device.
offloadplugindir = $(plugindir)/offload
offloadplugin_LTLIBRARIES = %D%/cpu.la

%C%_cpu_la_SOURCES = %D%/cpu.c
%C%_cpu_la_CFLAGS = $(PLUGIN_CFLAGS)
%C%_cpu_la_LDFLAGS = $(PLUGIN_LDFLAGS)

include plugins/offload/nvme/local.mk
