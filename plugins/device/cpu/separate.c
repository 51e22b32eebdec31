/* SPDX-License-Identifier: Apache-2.0
 *
 * separate.c - the operations on a separate memory: each copies its argument struct, turns the
 * addresses that callers see into those of the memory, and calls the operation itself. Addresses of
 * host memory are refused.
 *
 * A row per slot of struct zr_ops, in its order. Compilation fails if a slot has no row, or if a
 * struct has grown since its row was written.
 */
#include "cpu.h"

#include <string.h>

/* OPERATION(slot, X of its struct zr_op_X, the last member of that, every pointer in it)
 * QUERY(slot, X of the struct that it is asked about): addresses do not matter */
#define ROWS(OPERATION, QUERY)                                                                     \
	OPERATION(matmul, matmul, pre, AT(a), AT(b), AT(d), AT(bias), AT(pre))                     \
	OPERATION(embedding, embedding, position, AT(tokens), AT(wte), AT(wpe), AT(out),           \
		  AT(position))                                                                    \
	OPERATION(embedding_bwd, embedding_bwd, n_rows, AT(tokens), AT(dout), AT(dwte), AT(dwpe),  \
		  AT(position))                                                                    \
	OPERATION(layernorm, layernorm, rstd, AT(x), AT(gamma), AT(beta), AT(y), AT(mean),         \
		  AT(rstd))                                                                        \
	OPERATION(layernorm_bwd, layernorm_bwd, work, AT(dy), AT(x), AT(gamma), AT(mean),          \
		  AT(rstd), AT(dx), AT(dgamma), AT(dbeta), AT(work))                               \
	QUERY(layernorm_bwd_work, layernorm_bwd)                                                   \
	OPERATION(attention, attention, v_head, AT(q), AT(k), AT(v), AT(out), AT(lse), AT(starts)) \
	OPERATION(attention_bwd, attention_bwd, fwd, AT(fwd.q), AT(fwd.k), AT(fwd.v), AT(fwd.out), \
		  AT(fwd.lse), AT(fwd.starts), AT(dout), AT(dq), AT(dk), AT(dv), AT(work))         \
	QUERY(attention_bwd_work, attention_bwd)                                                   \
	OPERATION(gelu_bwd, gelu_bwd, act, AT(dy), AT(pre), AT(dx), AT(act))                       \
	OPERATION(residual, residual, rsv, AT(a), AT(b), AT(out))                                  \
	OPERATION(bias_bwd, bias_bwd, db, AT(dy), AT(db))                                          \
	OPERATION(head_loss, head_loss, softcap, AT(x), AT(w), AT(targets), AT(loss),              \
		  AT(loss_sum), AT(dx), AT(dw), AT(work), AT(weights), AT(stats), AT(right))       \
	QUERY(head_loss_work, head_loss)                                                           \
	OPERATION(fold, fold, nonfinite, AT(g), AT(acc), AT(sumsq), AT(nonfinite))                 \
	OPERATION(adamw, adamw, rem, AT(scalars), AT(grad), AT(master), AT(m), AT(v), AT(lowp),    \
		  AT(rem))                                                                         \
	OPERATION(sgd, sgd, lowp, AT(scalars), AT(grad), AT(master), AT(buf), AT(lowp))            \
	OPERATION(cast, cast, dst, AT(src), AT(dst))                                               \
	OPERATION(init, init, dst, AT(dst))                                                        \
	OPERATION(master_join, master, rsv, AT(master), AT(lowp), AT(rem))                         \
	OPERATION(master_split, master, rsv, AT(master), AT(lowp), AT(rem))                        \
	OPERATION(round_stochastic, round_stochastic, dst, AT(src), AT(dst))                       \
	OPERATION(lion, lion, rsv, AT(scalars), AT(grad), AT(master), AT(m), AT(lowp), AT(rem))    \
	OPERATION(adagrad, adagrad, lowp, AT(scalars), AT(grad), AT(master), AT(sum), AT(lowp))    \
	OPERATION(lamb_norms, lamb, norms, AT(scalars), AT(grad), AT(master), AT(m), AT(v),        \
		  AT(block_norms))                                                                 \
	OPERATION(lamb, lamb, norms, AT(scalars), AT(grad), AT(master), AT(m), AT(v), AT(lowp),    \
		  AT(norms))                                                                       \
	OPERATION(muon_momentum, muon, lowp, AT(scalars), AT(grad), AT(buf), AT(x), AT(sumsq))     \
	OPERATION(muon_normalize, muon, lowp, AT(x), AT(sumsq))                                    \
	OPERATION(muon_factor, muon_factor, square, AT(gram), AT(square))                          \
	OPERATION(muon_update, muon, lowp, AT(scalars), AT(master), AT(x), AT(lowp))               \
	OPERATION(rmsnorm, rmsnorm, y_stride, AT(x), AT(gamma), AT(y), AT(rstd))                   \
	OPERATION(rmsnorm_bwd, rmsnorm_bwd, dx_stride, AT(dy), AT(x), AT(gamma), AT(rstd), AT(dx), \
		  AT(dgamma), AT(work))                                                            \
	QUERY(rmsnorm_bwd_work, rmsnorm_bwd)                                                       \
	OPERATION(rotary, rotary, rsv2, AT(x), AT(out), AT(position))                              \
	OPERATION(swiglu, swiglu, stride, AT(gate), AT(up), AT(out))                               \
	OPERATION(swiglu_bwd, swiglu_bwd, stride, AT(dy), AT(gate), AT(up), AT(dgate), AT(dup),    \
		  AT(act))                                                                         \
	OPERATION(embedding_bwd_rows, embedding_bwd, n_rows, AT(tokens), AT(dout), AT(dwte),       \
		  AT(dwpe), AT(position))                                                          \
	OPERATION(head_loss_rows, head_loss, softcap, AT(x), AT(w), AT(targets), AT(loss),         \
		  AT(loss_sum), AT(dx), AT(dw), AT(work), AT(weights), AT(stats), AT(right))       \
	OPERATION(matmul_low_rank, matmul_low_rank, product, AT(u), AT(v), AT(product.a),          \
		  AT(product.b), AT(product.d), AT(product.bias), AT(product.pre))                 \
	OPERATION(route, route, targets, AT(logits), AT(lse), AT(ids), AT(weights), AT(offsets),   \
		  AT(order), AT(where), AT(before), AT(sums), AT(targets))                         \
	OPERATION(route_bwd, route_bwd, targets, AT(p), AT(lse), AT(ids), AT(weights), AT(share),  \
		  AT(dweights), AT(dlogits), AT(targets))                                          \
	OPERATION(expert_rows, expert_rows, out, AT(order), AT(x), AT(out))                        \
	OPERATION(expert_combine, expert_combine, out, AT(where), AT(weights), AT(y), AT(out))     \
	OPERATION(expert_weigh, expert_weigh, dweights, AT(order), AT(weights), AT(x), AT(dy),     \
		  AT(dweights))                                                                    \
	OPERATION(matmul_grouped, matmul_grouped, b, AT(offsets), AT(a), AT(d), EACH(b))           \
	OPERATION(matmul_grouped_dw, matmul_grouped_dw, dw, AT(offsets), AT(order), AT(dy), AT(x), \
		  EACH(dw))                                                                        \
	OPERATION(logit_cap, logit_cap, x, AT(x))                                                  \
	OPERATION(router_losses, router_losses, loss, AT(sums), AT(share), AT(loss))

