/* SPDX-License-Identifier: Apache-2.0
 *
 * product_in_double.h - a matrix product in double precision, which those of a device are held to.
 */
#ifndef ZR_TESTS_PRODUCT_IN_DOUBLE_H
#define ZR_TESTS_PRODUCT_IN_DOUBLE_H

#include "tests/lib/testdevice.h"

struct factor {
	const void *p;
	int32_t dtype;
	int64_t stride;
	int transposed;
};

static inline double factor_value(const struct factor *f, int64_t i, int64_t j)
{
	return get(f->p, f->dtype, f->transposed ? j * f->stride + i : i * f->stride + j);
}

/* Adds gain A B to the sums and the magnitudes of what is added to the sizes: m x n without gaps,
 * each element in ascending order of k. */
static inline void add_product(double *sums, double *sizes, const int64_t mnk[3], double gain,
			       const struct factor *a, const struct factor *b)
{
	const int64_t m = mnk[0], n = mnk[1], depth = mnk[2];
	double *wide = malloc((size_t)(depth * n + 1) * sizeof *wide); /* B */
	if (!wide)
		abort();
	for (int64_t k = 0; k < depth; k++)
		for (int64_t j = 0; j < n; j++)
			wide[k * n + j] = factor_value(b, k, j);
	for (int64_t i = 0; i < m; i++)
		for (int64_t k = 0; k < depth; k++) {
			const double x = gain * factor_value(a, i, k);
			for (int64_t j = 0; j < n; j++) {
				const double y = x * wide[k * n + j];
				sums[i * n + j] += y;
				sizes[i * n + j] += fabs(y);
			}
		}
	free(wide);
}

/* Whether `got` is `want` but for fp32's rounding of sums of length k, which add magnitudes of
 * `size`, and one rounding to the type that is stored. */
static inline int product_close(double got, double want, double size, int64_t k, int32_t dtype)
{
	double tol = size * 0x1p-24 * (4 + sqrt((double)k));
	if (dtype == ZR_BF16)
		tol += fabs(want) * 0x1.02p-8;
	if (dtype == ZR_F16)
		tol += fabs(want) * 0x1.02p-11 + 0x1p-25;
	return fabs(got - want) <= tol;
}

/* What GELU makes of a product. */
static inline double product_gelu(double x, int32_t activation)
{
	if (activation == ZR_ACT_GELU_ERF)
		return x * erfc(-x * M_SQRT1_2) / 2;
	return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* ---- all instruction sets ---- */

/* Those that this processor has, opened; dev_isas names them. */
static struct dev variant[DEV_VARIANTS];
static int has_variant[DEV_VARIANTS];

static inline int open_variants(void **state)
{
	(void)state;
	for (int i = 0; i < DEV_VARIANTS; i++)
		has_variant[i] = !dev_open_variant(&variant[i], 2, i);
	return !has_variant[0];
}

static inline int close_variants(void **state)
{
	(void)state;
	for (int i = 0; i < DEV_VARIANTS; i++)
		dev_close(&variant[i]);
	return 0;
}

static inline void on_every_variant(void (*fn)(const struct dev *, const char *))
{
	for (int i = 0; i < DEV_VARIANTS; i++)
		if (has_variant[i])
			fn(&variant[i], dev_isas[i]);
}

#endif
