/* SPDX-License-Identifier: Apache-2.0
 *
 * stage0.c - nothing is split: every rank holds all parameters, gradients and optimizer state.
 * Parameters are always whole, so nothing is ever gathered.
 */
#include "policy.h"

ZERO_STAGE("stage0", "Plain data parallelism: every rank holds everything.", POLICY_WHOLE_OPTS,
	   policy_at, .param = ZR_GROUP_SELF, .grad = ZR_GROUP_SELF, .state = ZR_GROUP_SELF);
