/* SPDX-License-Identifier: Apache-2.0
 *
 * damage.h - random damage to a text, as a function of a seed: what fails once fails again.
 */
#ifndef ZR_TESTS_FUZZ_DAMAGE_H
#define ZR_TESTS_FUZZ_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

void fuzz_seed(uint64_t seed);
uint32_t fuzz_draw(uint32_t n); /* in [0, n) */
/* Changes text[n], which has room; returns the new length. */
size_t fuzz_damage(char *text, size_t n, size_t room);

#endif
