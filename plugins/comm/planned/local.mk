# SPDX-License-Identifier: Apache-2.0
#
# comm/planned: stands for a library that moves the memory of cards.
commplugin_LTLIBRARIES += plugins/comm/planned.la
plugins_comm_planned_la_SOURCES = %D%/planned.c
plugins_comm_planned_la_CFLAGS = $(PLUGIN_CFLAGS)
plugins_comm_planned_la_LDFLAGS = $(PLUGIN_LDFLAGS)
