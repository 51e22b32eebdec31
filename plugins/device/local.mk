# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role device: where computation happens.
deviceplugindir = $(plugindir)/device
deviceplugin_LTLIBRARIES =

include plugins/device/cpu/local.mk
include plugins/device/cuda/local.mk
