/* SPDX-License-Identifier: Apache-2.0
 *
 * mma.h - products of small matrices of 16-bit numbers on tensor cores: D[16,8] += A[16,16]
 * B[16,8], fp32 sums. A warp holds each matrix in pieces. With lane l, g = l / 4 and t = l % 4, a
 * register has two elements, lower half first:
 *
 *   A, 4 registers:  (g, 2t), (g+8, 2t), (g, 2t+8), (g+8, 2t+8), and the element right of each
 *   B, 2 registers:  (2t, g), (2t+8, g), and the element below each
 *   D, 4 floats:     (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)
 *
 * So two D side by side, rounded, are an A: what attention does with its probabilities.
 *
 * zr_load_rows and zr_load_transposed bring pieces from shared memory, four 8x8 matrices at a time:
 * lane l knows where row l % 8 of matrix l / 8 is, 16 bytes. Of each it gets the numbers (g, 2t)
 * and the one right of it; transposed (2t, g) and the one below. zr_copy16 starts to copy 16 bytes
 * from global memory to shared memory, or zeros if it is not `inside`, and zr_copy4 four; zr_copied
 * waits for all that this thread has started, and a barrier then shows them to the others.
 */
#ifndef ZEROTH_KERNELS_CUDA_MMA_H
#define ZEROTH_KERNELS_CUDA_MMA_H

#include "kernel.h"

#ifdef ZR_CUDA_EMULATED

ZR_DEVICE float zr_half_of(uint32_t pair, int high, bf16)
{
	return zr_from_bf16((uint16_t)(high ? pair >> 16 : pair));
}

ZR_DEVICE float zr_half_of(uint32_t pair, int high, f16)
{
	return zr_from_f16((uint16_t)(high ? pair >> 16 : pair));
}

/* Two numbers to the nearest, ties to even. */
ZR_DEVICE uint32_t zr_pair(float low, float high, bf16)
{
	uint32_t a = zr_bits(low), b = zr_bits(high);
	return (a + 0x7fff + (a >> 16 & 1)) >> 16 | ((b + 0x7fff + (b >> 16 & 1)) & 0xffff0000u);
}

ZR_DEVICE uint32_t zr_pair(float low, float high, f16)
{
	return zr_f16(low) | (uint32_t)zr_f16(high) << 16;
}

/* By value, as what an unseen function gets the address of is watched. */
struct zr_four {
	float x[4];
};

/* Of what the lanes show, the numbers in the order of their registers. */
template <class T>
ZR_UNSEEN zr_four zr_multiply(zr_four d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
			      uint32_t b0, uint32_t b1, T type)
{
	const int lane = emulated::now % ZR_WARP, g = lane / 4, t = lane % 4;
	const uint32_t pair[6] = { a0, a1, a2, a3, b0, b1 };
	uint32_t mine[12];
	for (int i = 0; i < 12; i++)
		mine[i] = zr_bits(zr_half_of(pair[i / 2], i % 2, type));
	const emulated::words *all = emulated::show(mine, 12);
	for (int k = 0; k < 16; k++) {
		const uint32_t *a = all[g * 4 + k % 8 / 2] + k / 8 * 4 + k % 2,
			       *b = all[t * 8 + k % 8 / 2] + 8 + k / 8 * 2 + k % 2,
			       *right = b + 4 * (sizeof *all / sizeof *b);
		float row[2], col[2];
		memcpy(&row[0], a, sizeof *row);
		memcpy(&row[1], a + 2, sizeof *row);
		memcpy(&col[0], b, sizeof *col);
		memcpy(&col[1], right, sizeof *col);
		for (int i = 0; i < 4; i++)
			d.x[i] += row[i / 2] * col[i % 2];
	}
	return d;
}

template <class T>
ZR_DEVICE void zr_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T type)
{
	const zr_four sum = zr_multiply(zr_four{ { d[0], d[1], d[2], d[3] } }, a[0], a[1], a[2],
					a[3], b0, b1, type);
	for (int i = 0; i < 4; i++)
		d[i] = sum.x[i];
}

ZR_DEVICE void zr_load_four(uint32_t (&r)[4], const void *row, int transposed)
{
	const int lane = emulated::now % ZR_WARP, g = lane / 4, t = lane % 4;
	const emulated::words *all = emulated::show_two((uint64_t)(uintptr_t)row);
	for (int m = 0; m < 4; m++) {
		r[m] = 0;
		for (int half = 0; half < 2; half++) {
			const int from_lane = m * 8 + (transposed ? 2 * t + half : g);
			const uint16_t *from =
				(const uint16_t *)(uintptr_t)emulated::shown_two(all[from_lane]);
			r[m] |= (uint32_t)from[transposed ? g : 2 * t + half] << 16 * half;
		}
	}
}

ZR_DEVICE void zr_load_rows(uint32_t (&r)[4], const void *row)
{
	zr_load_four(r, row, 0);
}

ZR_DEVICE void zr_load_transposed(uint32_t (&r)[4], const void *row)
{
	zr_load_four(r, row, 1);
}

ZR_DEVICE void zr_copy16(void *shared, const void *global, bool inside)
{
	emulated::copy_later(shared, inside ? global : NULL, 16);
}

ZR_DEVICE void zr_copy4(void *shared, const void *global, bool inside)
{
	emulated::copy_later(shared, inside ? global : NULL, 4);
}

ZR_DEVICE void zr_copied()
{
	emulated::copy_now();
}

ZR_DEVICE float zr_smaller(float a, float b)
{
	return b < a || b != b ? b : a;
}

ZR_DEVICE float zr_exp2(float x)
{
	return exp2f(x);
}

ZR_DEVICE float zr_log2(float x)
{
	return log2f(x);
}

ZR_DEVICE float zr_reciprocal(float x)
{
	return 1 / x;
}

#else

ZR_DEVICE uint32_t zr_pair(float low, float high, bf16)
{
	uint32_t r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
	return r;
}

ZR_DEVICE uint32_t zr_pair(float low, float high, f16)
{
	uint32_t r;
	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
	return r;
}

ZR_DEVICE void zr_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
	    "{%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

ZR_DEVICE void zr_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
	    "{%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

ZR_DEVICE void zr_load_rows(uint32_t (&r)[4], const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
}

ZR_DEVICE void zr_load_transposed(uint32_t (&r)[4], const void *row)
{
	uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at)
		     : "memory");
}

ZR_DEVICE void zr_copy16(void *shared, const void *global, bool inside)
{
	uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
		     :
		     : "r"(to), "l"(global), "r"(inside ? 16 : 0)
		     : "memory");
}

ZR_DEVICE void zr_copy4(void *shared, const void *global, bool inside)
{
	uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
		     :
		     : "r"(to), "l"(global), "r"(inside ? 4 : 0)
		     : "memory");
}

ZR_DEVICE void zr_copied()
{
	asm volatile("cp.async.wait_all;" : : : "memory");
}

/* The smaller; a NaN stays. */
ZR_DEVICE float zr_smaller(float a, float b)
{
	float y;
	asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
	return y;
}

/* 2^x, of 2 units in the last place; the same on every device of this kind. */
ZR_DEVICE float zr_exp2(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* The logarithm to base 2, of an absolute error of 2^-22 or 2 units in the last place; the same on
 * every device of this kind. */
ZR_DEVICE float zr_log2(float x)
{
	float y;
	asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

/* 1/x, of one unit in the last place; the same on every device of this kind. */
ZR_DEVICE float zr_reciprocal(float x)
{
	float y;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

#endif
#endif
