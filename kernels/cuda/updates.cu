/* SPDX-License-Identifier: Apache-2.0
 *
 * updates.cu - the optimizers in one sweep: masters, states and the copy of 16 bits pass once. AdamW reads 16 bytes of
 * an element and writes 12 and the copy; with bf16 moments 12 and 8. Bits of the CPU's scalar kernels.
 */
#include "kernel.h"

#include "../cpu/adamw.h"
#include "../cpu/lamb.h"
#include "../cpu/update.h"

/* Operands of an update but for lowp are fp32 unless M says otherwise; L is lowp's type. */
template <class L>
static int quads(const void *grad, const void *master, const void *m, const void *v, size_t moment, const void *lowp)
{
	return zr_quads(grad, 4) && zr_quads(master, 4) && zr_quads(m, (int64_t)moment) && zr_quads(v, (int64_t)moment) &&
	       zr_quads(lowp, sizeof(L));
}

template <class L> ZR_DEVICE void store_master(float *master, void *lowp, zr_place at, const zr_quad &p)
{
	zr_store<float>(master, at, p);
	if (lowp)
		zr_store<L>(lowp, at, p);
}

/* ---- adamw ------------------------------------------------------------------------------------ */

template <class M, class L> struct adamw {
	struct zr_op_adamw op;
	ZR_MEMBER struct adamw_factors factors() const { return adamw_factors(&op); }
	ZR_MEMBER void quad(const struct adamw_factors &f, zr_place at) const
	{
		zr_quad p = zr_load<float>(op.master, at), g = zr_load<float>(op.grad, at);
		zr_quad m = zr_load<M>(op.m, at), v = zr_load<M>(op.v, at);
		for (int k = 0; k < 4; k++)
			p.x[k] = adamw_update(&f, op.l2, p.x[k], g.x[k], &m.x[k], &v.x[k]);
		zr_store<M>(op.m, at, m);
		zr_store<M>(op.v, at, v);
		store_master<L>(op.master, op.lowp, at, p);
	}
};

template <class L> static cudaError_t launch_adamw(const struct zr_op_adamw *o, cudaStream_t s)
{
	int narrow = o->moment_dtype == ZR_BF16, whole = quads<L>(o->grad, o->master, o->m, o->v, narrow ? 2 : 4, o->lowp);
	return narrow ? zr_sweep(adamw<bf16, L>{ *o }, o->n, whole, s) :
			zr_sweep(adamw<float, L>{ *o }, o->n, whole, s);
}

cudaError_t zr_cuda_adamw(const struct zr_op_adamw *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_adamw, op, s);
}

/* ---- sgd -------------------------------------------------------------------------------------- */

template <class L> struct sgd {
	struct zr_op_sgd op;
	ZR_MEMBER struct sgd_factors factors() const { return sgd_factors(&op); }
	ZR_MEMBER void quad(const struct sgd_factors &f, zr_place at) const
	{
		zr_quad p = zr_load<float>(op.master, at), g = zr_load<float>(op.grad, at), buf = { { 0, 0, 0, 0 } };
		if (op.buf)
			buf = zr_load<float>(op.buf, at);
		for (int k = 0; k < 4; k++)
			p.x[k] = sgd_update(&f, p.x[k], g.x[k], op.buf ? &buf.x[k] : NULL);
		if (op.buf)
			zr_store<float>(op.buf, at, buf);
		store_master<L>(op.master, op.lowp, at, p);
	}
};

template <class L> static cudaError_t launch_sgd(const struct zr_op_sgd *o, cudaStream_t s)
{
	return zr_sweep(sgd<L>{ *o }, o->n, quads<L>(o->grad, o->master, o->buf, NULL, 4, o->lowp), s);
}

cudaError_t zr_cuda_sgd(const struct zr_op_sgd *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_sgd, op, s);
}

/* ---- lion ------------------------------------------------------------------------------------- */

template <class L> struct lion {
	struct zr_op_lion op;
	ZR_MEMBER struct lion_factors factors() const { return lion_factors(&op); }
	ZR_MEMBER void quad(const struct lion_factors &f, zr_place at) const
	{
		zr_quad p = zr_load<float>(op.master, at), g = zr_load<float>(op.grad, at), m = zr_load<float>(op.m, at);
		for (int k = 0; k < 4; k++)
			p.x[k] = lion_update(&f, p.x[k], g.x[k], &m.x[k]);
		zr_store<float>(op.m, at, m);
		store_master<L>(op.master, op.lowp, at, p);
	}
};

