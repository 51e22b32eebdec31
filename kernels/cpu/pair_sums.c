/* SPDX-License-Identifier: Apache-2.0
 *
 * pair_sums.c - sums of pairs by the processor, to be compared with bf16_pairs.h.
 */
#include "bf16_pairs.h"

#include <immintrin.h>

void zr_pair_sums_avx512bf16(float *sum, const uint16_t *a, const uint16_t *b)
{
	__m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(b);
	_mm512_storeu_ps(sum, _mm512_dpbf16_ps(_mm512_loadu_ps(sum), (__m512bh)x, (__m512bh)y));
}
