/* SPDX-License-Identifier: Apache-2.0
 *
 * stage1.c - ZeRO 1: the optimizer's state is split over all ranks. Each updates its own blocks;
 * publishing gathers the new parameters.
 */
#include "policy.h"

ZERO_STAGE("stage1", "ZeRO stage 1: the optimizer's state is split over all ranks.",
	   POLICY_WHOLE_OPTS, policy_at, .param = ZR_GROUP_SELF, .grad = ZR_GROUP_SELF,
	   .state = ZR_GROUP_WORLD);
