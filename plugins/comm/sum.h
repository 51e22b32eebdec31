/* SPDX-License-Identifier: Apache-2.0
 *
 * sum.h - copies and sums of what several ranks hold.
 */
#ifndef ZR_COMM_SUM_H
#define ZR_COMM_SUM_H

#include <stdint.h>

void zl_copy(void *to, const void *from, uint64_t bytes, int stream);
void zl_sum(int32_t dtype, char *const *to, int32_t n_to, const char *const *from, int32_t ranks,
	    uint64_t bytes, int stream);

#endif
