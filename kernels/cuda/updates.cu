/* SPDX-License-Identifier: Apache-2.0
 *
 * updates.cu - the optimizers, each in one pass over masters, states and the copy of 16 bits. AdamW
 * reads 16 bytes of an element and writes 12 and the copy; with bf16 moments it reads 12 and writes
 * 8 and the copy, with 8-bit ones 10.1 and 6.1 and the copy. Results have the bits of the CPU's
 * scalar kernels.
 */
#include "kernel.h"

#include "../cpu/adamw8.h"
#include "../cpu/lamb.h"
#include "../cpu/master.h"
#include "../cpu/update.h"
#include "groups.h"

/* ---- masters --------------------------------------------------------------------- */

/* What is split of a master, where the operation takes that; else rem is NULL. */
template <class O> ZR_DEVICE zr_op_master split(const O &)
{
	return {};
}
template <class O> ZR_DEVICE zr_op_master split_of(const O &op)
{
	zr_op_master s = {};
	s.lowp = (uint16_t *)op.lowp;
	s.rem = op.rem;
	s.rem_bits = op.rem_bits;
	return s;
}
ZR_DEVICE zr_op_master split(const zr_op_adamw &op)
{
	return split_of(op);
}
ZR_DEVICE zr_op_master split(const zr_op_lion &op)
{
	return split_of(op);
}

template <class O> ZR_DEVICE zr_quad load_masters(const O &op, zr_place at)
{
	const zr_op_master s = split(op);
	zr_quad p = {};
	if (!s.rem)
		return zr_load<float>(op.master, at);
	for (int k = 0; k < at.n; k++)
		p.x[k] = zr_master_joined(&s, at.i + k);
	return p;
}

/* L: the type of a copy */
template <class L, class O> ZR_DEVICE void store_masters(const O &op, zr_place at, const zr_quad &p)
{
	const zr_op_master s = split(op);
	if (s.rem) {
		for (int k = 0; k < at.n; k++)
			zr_master_split(&s, at.i + k, p.x[k]);
		return;
	}
	zr_store<float>(op.master, at, p);
	if (op.lowp)
		zr_store<L>(op.lowp, at, p);
}

/* ---- one element after the other ------------------------------------------------- */

/* U: an update, with `op`, its argument struct; STATES, of which it has up to two, `M` each;
 * factors(), and next(), the new p of an element, whose states it changes in place. L is the type
 * of the copy in 16 bits. */
template <class U, class M, class L> struct sweep {
	U u;
	const float *grad;
	void *state[2];
	ZR_MEMBER auto factors() const
	{
		return u.factors();
	}
	template <class F> ZR_MEMBER void quad(const F &f, zr_place at) const
	{
		zr_quad p = load_masters(u.op, at), g = zr_load<float>(grad, at), s[2] = {};
#pragma unroll
		for (int i = 0; i < U::STATES; i++)
			s[i] = zr_load<M>(state[i], at);
		for (int k = 0; k < 4; k++)
			p.x[k] = u.next(f, p.x[k], g.x[k], &s[0].x[k], &s[1].x[k]);
#pragma unroll
		for (int i = 0; i < U::STATES; i++)
			zr_store<M>(state[i], at, s[i]);
		store_masters<L>(u.op, at, p);
	}
};

template <class L, class M = float, class U>
static cudaError_t launch(const U &u, const float *grad, void *a, void *b, cudaStream_t s)
{
	const int whole = zr_quads(grad, 4) && zr_quads(u.op.master, 4) && zr_quads(a, sizeof(M)) &&
			  zr_quads(b, sizeof(M)) && zr_quads(u.op.lowp, sizeof(L));
	return zr_sweep(sweep<U, M, L>{ u, grad, { a, b } }, u.op.n, whole, s);
}

/* ---- moments in 8 bits ----------------------------------------------------------- */

