/* SPDX-License-Identifier: Apache-2.0
 *
 * kept_simd.h - masters of an update with vectors, as struct zr_kept of master.h. `kept` says how:
 * in fp32 beside a copy of that type, 0: beside none; or split. It is a constant wherever these are
 * inlined.
 */
#ifndef ZEROTH_KERNELS_CPU_KEPT_SIMD_H
#define ZEROTH_KERNELS_CPU_KEPT_SIMD_H

#include "master_simd.h"

#define ZR_KEPT_SPLIT8  (-8) /* minus the bits of the remainder */
#define ZR_KEPT_SPLIT16 (-16)

/* Calls f with the arguments and, as a constant, how masters are kept. */
#define ZR_BY_KEPT(op, f, ...)                                                                     \
	do {                                                                                       \
		if ((op)->rem && (op)->rem_bits == 8)                                              \
			f(__VA_ARGS__, ZR_KEPT_SPLIT8);                                            \
		else if ((op)->rem)                                                                \
			f(__VA_ARGS__, ZR_KEPT_SPLIT16);                                           \
		else if (!(op)->lowp)                                                              \
			f(__VA_ARGS__, 0);                                                         \
		else                                                                               \
			ZR_BY_DTYPE((op)->lowp_dtype, f, __VA_ARGS__);                             \
	} while (0)

struct vkept {
	float *master;
	void *lowp, *rem;
	int around; /* a copy in bf16 goes around the caches */
};

ZR_INLINE int vsplit_bits(int32_t kept)
{
	return kept < 0 ? -kept : 0;
}

/* From element i on. */
ZR_INLINE struct vkept vkept_at(const struct vkept *k, int64_t i, int32_t kept)
{
	if (kept < 0)
		return (struct vkept){ .lowp = (uint16_t *)k->lowp + i,
				       .rem = (uint8_t *)k->rem + i * vsplit_bits(kept) / 8 };
	return (struct vkept){ .master = k->master + i,
			       .lowp = kept ? zr_at(k->lowp, i, kept) : NULL,
			       .around = k->around };
}

/* Behind an update: what went around the caches is ordered by nothing else. */
ZR_INLINE void vkept_end(const struct vkept *k)
{
	if (k->around)
		_mm_sfence();
}

ZR_INLINE vf vkept_get(const struct vkept *k, int64_t i, int n, int32_t kept)
{
	if (kept < 0)
		return vjoined(k->lowp, k->rem, i, n, vsplit_bits(kept));
	return vload_n(k->master, i, ZR_F32, n);
}

ZR_INLINE void vkept_put(const struct vkept *k, int64_t i, vf p, int n, int32_t kept)
{
	if (kept < 0) {
		vsplit(k->lowp, k->rem, i, p, n, vsplit_bits(kept));
		return;
	}
	vstore_n(k->master, i, ZR_F32, p, n);
	if (kept)
		vstore_n(k->lowp, i, kept, p, n);
}

/* Two vectors, from element i on. */
ZR_INLINE void vkept_get2(const struct vkept *k, int64_t i, vf *p, int32_t kept)
{
#if ZR_W == 16
	if (kept == ZR_KEPT_SPLIT8) {
		vjoined8_2((const uint16_t *)k->lowp + i, (const uint8_t *)k->rem + i, p);
		return;
	}
	if (kept == ZR_KEPT_SPLIT16) {
		vjoined16_2((const uint16_t *)k->lowp + i, (const uint16_t *)k->rem + i, p);
		return;
	}
#endif
	p[0] = vkept_get(k, i, ZR_W, kept);
	p[1] = vkept_get(k, i + ZR_W, ZR_W, kept);
}

ZR_INLINE void vkept_put2(const struct vkept *k, int64_t i, const vf *p, int32_t kept)
{
#if ZR_W == 16
	if (kept == ZR_KEPT_SPLIT8 && vsplit8_2((uint16_t *)k->lowp + i, (uint8_t *)k->rem + i, p))
		return;
	if (kept == ZR_KEPT_SPLIT16 &&
	    vsplit16_2((uint16_t *)k->lowp + i, (uint16_t *)k->rem + i, p))
		return;
	if (kept == ZR_BF16 && vstore_bf16_2((uint16_t *)k->lowp + i, p, k->around)) {
		vstore_f32(k->master + i, p[0]);
		vstore_f32(k->master + i + ZR_W, p[1]);
		return;
	}
#endif
	vkept_put(k, i, p[0], ZR_W, kept);
	vkept_put(k, i + ZR_W, p[1], ZR_W, kept);
}

/* n elements from where they are kept to another place. */
ZR_INLINE void vkept_copy(const struct vkept *to, const struct vkept *from, int n, int32_t kept)
{
	if (kept >= 0)
		memcpy(to->master, from->master, (size_t)n * sizeof *to->master);
	else
		memcpy(to->rem, from->rem, (size_t)(n * vsplit_bits(kept) / 8));
	if (kept)
		memcpy(to->lowp, from->lowp, (size_t)(n * (kept < 0 ? 2 : zr_size(kept))));
}

#endif
