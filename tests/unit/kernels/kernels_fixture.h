/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_fixture.h - what the tests of the row and element kernels share: the variants this
 * machine can run, guarded buffers of any dtype, drawn inputs, golden values.
 */
#ifndef ZEROTH_TESTS_KERNELS_FIXTURE_H
#define ZEROTH_TESTS_KERNELS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <kernels.h>

#include <cmocka.h> /* last: it makes `fail` a macro */

/* Variant i, scalar first; NULL past the last one that this build has. */
const struct zr_cpu_kernels *fixture_kernels(int i);
/* Whether this CPU runs it. */
int fixture_runs(const struct zr_cpu_kernels *k);

/* n elements of poison (NaN if read) between guards of the same, another one for each buffer.
 * Freed, and the guards checked, by fixture_release(). */
void *fixture_buffer(int64_t n, int32_t dtype);
void fixture_release(void);

int64_t fixture_size(int32_t dtype);
double fixture_get(const void *p, int64_t i, int32_t dtype);
void fixture_set(void *p, int64_t i, int32_t dtype, double x); /* x is exact in dtype */

/* Draws the numbers of golden/make_kernels.py: multiples of 1/64 in [-2, 2). */
double fixture_draw(uint64_t *state);
/* A new buffer of them, each times `scale`, a power of two. */
void *fixture_drawn(uint64_t *state, int64_t n, int32_t dtype, double scale);

/* Fails the test unless |a - b| <= tolerance. */
void fixture_near(double a, double b, double tolerance);

/* Compares n elements with a line of golden/kernels.txt; |difference| <= tolerance * (1 +
 * |golden|). Fails the test with `what`, the name and the first bad index. */
void fixture_golden(const char *what, const char *name, const void *p, int64_t n, int32_t dtype,
		    double tolerance);

#endif
