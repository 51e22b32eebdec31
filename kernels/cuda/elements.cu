/* SPDX-License-Identifier: Apache-2.0
 *
 * elements.cu - operations in which each result depends only on the same element of the operands. A
 * thread computes four elements at a time. Memory bandwidth limits them. They use the functions of
 * the scalar kernels and so have the same bits.
 */
#include "slopes.h"

#include "../cpu/master.h"
#include "../cpu/scale_heads.h"

/* ---- gelu_bwd -------------------------------------------------------------------- */

template <class T, int32_t ACTIVATION> struct gelu_bwd {
	struct zr_op_gelu_bwd op;
	struct operands {
		zr_quad pre, dy;
	};
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER operands load(zr_place at) const
	{
		return operands{ zr_load<T>(op.pre, at), zr_load<T>(op.dy, at) };
	}
	ZR_MEMBER void finish(nothing, zr_place at, const operands &x) const
	{
		zr_quad act, dx;
		slopes_of<ACTIVATION>(x.pre, &act, &dx);
		for (int k = 0; k < 4; k++)
			dx.x[k] = x.dy.x[k] * dx.x[k];
		if (op.act)
			zr_store<T>(op.act, at, act);
		zr_store<T>(op.dx, at, dx);
	}
};

template <class T, int32_t ACTIVATION>
static cudaError_t sweep_gelu_bwd(const struct zr_op_gelu_bwd *op, int whole, cudaStream_t s)
{
	return zr_sweep_ahead(gelu_bwd<T, ACTIVATION>{ *op }, op->n, whole, s);
}

template <class T>
static cudaError_t launch_gelu_bwd(const struct zr_op_gelu_bwd *op, cudaStream_t s)
{
	int whole = zr_quads(op->pre, sizeof(T)) && zr_quads(op->dy, sizeof(T)) &&
		    zr_quads(op->dx, sizeof(T)) && zr_quads(op->act, sizeof(T));
	return ZR_BY_ACTIVATION(zr_gelu_of(op->activation), sweep_gelu_bwd, T, op, whole, s);
}

cudaError_t zr_cuda_gelu_bwd(const struct zr_op_gelu_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_gelu_bwd, op, s);
}

template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	gelu_kernel(const __grid_constant__ struct zr_cuda_gelu_args op)
{
	const int64_t n = op.rows * op.width, step = (int64_t)gridDim.x * blockDim.x;
	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
		const int64_t at = zr_apart(i, op.width, op.ld);
		const float x = zr_widen(((const T *)op.from)[at]);
		zr_narrow(zr_activation(x, op.activation), (T *)op.to + at);
	}
}

template <class T>
static cudaError_t launch_gelu(const struct zr_cuda_gelu_args *op, cudaStream_t s)
{
	int64_t blocks = zr_ceil_div(op->rows * op->width, ZR_THREADS);
	return zr_launch(gelu_kernel<T>,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *op);
}

cudaError_t zr_cuda_gelu(const struct zr_cuda_gelu_args *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_gelu, op, s);
}

/* ---- logit_cap ------------------------------------------------------------------- */

struct logit_cap {
	struct zr_op_logit_cap op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		const float gain = op.gain != 0 ? op.gain : 1;
		zr_quad x = zr_load<float>(op.x, at);
		for (int k = 0; k < 4; k++) {
			x.x[k] = x.x[k] * gain;
			x.x[k] = op.softcap > 0 ? zr_softcap(x.x[k], op.softcap) : x.x[k];
		}
		zr_store<float>(op.x, at, x);
	}
};

cudaError_t zr_cuda_logit_cap(const struct zr_op_logit_cap *op, cudaStream_t s)
{
	return zr_sweep(logit_cap{ *op }, op->n, zr_quads(op->x, 4), s);
}

/* ---- SwiGLU ---------------------------------------------------------------------- */

/* Where four elements lie in what has no gaps, and in rows that are apart. */
struct glu_place {
	zr_place dense, apart;
};

