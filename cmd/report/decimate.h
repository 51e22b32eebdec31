/* SPDX-License-Identifier: Apache-2.0
 *
 * decimate.h - fewer points that look the same. Points whose y is not finite are left out. [pure]
 */
#ifndef ZR_REPORT_DECIMATE_H
#define ZR_REPORT_DECIMATE_H

#include <stdint.h>

int64_t zr_finite_points(const double *y, int64_t n); /* how many */

/* Indices, ascending, of the least and the greatest y of each of `parts` equal parts of the points,
 * and of the first and the last point; of all where there are no more than that. at: [2 * parts +
 * 2]. Returns how many. */
int64_t zr_decimate(const double *y, int64_t n, int64_t parts, int64_t *at);

/* The mean of x and of y in each of `parts` equal parts. mean_x, mean_y: [parts]. Returns how many
 * parts have points. */
int64_t zr_part_means(const double *x, const double *y, int64_t n, int64_t parts, double *mean_x,
		      double *mean_y);

#endif
