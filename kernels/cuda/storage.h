/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.h - storage types, and four elements at a time. kernel.h includes it; and it is part of
 * what NVRTC compiles around an update of one element (elementwise.h).
 */
#ifndef ZEROTH_KERNELS_CUDA_STORAGE_H
#define ZEROTH_KERNELS_CUDA_STORAGE_H

/* ---- storage --------------------------------------------------------------------- */

struct bf16 {
	uint16_t bits;
};
struct f16 {
	uint16_t bits;
};

ZR_INLINE float zr_widen(float x)
{
	return x;
}
ZR_INLINE float zr_widen(bf16 x)
{
	return zr_from_bf16(x.bits);
}
ZR_INLINE float zr_widen(f16 x)
{
	return zr_from_f16(x.bits);
}
ZR_INLINE void zr_narrow(float x, float *to)
{
	*to = x;
}
ZR_INLINE void zr_narrow(float x, bf16 *to)
{
	to->bits = zr_bf16(x);
}
ZR_INLINE void zr_narrow(float x, f16 *to)
{
	to->bits = zr_f16(x);
}

/* ---- four elements --------------------------------------------------------------- */

/* Elements [i, i + n), n <= 4; whole: n = 4 and the address of element i is a multiple of the bytes
 * of four. */
struct zr_place {
	int64_t i;
	int n;
	int whole;
};

struct zr_quad {
	float x[4];
};

template <class T> struct alignas(4 * sizeof(T)) zr_packed {
	T x[4];
};

template <class T> ZR_DEVICE zr_quad zr_unpacked(const zr_packed<T> &v)
{
	zr_quad q;
	for (int k = 0; k < 4; k++)
		q.x[k] = zr_widen(v.x[k]);
	return q;
}

template <class T> ZR_DEVICE void zr_pack(const zr_quad &q, zr_packed<T> *v)
{
	for (int k = 0; k < 4; k++)
		zr_narrow(q.x[k], &v->x[k]);
}

/* Two bf16 are the halves of a word: fewer instructions than one by one. */
template <> struct alignas(8) zr_packed<bf16> {
	uint32_t w[2];
};

ZR_DEVICE zr_quad zr_unpacked(const zr_packed<bf16> &v)
{
	return zr_quad{ { zr_from_bits(v.w[0] << 16), zr_from_bits(v.w[0] & 0xffff0000u),
			  zr_from_bits(v.w[1] << 16), zr_from_bits(v.w[1] & 0xffff0000u) } };
}

ZR_DEVICE void zr_pack(const zr_quad &q, zr_packed<bf16> *v)
{
	uint32_t u[4];
	for (int k = 0; k < 4; k++) /* zr_bf16() */
		u[k] = q.x[k] != q.x[k] ? zr_bits(q.x[k]) | 0x00400000u : zr_bits(q.x[k]) + 0x8000u;
	for (int k = 0; k < 2; k++)
		v->w[k] = u[2 * k] >> 16 | (u[2 * k + 1] & 0xffff0000u);
}

/* What is beyond n is 0. */
template <class T> ZR_DEVICE zr_quad zr_load(const void *base, zr_place at)
{
	const T *p = (const T *)base + at.i;
	zr_quad q;
	if (at.whole) {
		const zr_packed<T> v = *(const zr_packed<T> *)(const void *)p;
		return zr_unpacked(v);
	}
	for (int k = 0; k < 4; k++)
		q.x[k] = k < at.n ? zr_widen(p[k]) : 0;
	return q;
}

template <class T> ZR_DEVICE void zr_store(void *base, zr_place at, const zr_quad &q)
{
	T *p = (T *)base + at.i;
	if (at.whole) {
		zr_packed<T> v;
		zr_pack(q, &v);
		*(zr_packed<T> *)(void *)p = v;
		return;
	}
	for (int k = 0; k < 4; k++)
		if (k < at.n)
			zr_narrow(q.x[k], &p[k]);
}

#endif
