# One part per role; each says where its plugins install and which they are.
EXTRA_DIST += %D%/descriptor.h

include plugins/activation/local.mk
include plugins/adapter/local.mk
include plugins/boot/local.mk
include plugins/comm/local.mk
include plugins/data/local.mk
include plugins/device/local.mk
include plugins/model/local.mk
include plugins/monitor/local.mk
include plugins/offload/local.mk
include plugins/optimizer/local.mk
include plugins/precision/local.mk
include plugins/scheduler/local.mk
include plugins/zero/local.mk