/* As sweep, with states in 8 bits: the first has a sign, the second is a root. */
template <class U, class L> struct sweep8 {
	U u;
	const float *grad;
	void *state[2];
	ZR_MEMBER auto factors() const
	{
		return u.factors();
	}

	template <class F> ZR_MEMBER void next(const F &f, zr_place at, zr_quad s[2]) const
	{
		zr_quad p = load_masters(u.op, at), g = zr_load<float>(grad, at);
#pragma unroll
		for (int i = 0; i < U::STATES; i++)
			s[i] = zr_load8(state[i], at, i);
		for (int k = 0; k < 4; k++)
			p.x[k] = u.next(f, p.x[k], g.x[k], &s[0].x[k], &s[1].x[k]);
		store_masters<L>(u.op, at, p);
	}

	template <class F> ZR_MEMBER void quad(const F &f, zr_place at) const
	{
		zr_quad s[2] = {};
		if (at.n)
			next(f, at, s);
		__syncwarp(); /* scales were read */
#pragma unroll
		for (int i = 0; i < U::STATES; i++)
			zr_store8(state[i], at, s[i], i);
	}
};

/* f.quad(f.factors(), place) in all threads of a block, where n ends with no elements. */
template <class F>
static __global__ void __launch_bounds__(ZR_THREADS)
	groups_kernel(const __grid_constant__ F f, int64_t n, int whole)
{
	const auto k = f.factors();
	const int64_t step = (int64_t)gridDim.x * ZR_THREADS * 4;

	for (int64_t from = (int64_t)blockIdx.x * ZR_THREADS * 4; from < n; from += step) {
		int64_t i = from + 4 * (int64_t)threadIdx.x, left = n > i ? n - i : 0;
		int m = left < 4 ? (int)left : 4;
		f.quad(k, zr_place{ i, m, whole && m == 4 });
	}
}

/* L: the type of the copy */
template <class L, class O, class F>
static cudaError_t launch_groups(const O &op, const F &f, cudaStream_t s)
{
	const int whole = zr_quads(op.grad, 4) && zr_quads(op.master, 4) &&
			  zr_quads(op.lowp, sizeof(L));
	const int64_t blocks = zr_ceil_div(op.n, 4 * ZR_THREADS);
	return zr_launch(groups_kernel<F>,
			 dim3((unsigned)(blocks < ZR_MOST_BLOCKS ? blocks : ZR_MOST_BLOCKS)),
			 dim3(ZR_THREADS), 0, s, f, op.n, whole);
}

/* ---- adamw ----------------------------------------------------------------------- */

struct adamw {
	struct zr_op_adamw op;
	enum { STATES = 2 };
	ZR_MEMBER struct adamw_factors factors() const
	{
		return adamw_factors(&op);
	}
	ZR_MEMBER float next(const struct adamw_factors &f, float p, float g, float *m,
			     float *v) const
	{
		return adamw_update(&f, op.l2, p, g, m, v);
	}
};

/* As sweep8, in the operations of adamw8.h. */
template <class L> struct adamw8 {
	struct zr_op_adamw op;
	ZR_MEMBER struct adamw8_factors factors() const
	{
		return adamw8_factors(&op);
	}

	ZR_MEMBER void moments(const struct adamw8_factors &f, zr_place at, const zr_quad &p,
			       zr_quad *m, zr_quad *root) const
	{
		const zr_quad g = zr_load<float>(op.grad, at);
		const zr_packed<uint8_t> m_code = zr_load_codes8(op.m, at),
					 v_code = zr_load_codes8(op.v, at);
		const float scale[2] = { zr_from_f16(*zr_scale8(op.m, at.i)),
					 zr_from_f16(*zr_scale8(op.v, at.i)) };
#pragma unroll
		for (int k = 0; k < 4; k++) {
			const int old[2] = { (int8_t)m_code.x[k], v_code.x[k] };
			adamw8_moments(&f, op.l2, p.x[k], g.x[k], old, scale, &m->x[k],
				       &root->x[k]);
		}
	}

	ZR_MEMBER void quad(const struct adamw8_factors &f, zr_place at) const
	{
		zr_quad p = {}, m = {}, root = {};
		if (at.n) {
			p = load_masters(op, at);
			moments(f, at, p, &m, &root);
		}
		__syncwarp(); /* scales were read */
		const float scale[2] = { zr_new_scale8(op.m, at, m),
					 zr_new_scale8(op.v, at, root) };
#pragma unroll
		for (int k = 0; k < 4; k++) {
			uint8_t code[2];
			p.x[k] = adamw8_next(&f, p.x[k], m.x[k], root.x[k], scale, code);
			if (k < at.n) {
				zr_codes8(op.m, at.i)[k] = code[0];
				zr_codes8(op.v, at.i)[k] = code[1];
			}
		}
		if (at.n)
			store_masters<L>(op, at, p);
	}
};

