# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role model: units of parameters, layers, their forward and backward.
modelplugindir = $(plugindir)/model
modelplugin_LTLIBRARIES =
model_parts = %D%/carver.h %D%/declare.h %D%/head.c %D%/head.h

include plugins/model/gpt2/local.mk
include plugins/model/llama/local.mk
