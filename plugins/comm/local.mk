# SPDX-License-Identifier: Apache-2.0
#
# Plugins of the role comm: what moves between ranks.
commplugindir = $(plugindir)/comm
commplugin_LTLIBRARIES =
comm_segment = %D%/checks.h %D%/names.h %D%/segment.h
comm_sum = %D%/sum.c %D%/sum.h
comm_header = %D%/header.c %D%/header.h

include plugins/comm/local/local.mk
include plugins/comm/mpi/local.mk
include plugins/comm/nccl/local.mk
include plugins/comm/planned/local.mk
include plugins/comm/tcp/local.mk
