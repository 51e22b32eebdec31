/* SPDX-License-Identifier: Apache-2.0
 *
 * decimate.c - see decimate.h.
 */
#include "cmd/report/decimate.h"

#include <math.h>

int64_t zr_finite_points(const double *y, int64_t n)
{
	int64_t points = 0;
	for (int64_t i = 0; i < n; i++)
		points += isfinite(y[i]) != 0;
	return points;
}

static int64_t append(int64_t *at, int64_t n, int64_t i)
{
	if (n && at[n - 1] >= i)
		return n;

	at[n] = i;
	return n + 1;
}

int64_t zr_decimate(const double *y, int64_t n, int64_t parts, int64_t *at)
{
	const int64_t points = zr_finite_points(y, n);
	int64_t seen = 0, out = 0, low = -1, high = -1, last = -1;

	for (int64_t i = 0; i < n; i++) {
		if (!isfinite(y[i]))
			continue;
		if (points <= 2 * parts + 2) {
			at[out++] = i;
			continue;
		}

		if (!seen)
			out = append(at, out, i);
		low = low < 0 || y[i] < y[low] ? i : low;
		high = high < 0 || y[i] > y[high] ? i : high;
		last = i;
		seen++;
		/* the end of a part */
		if (seen * parts / points != (seen - 1) * parts / points) {
			out = append(at, out, low < high ? low : high);
			out = append(at, out, low < high ? high : low);
			low = high = -1;
		}
	}

	return last < 0 ? out : append(at, out, last);
}

int64_t zr_part_means(const double *x, const double *y, int64_t n, int64_t parts, double *mean_x,
		      double *mean_y)
{
	const int64_t points = zr_finite_points(y, n);
	int64_t seen = 0, out = 0, in_part = 0;
	double sum_x = 0, sum_y = 0;

	if (parts > points)
		parts = points;
	for (int64_t i = 0; i < n; i++) {
		if (!isfinite(y[i]))
			continue;

		sum_x += x[i];
		sum_y += y[i];
		in_part++;
		seen++;
		if (seen * parts / points != (seen - 1) * parts / points) {
			mean_x[out] = sum_x / (double)in_part;
			mean_y[out++] = sum_y / (double)in_part;
			sum_x = sum_y = 0;
			in_part = 0;
		}
	}

	return out;
}