template <class L> static cudaError_t launch_lion(const struct zr_op_lion *o, cudaStream_t s)
{
	return zr_sweep(lion<L>{ *o }, o->n, quads<L>(o->grad, o->master, o->m, NULL, 4, o->lowp), s);
}

cudaError_t zr_cuda_lion(const struct zr_op_lion *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_lion, op, s);
}

/* ---- adagrad ---------------------------------------------------------------------------------- */

template <class L> struct adagrad {
	struct zr_op_adagrad op;
	ZR_MEMBER struct adagrad_factors factors() const { return adagrad_factors(&op); }
	ZR_MEMBER void quad(const struct adagrad_factors &f, zr_place at) const
	{
		zr_quad p = zr_load<float>(op.master, at), g = zr_load<float>(op.grad, at), sum = zr_load<float>(op.sum, at);
		for (int k = 0; k < 4; k++)
			p.x[k] = adagrad_update(&f, p.x[k], g.x[k], &sum.x[k]);
		zr_store<float>(op.sum, at, sum);
		store_master<L>(op.master, op.lowp, at, p);
	}
};

template <class L> static cudaError_t launch_adagrad(const struct zr_op_adagrad *o, cudaStream_t s)
{
	return zr_sweep(adagrad<L>{ *o }, o->n, quads<L>(o->grad, o->master, o->sum, NULL, 4, o->lowp), s);
}

cudaError_t zr_cuda_adagrad(const struct zr_op_adagrad *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_adagrad, op, s);
}

/* ---- lamb ------------------------------------------------------------------------------------- */

struct lamb_all {
	struct lamb_factors f;
	float rate;
};

template <class L> struct lamb {
	struct zr_op_lamb op;
	ZR_MEMBER lamb_all factors() const { return lamb_all{ lamb_factors(&op), lamb_rate(&op) }; }
	ZR_MEMBER void quad(const lamb_all &a, zr_place at) const
	{
		zr_quad p = zr_load<float>(op.master, at), g = zr_load<float>(op.grad, at);
		zr_quad m = zr_load<float>(op.m, at), v = zr_load<float>(op.v, at);
		for (int k = 0; k < 4; k++)
			p.x[k] = p.x[k] - a.rate * lamb_direction(&a.f, p.x[k], g.x[k], &m.x[k], &v.x[k]);
		zr_store<float>(op.m, at, m);
		zr_store<float>(op.v, at, v);
		store_master<L>(op.master, op.lowp, at, p);
	}
};

template <class L> static cudaError_t launch_lamb(const struct zr_op_lamb *o, cudaStream_t s)
{
	return zr_sweep(lamb<L>{ *o }, o->n, quads<L>(o->grad, o->master, o->m, o->v, 4, o->lowp), s);
}

cudaError_t zr_cuda_lamb(const struct zr_op_lamb *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_lamb, op, s);
}

/* ---- muon_update ------------------------------------------------------------------------------ */

template <class L> struct muon {
	struct zr_op_muon op;
	ZR_MEMBER struct muon_factors factors() const { return muon_factors(&op); }
	ZR_MEMBER void quad(const struct muon_factors &f, zr_place at) const
	{
		zr_quad p = zr_load<float>(op.master, at), x = zr_load<float>(op.x, at);
		for (int k = 0; k < 4; k++)
			p.x[k] = muon_step(&f, p.x[k], x.x[k]);
		store_master<L>(op.master, op.lowp, at, p);
	}
};

template <class L> static cudaError_t launch_muon(const struct zr_op_muon *o, cudaStream_t s)
{
	return zr_sweep(muon<L>{ *o }, o->n, quads<L>(o->x, o->master, NULL, NULL, 4, o->lowp), s);
}

cudaError_t zr_cuda_muon_update(const struct zr_op_muon *op, cudaStream_t s)
{
	return ZR_BY_TYPE(op->lowp_dtype, launch_muon, op, s);
}
