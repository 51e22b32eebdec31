/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise.cuh - kernels around an update of one element, <zeroth/elementwise.h>. NVRTC compiles
 * them behind the text of the update and what configures them, all in one source without includes:
 * plugins/device/cuda/elementwise_source.c. The text is in namespace author.
 *
 * ZR_EW_TYPES: the type of each state, 0: 8 bits; ZR_EW_LOWP: of the rounded copy, 0: none;
 * ZR_EW_ROOTS, ZR_EW_SUMS, ZR_EW_RANDOM, ZR_EW_N_STATE, ZR_EW_N_CONST: as struct zr_elementwise
 * has them.
 */

/* The state j of elements at `at`, in fp32. */
template <int TYPE> ZR_DEVICE zr_quad zr_ew_load(const void *state, zr_place at, int root)
{
	if constexpr (TYPE == 0)
		return zr_load8(state, at, root);
	else if constexpr (TYPE == ZR_BF16)
		return zr_load<bf16>(state, at);
	else if constexpr (TYPE == ZR_F16)
		return zr_load<f16>(state, at);
	else
		return zr_load<float>(state, at);
}

template <int TYPE> ZR_DEVICE void zr_ew_store(void *state, zr_place at, zr_quad q, int root)
{
	if constexpr (TYPE == 0)
		zr_store8(state, at, q, root);
	else if constexpr (TYPE == ZR_BF16)
		zr_store<bf16>(state, at, q);
	else if constexpr (TYPE == ZR_F16)
		zr_store<f16>(state, at, q);
	else
		zr_store<float>(state, at, q);
}

/* Of one element. */
template <int TYPE> ZR_DEVICE float zr_ew_get(const void *state, int64_t i, int root)
{
	if constexpr (TYPE == 0) {
		const float scale = zr_from_f16(*zr_scale8(state, i));
		const uint8_t code = *zr_codes8(state, i);
		const float y = root ? zr_root8(code, scale) : zr_signed8((int8_t)code, scale);
		return root ? y * y : y;
	} else if constexpr (TYPE == ZR_BF16) {
		return zr_from_bf16(((const uint16_t *)state)[i]);
	} else if constexpr (TYPE == ZR_F16) {
		return zr_from_f16(((const uint16_t *)state)[i]);
	} else {
		return ((const float *)state)[i];
	}
}

/* All states, one after the other. */
template <int... TYPES> struct zr_ew_states;
template <> struct zr_ew_states<> {
	ZR_MEMBER static void load(const zr_ew_args &, int, zr_place, zr_quad *)
	{
	}
	ZR_MEMBER static void store(const zr_ew_args &, int, zr_place, const zr_quad *)
	{
	}
	ZR_MEMBER static void get(const zr_ew_args &, int, int64_t, float *)
	{
	}
};
template <int TYPE, int... REST> struct zr_ew_states<TYPE, REST...> {
	ZR_MEMBER static void load(const zr_ew_args &a, int j, zr_place at, zr_quad *s)
	{
		s[0] = zr_ew_load<TYPE>(a.state[j], at, ZR_EW_ROOTS >> j & 1);
		zr_ew_states<REST...>::load(a, j + 1, at, s + 1);
	}
	ZR_MEMBER static void store(const zr_ew_args &a, int j, zr_place at, const zr_quad *s)
	{
		zr_ew_store<TYPE>(a.state[j], at, s[0], ZR_EW_ROOTS >> j & 1);
		zr_ew_states<REST...>::store(a, j + 1, at, s + 1);
	}
	ZR_MEMBER static void get(const zr_ew_args &a, int j, int64_t i, float *x)
	{
		x[0] = zr_ew_get<TYPE>(a.state[j], i, ZR_EW_ROOTS >> j & 1);
		zr_ew_states<REST...>::get(a, j + 1, i, x + 1);
	}
};
typedef zr_ew_states<ZR_EW_TYPES> zr_ew_all;

struct zr_ew_constants {
	float k[ZR_EW_N_CONST + 1];
	ZR_MEMBER zr_ew_constants(const zr_ew_args &a)
	{
		for (int i = 0; i < ZR_EW_N_CONST; i++)
			k[i] = a.k[i];
	}
};