/* Rows of a sweep are filled up to whole fours. */
ZR_DEVICE glu_place glu_place_of(zr_place at, int64_t width, int64_t stride)
{
	if (!width)
		return glu_place{ at, at };
	const int64_t filled = (width + 3) / 4 * 4, r = at.i / filled, c = at.i % filled;
	const int n = width - c < 4 ? (int)(width - c) : 4;
	return glu_place{ { r * width + c, n, at.whole }, { r * stride + c, n, at.whole } };
}

static inline int64_t glu_sweep(int64_t n, int64_t width)
{
	return width ? n / width * ((width + 3) / 4 * 4) : n;
}

template <class T, int32_t ACTIVATION> struct swiglu {
	struct zr_op_swiglu op;
	struct operands {
		glu_place p;
		zr_quad gate, up;
	};
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER operands load(zr_place at) const
	{
		const glu_place p = glu_place_of(at, op.width, op.stride);
		return operands{ p, zr_load<T>(op.gate, p.apart), zr_load<T>(op.up, p.apart) };
	}
	ZR_MEMBER void finish(nothing, zr_place, const operands &x) const
	{
		zr_quad y, unused;
		slopes_of<ACTIVATION>(x.gate, &y, &unused);
		for (int k = 0; k < 4; k++)
			y.x[k] = y.x[k] * x.up.x[k];
		zr_store<T>(op.out, x.p.dense, y);
	}
};

template <class T, int32_t ACTIVATION>
static cudaError_t sweep_swiglu(const struct zr_op_swiglu *op, int whole, cudaStream_t s)
{
	return zr_sweep_ahead(swiglu<T, ACTIVATION>{ *op }, glu_sweep(op->n, op->width), whole, s);
}

template <class T> static cudaError_t launch_swiglu(const struct zr_op_swiglu *op, cudaStream_t s)
{
	int whole = zr_quads(op->gate, sizeof(T)) && zr_quads(op->up, sizeof(T)) &&
		    zr_quads(op->out, sizeof(T)) && op->width % 4 == 0 && op->stride % 4 == 0;
	return ZR_BY_ACTIVATION(op->activation, sweep_swiglu, T, op, whole, s);
}

cudaError_t zr_cuda_swiglu(const struct zr_op_swiglu *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_swiglu, op, s);
}

template <class T, int32_t ACTIVATION> struct swiglu_bwd {
	struct zr_op_swiglu_bwd op;
	struct operands {
		glu_place p;
		zr_quad gate, up, dy;
	};
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER operands load(zr_place at) const
	{
		const glu_place p = glu_place_of(at, op.width, op.stride);
		return operands{ p, zr_load<T>(op.gate, p.apart), zr_load<T>(op.up, p.apart),
				 zr_load<T>(op.dy, p.dense) };
	}
	ZR_MEMBER void finish(nothing, zr_place, const operands &x) const
	{
		zr_quad y, slope, dgate, dup, act;
		slopes_of<ACTIVATION>(x.gate, &y, &slope);
		for (int k = 0; k < 4; k++) {
			act.x[k] = y.x[k] * x.up.x[k];
			dgate.x[k] = x.dy.x[k] * x.up.x[k] * slope.x[k];
			dup.x[k] = x.dy.x[k] * y.x[k];
		}
		if (op.act)
			zr_store<T>(op.act, x.p.dense, act);
		zr_store<T>(op.dgate, x.p.apart, dgate);
		zr_store<T>(op.dup, x.p.apart, dup);
	}
};

template <class T, int32_t ACTIVATION>
static cudaError_t sweep_swiglu_bwd(const struct zr_op_swiglu_bwd *op, int whole, cudaStream_t s)
{
	typedef swiglu_bwd<T, ACTIVATION> how;
	enum { AHEAD = ACTIVATION == ZR_ACT_GELU_ERF ? 1 : 2 }; /* as registers allow */
	return zr_sweep_ahead<how, AHEAD>(how{ *op }, glu_sweep(op->n, op->width), whole, s);
}

