/* SPDX-License-Identifier: Apache-2.0
 *
 * stacks.h - a process that is asked to shows the stack of each of its threads on standard error.
 */
#ifndef ZR_TRAIN_RUN_STACKS_H
#define ZR_TRAIN_RUN_STACKS_H

#include "core/base/pool.h"

/* From now on ZR_SIGNAL_STACKS asks for it. [main] */
void zr_stacks_watch(void);

#endif