ZR_DEVICE float zr_ew_next(const float *k, float g, float p, float *s, uint32_t random)
{
#if ZR_EW_RANDOM
	return author::update(k, g, p, s, random);
#else
	(void)random;
	return author::update(k, g, p, s);
#endif
}

ZR_DEVICE void zr_ew_quad(const zr_ew_args &a, const float *k, zr_place at)
{
	zr_quad p = zr_load<float>(a.master, at), g = zr_load<float>(a.grad, at);
	zr_quad s[ZR_EW_N_STATE + 1];
	uint32_t w[4] = { 0, 0, 0, 0 };
	zr_ew_all::load(a, 0, at, s);
#if ZR_EW_RANDOM
	const struct zr_rng rng = { a.seed, a.step, a.param, ZR_EW_SITE };
	zr_rng_block(&rng, (uint64_t)(a.first + at.i) / 4, w);
#endif
#pragma unroll
	for (int e = 0; e < 4; e++) {
		float x[ZR_EW_N_STATE + 1];
#pragma unroll
		for (int j = 0; j < ZR_EW_N_STATE; j++)
			x[j] = s[j].x[e];
		p.x[e] = zr_ew_next(k, g.x[e] * a.mult, p.x[e], x, w[e]);
#pragma unroll
		for (int j = 0; j < ZR_EW_N_STATE; j++)
			s[j].x[e] = x[j];
	}
	__syncwarp(); /* scales were read */
	zr_ew_all::store(a, 0, at, s);
	zr_store<float>(a.master, at, p);
#if ZR_EW_LOWP
	zr_ew_store<ZR_EW_LOWP>(a.lowp, at, p, 0);
#endif
}

/* All threads of a block are in each round, where n ends with no elements: they find scales
 * together. */
ZR_EW_KERNEL __launch_bounds__(ZR_EW_THREADS) zr_ew_update(const __grid_constant__ zr_ew_args a)
{
	zr_ew_constants c(a);
	const int64_t step = (int64_t)gridDim.x * ZR_EW_THREADS * 4;
#if ZR_EW_SUMS
	author::use(c.k, a.total);
#endif
	for (int64_t from = (int64_t)blockIdx.x * ZR_EW_THREADS * 4; from < a.n; from += step) {
		int64_t i = from + 4 * (int64_t)threadIdx.x, left = a.n > i ? a.n - i : 0;
		int m = left < 4 ? (int)left : 4;
		zr_ew_quad(a, c.k, zr_place{ i, m, a.whole && m == 4 });
	}
}

#if ZR_EW_SUMS
#define ZR_EW_LANES 16

/* Sixteen threads measure a segment: one a lane. */
ZR_EW_KERNEL __launch_bounds__(ZR_EW_THREADS) zr_ew_measure(const __grid_constant__ zr_ew_args a)
{
	zr_ew_constants c(a);
	const uint32_t i = (blockIdx.x * ZR_EW_THREADS + threadIdx.x) / ZR_EW_LANES;
	const int lane = (int)(threadIdx.x % ZR_EW_LANES);
	const int32_t n = i < a.n_seg ? a.count[i] : 0;
	double sum[ZR_EW_SUMS] = {};
	for (int32_t e = lane; e < n; e += ZR_EW_LANES) {
		const int64_t at = a.off[i] + e;
		double added[ZR_EW_SUMS] = {};
		float x[ZR_EW_N_STATE + 1];
		zr_ew_all::get(a, 0, at, x);
		author::measure(c.k, a.grad[at] * a.mult, a.master[at], x, added);
		for (int j = 0; j < ZR_EW_SUMS; j++)
			sum[j] += added[j];
	}
	for (int j = 0; j < ZR_EW_SUMS; j++) {
		for (int half = ZR_EW_LANES / 2; half > 0; half /= 2) {
			double other = __shfl_down_sync(ZR_FULL_WARP, sum[j], half, ZR_EW_LANES);
			sum[j] = lane < half ? sum[j] + other : sum[j];
		}
		if (lane == 0 && i < a.n_seg)
			a.sums[i * ZR_EW_SUMS + j] = sum[j];
	}
}
#endif