template <class T>
static cudaError_t launch_swiglu_bwd(const struct zr_op_swiglu_bwd *op, cudaStream_t s)
{
	int whole = zr_quads(op->gate, sizeof(T)) && zr_quads(op->up, sizeof(T)) &&
		    zr_quads(op->dy, sizeof(T)) && zr_quads(op->dgate, sizeof(T)) &&
		    zr_quads(op->dup, sizeof(T)) && zr_quads(op->act, sizeof(T)) &&
		    op->width % 4 == 0 && op->stride % 4 == 0;
	return ZR_BY_ACTIVATION(op->activation, sweep_swiglu_bwd, T, op, whole, s);
}

cudaError_t zr_cuda_swiglu_bwd(const struct zr_op_swiglu_bwd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_swiglu_bwd, op, s);
}

/* ---- residual -------------------------------------------------------------------- */

struct drop {
	uint32_t below;
	float scale, gain;
};

/* Words of the four elements from `element` on, which may be in two blocks of the stream. */
ZR_DEVICE void words_from(const zr_rng &rng, uint64_t element, uint32_t word[4])
{
	uint32_t next[4];

	zr_rng_block(&rng, element / 4, word);
	if (element % 4 == 0)
		return;

	zr_rng_block(&rng, element / 4 + 1, next);
	for (uint64_t k = element % 4; k > 0; k--) {
		for (int i = 0; i < 3; i++)
			word[i] = word[i + 1];
		word[3] = next[0];
		next[0] = next[1];
		next[1] = next[2];
	}
}

template <class T> struct residual {
	struct zr_op_residual op;
	drop how;
	ZR_MEMBER drop factors() const
	{
		return how;
	}
	struct operands {
		zr_quad a, b;
	};
	ZR_MEMBER operands load(zr_place at) const
	{
		const zr_quad b = zr_load<T>(op.b, at);
		return operands{ op.a ? zr_load<T>(op.a, at) : zr_quad{}, b };
	}
	ZR_MEMBER void finish(drop d, zr_place at, const operands &x) const
	{
		zr_quad b = x.b;
		uint32_t word[4];
		for (int k = 0; k < 4; k++)
			b.x[k] *= d.gain;
		if (op.dropout > 0) {
			words_from(op.rng, (uint64_t)(op.first + at.i), word);
			for (int k = 0; k < 4; k++)
				b.x[k] = word[k] >= d.below ? b.x[k] * d.scale : 0;
		}
		for (int k = 0; k < 4 && op.a; k++)
			b.x[k] = x.a.x[k] + b.x[k];
		zr_store<T>(op.out, at, b);
	}
};

template <class T>
static cudaError_t launch_residual(const struct zr_op_residual *op, cudaStream_t s)
{
	int whole = zr_quads(op->a, sizeof(T)) && zr_quads(op->b, sizeof(T)) &&
		    zr_quads(op->out, sizeof(T));
	const drop how = { zr_drop_below(op->dropout), zr_drop_scale(op->dropout),
			   op->gain != 0 ? op->gain : 1 };
	enum { AHEAD = zr_converts_long<T> ? 1 : 2 };
	return zr_sweep_ahead<residual<T>, AHEAD>(residual<T>{ *op, how }, op->n, whole, s);
}

cudaError_t zr_cuda_residual(const struct zr_op_residual *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_residual, op, s);
}

/* ---- cast ------------------------------------------------------------------------ */

template <class To, class From> struct cast {
	struct zr_op_cast op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		zr_store<To>(op.dst.data, at, zr_load<From>(op.src.data, at));
	}
};

template <class To, class From>
static cudaError_t launch_cast(const struct zr_op_cast *op, cudaStream_t s)
{
	return zr_sweep(cast<To, From>{ *op }, op->n,
			zr_quads(op->dst.data, sizeof(To)) && zr_quads(op->src.data, sizeof(From)),
			s);
}

template <class To> static cudaError_t cast_to(const struct zr_op_cast *op, cudaStream_t s)
{
	return op->src.dtype == ZR_BF16 ? launch_cast<To, bf16>(op, s) :
	       op->src.dtype == ZR_F16  ? launch_cast<To, f16>(op, s) :
					  launch_cast<To, float>(op, s);
}

