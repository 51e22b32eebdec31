/* SPDX-License-Identifier: Apache-2.0
 *
 * hpz.c - ZeRO++'s hierarchical partition: parameters are split over the ranks of a node only, so
 * gathering never leaves it, at the price of one copy per node; gradients and optimizer's state are
 * split over all ranks.
 */
#include "policy.h"

ZERO_STAGE("hpz", "ZeRO stage 3 with parameters split inside each node (ZeRO++ hpZ).",
	   POLICY_SPLIT_OPTS, split_at, .param = ZR_GROUP_NODE, .grad = ZR_GROUP_WORLD,
	   .state = ZR_GROUP_WORLD);
