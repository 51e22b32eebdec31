/* SPDX-License-Identifier: Apache-2.0
 *
 * stage2.c - ZeRO 2: gradients, too, are split over all ranks. After a list of units is reduced to
 * their owners, no rank holds their gradients whole.
 */
#include "policy.h"

ZERO_STAGE("stage2", "ZeRO stage 2: gradients and optimizer's state are split over all ranks.",
	   POLICY_WHOLE_OPTS, policy_at, .param = ZR_GROUP_SELF, .grad = ZR_GROUP_WORLD,
	   .state = ZR_GROUP_WORLD);
