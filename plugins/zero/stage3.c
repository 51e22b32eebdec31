/* SPDX-License-Identifier: Apache-2.0
 *
 * stage3.c - ZeRO 3: parameters, too, are split over all ranks and gathered around their uses.
 * Small units stay whole.
 */
#include "policy.h"

ZERO_STAGE("stage3",
	   "ZeRO stage 3: parameters, gradients and optimizer's state are split over all ranks.",
	   POLICY_SPLIT_OPTS, split_at, .param = ZR_GROUP_WORLD, .grad = ZR_GROUP_WORLD,
	   .state = ZR_GROUP_WORLD);