cudaError_t zr_cuda_cast(const struct zr_op_cast *op, cudaStream_t s)
{
	if (op->dst.dtype == op->src.dtype) /* NaNs keep their payload */
		return cudaMemcpyAsync(op->dst.data, op->src.data,
				       (size_t)(op->n * zr_size(op->src.dtype)), cudaMemcpyDefault,
				       s);
	return ZR_BY_TYPE(op->dst.dtype, cast_to, op, s);
}

/* ---- random values --------------------------------------------------------------- */

struct init {
	struct zr_op_init op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		uint32_t w[4];
		zr_quad q = { { 0, 0, 0, 0 } };
		for (int k = 0; k < at.n; k++) {
			uint64_t e = (uint64_t)(op.first + at.i + k);
			if (op.std == 0) {
				q.x[k] = (float)op.mean;
				continue;
			}
			if (k == 0 || e % 2 == 0)
				zr_rng_block(&op.rng, e / 2, w);
			const uint32_t a = e % 2 ? w[2] : w[0], b = e % 2 ? w[3] : w[1];
			q.x[k] = (float)(op.mean + op.std * (op.flags & ZR_INIT_OP_UNIFORM ?
								     zr_centered(a) :
								     zr_normal(a, b)));
		}
		zr_store<float>(op.dst, at, q);
	}
};

cudaError_t zr_cuda_init(const struct zr_op_init *op, cudaStream_t s)
{
	return zr_sweep(init{ *op }, op->n, zr_quads(op->dst, 4), s);
}

struct round_stochastic {
	struct zr_op_round_stochastic op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		zr_quad x = zr_load<float>(op.src, at);
		uint32_t w[4];
		for (int k = 0; k < at.n; k++) {
			uint64_t e = (uint64_t)(op.first + at.i + k);
			if (k == 0 || e % 4 == 0)
				zr_rng_block(&op.rng, e / 4, w);
			uint32_t low = e % 2 ? w[1] : w[0], high = e % 2 ? w[3] : w[2];
			op.dst[at.i + k] = zr_bf16_with(x.x[k], (e & 2 ? high : low) >> 16);
		}
	}
};

cudaError_t zr_cuda_round_stochastic(const struct zr_op_round_stochastic *op, cudaStream_t s)
{
	return zr_sweep(round_stochastic{ *op }, op->n, zr_quads(op->src, 4), s);
}

/* ---- masters --------------------------------------------------------------------- */

struct master_join {
	struct zr_op_master op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		for (int k = 0; k < at.n; k++)
			op.master[at.i + k] = zr_master_joined(&op, at.i + k);
	}
};

cudaError_t zr_cuda_master_join(const struct zr_op_master *op, cudaStream_t s)
{
	return zr_sweep(master_join{ *op }, op->n, 0, s);
}

struct master_split {
	struct zr_op_master op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		for (int k = 0; k < at.n; k++)
			zr_master_split(&op, at.i + k, op.master[at.i + k]);
	}
};

cudaError_t zr_cuda_master_split(const struct zr_op_master *op, cudaStream_t s)
{
	return zr_sweep(master_split{ *op }, op->n, 0, s);
}

/* ---- scale_heads ----------------------------------------------------------------- */

struct scale_heads {
	struct zr_op_scale_heads op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		zr_quad x = zr_load<float>(op.x, at);
		for (int k = 0; k < 4; k++) {
			const int64_t head = zr_scaled_head(&op, op.first + at.i + k);
			if (head >= 0)
				x.x[k] *= op.factor[head];
		}
		zr_store<float>(op.x, at, x);
	}
};

cudaError_t zr_cuda_scale_heads(const struct zr_op_scale_heads *op, cudaStream_t s)
{
	return zr_sweep(scale_heads{ *op }, op->n, zr_quads(op->x, 4), s);
}

/* ---- cast_heads ------------------------------------------------------------------ */