template <class L> static cudaError_t launch_adamw(const struct zr_op_adamw *op, cudaStream_t s)
{
	if (op->moment_dtype == ZR_U8)
		return launch_groups<L>(*op, adamw8<L>{ *op }, s);
	return op->moment_dtype == ZR_BF16 ?
		       launch<L, bf16>(adamw{ *op }, op->grad, op->m, op->v, s) :
		       launch<L>(adamw{ *op }, op->grad, op->m, op->v, s);
}

cudaError_t zr_cuda_adamw(const struct zr_op_adamw *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_adamw, op, s);
}

/* ---- sgd ------------------------------------------------------------------------- */

template <bool BUF> struct sgd {
	struct zr_op_sgd op;
	enum { STATES = BUF };
	ZR_MEMBER struct sgd_factors factors() const
	{
		return sgd_factors(&op);
	}
	ZR_MEMBER float next(const struct sgd_factors &f, float p, float g, float *buf,
			     float *) const
	{
		return sgd_update(&f, p, g, BUF ? buf : NULL);
	}
};

cudaError_t zr_cuda_sgd(const struct zr_op_sgd *op, cudaStream_t s)
{
	return op->buf ? ZR_BY_TYPE(op->lowp_dtype, launch, sgd<true>{ *op }, op->grad, op->buf,
				    NULL, s) :
			 ZR_BY_TYPE(op->lowp_dtype, launch, sgd<false>{ *op }, op->grad, NULL, NULL,
				    s);
}

/* ---- lion ------------------------------------------------------------------------ */

struct lion {
	struct zr_op_lion op;
	enum { STATES = 1 };
	ZR_MEMBER struct lion_factors factors() const
	{
		return lion_factors(&op);
	}
	ZR_MEMBER float next(const struct lion_factors &f, float p, float g, float *m,
			     float *) const
	{
		return lion_update(&f, p, g, m);
	}
};

template <class L> static cudaError_t launch_lion8(const struct zr_op_lion *op, cudaStream_t s)
{
	return launch_groups<L>(*op, sweep8<lion, L>{ lion{ *op }, op->grad, { op->m, NULL } }, s);
}

cudaError_t zr_cuda_lion(const struct zr_op_lion *op, cudaStream_t s)
{
	if (op->moment_dtype == ZR_U8)
		return ZR_BY_TYPE(op->lowp_dtype, launch_lion8, op, s);
	return ZR_BY_TYPE(op->lowp_dtype, launch, lion{ *op }, op->grad, op->m, NULL, s);
}

/* ---- adagrad --------------------------------------------------------------------- */

struct adagrad {
	struct zr_op_adagrad op;
	enum { STATES = 1 };
	ZR_MEMBER struct adagrad_factors factors() const
	{
		return adagrad_factors(&op);
	}
	ZR_MEMBER float next(const struct adagrad_factors &f, float p, float g, float *sum,
			     float *) const
	{
		return adagrad_update(&f, p, g, sum);
	}
};

cudaError_t zr_cuda_adagrad(const struct zr_op_adagrad *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch, adagrad{ *op }, op->grad, op->sum, NULL, s);
}

/* ---- lamb ------------------------------------------------------------------------ */

struct lamb_all {
	struct lamb_factors f;
	float rate;
};

struct lamb {
	struct zr_op_lamb op;
	enum { STATES = 2 };
	ZR_MEMBER lamb_all factors() const
	{
		return lamb_all{ lamb_factors(&op), lamb_rate(&op) };
	}
	ZR_MEMBER float next(const lamb_all &a, float p, float g, float *m, float *v) const
	{
		return p - a.rate * lamb_direction(&a.f, p, g, m, v);
	}
};

cudaError_t zr_cuda_lamb(const struct zr_op_lamb *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch, lamb{ *op }, op->grad, op->m, op->v, s);
}

/* ---- muon_update ----------------------------------------------------------------- */

/* What it subtracts stands where others have gradients. */
struct muon {
	struct zr_op_muon op;
	enum { STATES = 0 };
	ZR_MEMBER struct muon_factors factors() const
	{
		return muon_factors(&op);
	}
	ZR_MEMBER float next(const struct muon_factors &f, float p, float x, float *, float *) const
	{
		return muon_step(&f, p, x);
	}
};

cudaError_t zr_cuda_muon_update(const struct zr_op_muon *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch, muon{ *op }, op->x, NULL, NULL, s);
}
