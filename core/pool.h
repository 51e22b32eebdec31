/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h - core's threads, the only ones that compute. One pool per process, the caller works too. A job is
 * n items handed out one by one; which thread gets which is left open, so results must not depend on it.
 * Each thread runs with round-to-nearest and denormals on (invariant I1), set at its start.
 */
#ifndef ZR_CORE_POOL_H
#define ZR_CORE_POOL_H

#include <stdint.h>

struct zr_pool;

int zr_pool_new(int threads, struct zr_pool **out); /* threads >= 1, the caller included; 0 or -errno */
void zr_pool_free(struct zr_pool *p);
int zr_pool_size(const struct zr_pool *p);
void zr_pool_run(struct zr_pool *p, int64_t n, void (*fn)(void *arg, int64_t item, int32_t worker), void *arg);

#endif