/* An element that keeps its type keeps its bits. */
template <class T> ZR_DEVICE void cast_element(T x, T *to)
{
	*to = x;
}

template <class To, class From> ZR_DEVICE void cast_element(From x, To *to)
{
	zr_narrow(zr_widen(x), to);
}

template <class T> struct alignas(4 * sizeof(T)) four {
	T x[4];
};

/* Heads of a sweep are filled up to whole fours. */
template <class To, class From> struct cast_heads {
	struct zr_op_cast_heads op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		const int64_t fours = (op.head_dim + 3) / 4, k = at.i / 4 / fours;
		const int64_t r = k / op.heads, h = k % op.heads, d = at.i - 4 * fours * k;
		const From *from =
			(const From *)op.src.data + r * op.src_stride + h * op.src_head + d;
		To *to = (To *)op.dst.data + r * op.dst_stride + h * op.dst_head + d;
		if (at.whole) {
			const four<From> x = *(const four<From> *)(const void *)from;
			four<To> y;
#pragma unroll
			for (int i = 0; i < 4; i++)
				cast_element(x.x[i], &y.x[i]);
			*(four<To> *)(void *)to = y;
			return;
		}
		for (int64_t i = 0; i < 4 && d + i < op.head_dim; i++)
			cast_element(from[i], to + i);
	}
};

template <class To, class From>
static cudaError_t launch_cast_heads(const struct zr_op_cast_heads *op, cudaStream_t s)
{
	const int64_t apart = op->src_stride | op->src_head | op->dst_stride | op->dst_head;
	const int whole = (op->head_dim | apart) % 4 == 0 && zr_quads(op->dst.data, sizeof(To)) &&
			  zr_quads(op->src.data, sizeof(From));
	const int64_t filled = (op->head_dim + 3) / 4 * 4;
	return zr_sweep(cast_heads<To, From>{ *op }, op->rows * op->heads * filled, whole, s);
}

template <class To>
static cudaError_t cast_heads_to(const struct zr_op_cast_heads *op, cudaStream_t s)
{
	return op->src.dtype == ZR_BF16 ? launch_cast_heads<To, bf16>(op, s) :
	       op->src.dtype == ZR_F16  ? launch_cast_heads<To, f16>(op, s) :
					  launch_cast_heads<To, float>(op, s);
}

cudaError_t zr_cuda_cast_heads(const struct zr_op_cast_heads *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dst.dtype, cast_heads_to, op, s);
}

/* ---- muon_factor ----------------------------------------------------------------- */

struct muon_factor {
	struct zr_op_muon_factor op;
	ZR_MEMBER nothing factors() const
	{
		return nothing();
	}
	ZR_MEMBER void quad(nothing, zr_place at) const
	{
		zr_quad gram = zr_load<float>(op.gram, at), square = zr_load<float>(op.square, at);
		for (int k = 0; k < 4; k++) {
			gram.x[k] = op.b * gram.x[k] + op.c * square.x[k];
			if ((at.i + k) % (op.n + 1) == 0) /* on the diagonal */
				gram.x[k] += op.a;
		}
		zr_store<float>(op.gram, at, gram);
	}
};

cudaError_t zr_cuda_muon_factor(const struct zr_op_muon_factor *op, cudaStream_t s)
{
	return zr_sweep(muon_factor{ *op }, op->n * op->n,
			zr_quads(op->gram, 4) && zr_quads(op->square, 4), s);
}

/* ---- embedding ------------------------------------------------------------------- */

