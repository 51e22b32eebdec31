/* SPDX-License-Identifier: Apache-2.0
 *
 * mics.c - everything is split over the ranks of a node only, and each node has a copy: what layers
 * gather never leaves it, nor do new values (MiCS; hybrid sharding).
 */
#include "policy.h"

ZERO_STAGE("mics",
	   "ZeRO stage 3 inside each node: parameters, gradients and state once per node (MiCS, "
	   "hybrid sharding).",
	   POLICY_SPLIT_OPTS, split_at, .param = ZR_GROUP_NODE, .grad = ZR_GROUP_NODE,
	   .state = ZR_GROUP_NODE);
