/* SPDX-License-Identifier: Apache-2.0
 *
 * multiply.h - multiply-adds of registers alone: what a processor's products cannot be faster than.
 */
#ifndef ZR_CMD_BENCH_MULTIPLY_H
#define ZR_CMD_BENCH_MULTIPLY_H

#include <stdint.h>

/* Does them so many times over on this thread; returns how many operations that were. */
typedef double zr_multiply_fn(int64_t rounds);

/* By the widest instruction of the processor; of bf16 by the one that the kernels called `variant`
 * have for it, NULL if they have none. Tile registers are the device's to ask the system for. */
zr_multiply_fn *zr_multiply_of(int bf16, const char *variant);

#endif
