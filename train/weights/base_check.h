/* SPDX-License-Identifier: Apache-2.0
 *
 * base_check.h - whether the model beside which a run trained its adapters is still what it was.
 * [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_BASE_CHECK_H
#define ZR_TRAIN_WEIGHTS_BASE_CHECK_H

#include "core/session.h"

/* The session began with [model] path and the adapters of `run`, a run or one of its checkpoints.
 * ZR_EINVAL: a frozen tensor is not what this, or the run's newest, checkpoint has the hash of.
 * Without a checkpoint that has hashes nothing is known, and nothing read; where the session keeps
 * values in another type than the training did, that is logged instead. Collective. */
int zr_base_check(struct zr_session *s, const char *run, struct zr_error *err);

#endif