/* Fours of columns, of all rows one after the other. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	embedding_kernel(const __grid_constant__ struct zr_op_embedding op, int whole)
{
	const int64_t quads = (op.width + 3) / 4, n = op.batch * op.length * quads,
		      step = (int64_t)gridDim.x * blockDim.x;

	for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
		int64_t r = i / quads, c = i % quads * 4;
		int m = op.width - c < 4 ? (int)(op.width - c) : 4;
		zr_quad a = zr_load<T>(op.wte, zr_place{ op.tokens[r] * op.width + c, m, whole });
		if (op.wpe) {
			int64_t at = op.position ? op.position[r] : r % op.length;
			zr_quad b = zr_load<T>(op.wpe, zr_place{ at * op.width + c, m, whole });
			for (int k = 0; k < 4; k++)
				a.x[k] = a.x[k] + b.x[k];
		}
		zr_store<T>(op.out, zr_place{ r * op.width + c, m, whole }, a);
	}
}

template <class T>
static cudaError_t launch_embedding(const struct zr_op_embedding *op, cudaStream_t s)
{
	int64_t blocks =
		zr_ceil_div(op->batch * op->length * zr_ceil_div(op->width, 4), ZR_THREADS);
	int whole = op->width % 4 == 0 && zr_quads(op->wte, sizeof(T)) &&
		    zr_quads(op->wpe, sizeof(T)) && zr_quads(op->out, sizeof(T));
	return zr_launch(embedding_kernel<T>,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *op, whole);
}

cudaError_t zr_cuda_embedding(const struct zr_op_embedding *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_embedding, op, s);
}

/* ---- rotary ---------------------------------------------------------------------- */

#define HEADS_AHEAD 8 /* that a thread loads before it turns the first */

/* A thread takes one pair of all heads of a row: its angle is theirs. Or, where out is not x, an
 * element of all heads that is copied. `each`: of both. */
template <class T>
static __global__ void __launch_bounds__(ZR_THREADS)
	rotary_kernel(const __grid_constant__ struct zr_op_rotary op, int64_t dim, int64_t head,
		      int64_t each)
{
	const int64_t half = dim / 2, n = op.batch * op.length * each,
		      step = (int64_t)gridDim.x * blockDim.x;
	const float gain = op.gain != 0 ? op.gain : 1;
	const T *x = (const T *)op.x;
	T *out = (T *)op.out;

	for (int64_t k = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; k < n; k += step) {
		const int64_t r = k / each, i = k % each;
		if (i >= half) {
			for (int64_t h = 0; h < op.heads; h++) {
				const int64_t at = r * op.stride + h * head + half + i;
				out[at] = x[at];
			}
			continue;
		}
		const int64_t position = op.position ? op.position[r] : r % op.length;
		const float angle = (float)position * op.frequency[i];
		const float cosine = zr_cos(angle) * gain;
		float sine = zr_sin(angle) * gain;
		if (op.flags & ZR_ROTARY_BACK)
			sine = -sine;
		int64_t at = r * op.stride + i, left = op.heads;
		while (left > 0) {
			const int some = left < HEADS_AHEAD ? 1 : HEADS_AHEAD;
			T a[HEADS_AHEAD], b[HEADS_AHEAD];
#pragma unroll
			for (int h = 0; h < HEADS_AHEAD; h++)
				if (h < some) {
					a[h] = x[at + h * head];
					b[h] = x[at + h * head + half];
				}
#pragma unroll
			for (int h = 0; h < HEADS_AHEAD; h++)
				if (h < some) {
					const float p = zr_widen(a[h]), q = zr_widen(b[h]);
					T *to = out + at + h * head;
					zr_narrow(fmaf(p, cosine, -(q * sine)), to);
					zr_narrow(fmaf(q, cosine, p * sine), to + half);
				}
			left -= some;
			at += some * head;
		}
	}
}

template <class T> static cudaError_t launch_rotary(const struct zr_op_rotary *op, cudaStream_t s)
{
	const int64_t dim = op->rotary_dim ? op->rotary_dim : op->head_dim,
		      head = op->head_stride ? op->head_stride : op->head_dim,
		      each = dim / 2 + (op->out != op->x ? op->head_dim - dim : 0),
		      blocks = zr_ceil_div(op->batch * op->length * each, ZR_THREADS);
	return zr_launch(rotary_kernel<T>,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, *op, dim, head, each);
}

cudaError_t zr_cuda_rotary(const struct zr_op_rotary *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->dtype, launch_rotary, op, s);
}
