/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h - core's threads, the only ones that compute. One pool per process, the caller works too.
 * A job is n items handed out one by one. A thread begins with those of its share, but which gets
 * which is left open, so results must not depend on it. Each item starts with round-to-nearest and
 * denormals on (invariant I1).
 */
#ifndef ZR_CORE_BASE_POOL_H
#define ZR_CORE_BASE_POOL_H

#include <signal.h>
#include <stdint.h>

#define ZR_SIGNAL_STACKS (SIGRTMAX - 1) /* shows the stack of a thread */

/* Before a thread of ours is made: the caller's mask, and with it that of the new one, leaves all
 * signals to the control thread but those of its own crash and ZR_SIGNAL_STACKS. The mask before
 * is to be restored. [any] */
void zr_pool_mask(sigset_t *before);

struct zr_pool;
typedef void zr_pool_fn(void *arg, int64_t item, int32_t worker);

/* threads >= 1, the caller included; 0 or -errno */
int zr_pool_new(int threads, struct zr_pool **out);
void zr_pool_free(struct zr_pool *p);
int zr_pool_size(const struct zr_pool *p);
/* Puts back how the processor rounds on this thread; whether something changed it here or, since
 * the last call, in an item. p may be NULL. */
int zr_pool_rounding(struct zr_pool *p);
/* One job after the other, whoever calls; an item runs no job. [any] */
void zr_pool_run(struct zr_pool *p, int64_t n, zr_pool_fn *fn, void *arg);

#endif