static int translate(const struct zr_inst *d, void *op, const uint16_t *at, size_t n,
		     const char *name, const char *members)
{
	size_t i;
	for (i = 0; i < n; i++) {
		void *p, *real;
		memcpy(&p, (char *)op + at[i], sizeof p); /* pointers of any type */
		real = cpu_real(d, p);
		if (p && real == p)
			return zr_fail(
				d->h, ZR_EINVAL,
				"operation %s: pointer %zu of %s is not to memory of this device, "
				"which is separate",
				name, i + 1, members);

		memcpy((char *)op + at[i], &real, sizeof real);
	}
	return ZR_OK;
}

#define AT(member) offsetof(T, member)
/* of an array of ZR_EXPERTS pointers */
#define FOUR(a, i)    AT(a[i]), AT(a[(i) + 1]), AT(a[(i) + 2]), AT(a[(i) + 3])
#define SIXTEEN(a, i) FOUR(a, i), FOUR(a, (i) + 4), FOUR(a, (i) + 8), FOUR(a, (i) + 12)
#define QUARTER(a, i)                                                                              \
	SIXTEEN(a, i), SIXTEEN(a, (i) + 16), SIXTEEN(a, (i) + 32), SIXTEEN(a, (i) + 48)
#define EACH(a) QUARTER(a, 0), QUARTER(a, 64), QUARTER(a, 128), QUARTER(a, 192)
_Static_assert(ZR_EXPERTS == 256, "EACH");

#define CALL(name, arg, last, ...)                                                                 \
	static int name(const struct zr_ops *ops, struct zr_stream *s,                             \
			const struct zr_op_##arg *given)                                           \
	{                                                                                          \
		typedef struct zr_op_##arg T;                                                      \
		static const uint16_t at[] = { __VA_ARGS__ };                                      \
		const struct zr_ops *real = &ops->dev->ops;                                        \
		T op = *given;                                                                     \
		_Static_assert(sizeof op - offsetof(T, last) - sizeof op.last < sizeof(void *),    \
			       "struct zr_op_" #arg                                                \
			       " has grown: list its pointers in ROWS, and its last member");      \
		int rc =                                                                           \
			translate(ops->dev, &op, at, sizeof at / sizeof *at, #name, #__VA_ARGS__); \
		return rc ? rc : real->name(real, s, &op);                                         \
	}

#define ASK(name, arg)                                                                             \
	static uint64_t name(const struct zr_ops *ops, const struct zr_op_##arg *op)               \
	{                                                                                          \
		const struct zr_ops *real = &ops->dev->ops;                                        \
		return real->name(real, op);                                                       \
	}

ROWS(CALL, ASK)

/* The rows laid out as the slots are. */
#define SLOT(name, ...) void (*name)(void);
struct rows {
	uint32_t size, rsv;
	struct zr_inst *dev;
	ROWS(SLOT, SLOT)
	SLOT(native) SLOT(elementwise)
};
#define IN_PLACE(name, ...)                                                                        \
	_Static_assert(offsetof(struct rows, name) == offsetof(struct zr_ops, name),               \
		       "ROWS: " #name " is out of order");
ROWS(IN_PLACE, IN_PLACE)
_Static_assert(sizeof(struct rows) == sizeof(struct zr_ops),
	       "struct zr_ops has grown: ROWS lacks its new slots");

void cpu_separate_fill(struct zr_ops *ops, struct zr_inst *d)
{
#define NAME(name, ...) .name = name,
	*ops = (struct zr_ops){ .size = sizeof *ops,
				.dev = d,
				ROWS(NAME, NAME).native = d->ops.native,
				.elementwise = d->ops.elementwise };
}
