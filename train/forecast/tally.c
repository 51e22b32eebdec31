/* SPDX-License-Identifier: Apache-2.0
 *
 * tally.c - see tally.h: an operation's work follows from its sizes alone.
 */
#include "train/forecast/tally.h"

#include <stdio.h>
#include <string.h>

#define COLD 33554432.0 /* bytes of a copy that no cache holds */

/* "fp32", "bf16" */
static const char *type_name(int32_t dtype)
{
	return dtype == ZR_F32 ? "fp32" : "bf16"; /* fp16 takes the same units */
}

static double rate_of(struct zr_tally *t, const char *name, int dims, const double *at)
{
	uint64_t place = (uint64_t)(at[0] + 3 * at[1] + 7 * at[2]);
	for (const char *s = name; *s; s++)
		place = place * 31 + (unsigned char)*s;
	struct zr_tally_asked *a = &t->asked[place * 0x9e3779b97f4a7c15ULL >> (64 - ZR_TALLY_BITS)];
	if (memcmp(a->at, at, sizeof a->at) || strcmp(a->name, name)) {
		a->rate = zr_rate_at(t->rates, name, t->ranks, t->threads, at, dims);
		memcpy(a->at, at, sizeof a->at);
		snprintf(a->name, sizeof a->name, "%s", name);
	}
	return a->rate;
}

double zr_tally_seconds(struct zr_tally *t, double work, const char *name, int dims, double a,
			double b, double c)
{
	const double at[ZR_RATE_DIMS] = { a, b, c };
	double rate = work > 0 ? rate_of(t, name, dims, at) : 0;
	return rate > 0 ? work / rate : 0;
}

double zr_tally_bytes(struct zr_tally *t, double bytes)
{
	return zr_tally_seconds(t, bytes / 2, "copy", 1, bytes / 2, 1, 1);
}

/* An adapter passes a table of its own, with the device of ours. */
static struct zr_tally *of(const struct zr_ops *ops)
{
	return (struct zr_tally *)(void *)ops->dev;
}

/* Of `n` elements of which an operation touches `bytes` each. */
static int elements(const struct zr_ops *ops, const char *name, int32_t dtype, double n,
		    double bytes)
{
	struct zr_tally *t = of(ops);
	char full[ZR_RATE_NAME];
	snprintf(full, sizeof full, "%s.%s", name, type_name(dtype));
	double s = zr_tally_seconds(t, n, full, 1, n, 1, 1);
	if (!(s > 0)) {
		s = zr_tally_bytes(t, n * bytes * (dtype == ZR_F32 ? 4 : 2));
		t->without += s;
	}
	t->seconds += s;
	return ZR_OK;
}

/* What is used once a step is in no cache then, as it is where a rate is measured. */
static void come_from_memory(struct zr_tally *t, double bytes)
{
	t->seconds += zr_tally_seconds(t, bytes / 2, "copy", 1, COLD, 1, 1);
}

/* `times` products of m x n x k. */
static void product(struct zr_tally *t, int32_t dtype, const char *kind, double m, double n,
		    double k, double times)
{
	char name[ZR_RATE_NAME];
	double flops = 2 * m * n * k * times;
	snprintf(name, sizeof name, "matmul.%s.%s", type_name(dtype), kind);
	t->flops += flops;
	t->seconds += zr_tally_seconds(t, flops, name, 3, m, n, k);
	/* a weight, or its gradient in fp32 */
	come_from_memory(t, times * (*kind == 't' ? 4 * m * n : (dtype == ZR_F32 ? 4 : 2) * k * n));
}

static int matmul(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_matmul *op)
{
	(void)st;
	product(of(ops), op->a_dtype,
		op->flags & ZR_MM_TRANS_A ? "tn" :
		op->flags & ZR_MM_TRANS_B ? "nt" :
					    "nn",
		(double)op->m, (double)op->n, (double)op->k, 1);
	if (op->flags & ZR_MM_GELU)
		elements(ops, "gelu", op->d_dtype, (double)(op->m * op->n), 2);
	return ZR_OK;
}

static int low_rank(const struct zr_ops *ops, struct zr_stream *st,
		    const struct zr_op_matmul_low_rank *op)
{
	const struct zr_op_matmul *p = &op->product;
	product(of(ops), p->a_dtype, "nn", (double)p->m, (double)p->n, (double)op->r, 1);
	return matmul(ops, st, p);
}

static int embedding(const struct zr_ops *ops, struct zr_stream *st,
		     const struct zr_op_embedding *op)
{
	(void)st;
	return elements(ops, "embedding", op->dtype, (double)(op->batch * op->length * op->width),
			2);
}

/* Rows of the table to which nothing is added are zeroed. */
static int embedding_bwd(const struct zr_ops *ops, struct zr_stream *st,
			 const struct zr_op_embedding_bwd *op)
{
	const double rows = (double)(op->n_rows ? op->n_rows : op->vocabulary),
		     c = (double)op->width;
	(void)st;
	if (op->dwte && !(op->flags & ZR_OP_ACCUMULATE_WTE))
		of(ops)->seconds += zr_tally_bytes(of(ops), rows * c * 4);
	return op->dwte || op->dwpe ? elements(ops, "embedding_bwd", op->dtype,
					       (double)(op->batch * op->length) * c, 2) :
				      ZR_OK;
}

static int layernorm(const struct zr_ops *ops, struct zr_stream *st,
		     const struct zr_op_layernorm *op)
{
	(void)st;
	return elements(ops, "layernorm", op->dtype, (double)(op->rows * op->width), 2);
}

static int layernorm_bwd(const struct zr_ops *ops, struct zr_stream *st,
			 const struct zr_op_layernorm_bwd *op)
{
	(void)st;
	return elements(ops, "layernorm_bwd", op->dtype, (double)(op->rows * op->width), 4);
}

static uint64_t layernorm_bwd_work(const struct zr_ops *ops, const struct zr_op_layernorm_bwd *op)
{
	return of(ops)->real->layernorm_bwd_work(of(ops)->real, op);
}

static int rmsnorm(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_rmsnorm *op)
{
	(void)st;
	return elements(ops, "rmsnorm", op->dtype, (double)(op->rows * op->width), 2);
}

static int rmsnorm_bwd(const struct zr_ops *ops, struct zr_stream *st,
		       const struct zr_op_rmsnorm_bwd *op)
{
	(void)st;
	return elements(ops, "rmsnorm_bwd", op->dtype, (double)(op->rows * op->width), 4);
}

static uint64_t rmsnorm_bwd_work(const struct zr_ops *ops, const struct zr_op_rmsnorm_bwd *op)
{
	return of(ops)->real->rmsnorm_bwd_work(of(ops)->real, op);
}

/* The share of the causal triangle that a window leaves. */
static double window_share(const struct zr_op_attention *op)
{
	const double t = (double)op->length, w = (double)op->window;
	return w > 0 && w < t ? (w * t - w * w / 2) / (t * t / 2) : 1;
}

static int attention_of(struct zr_tally *t, const struct zr_op_attention *op, const char *name,
			double each)
{
	const double len = (double)op->length, d = (double)op->head_dim;
	const double flops =
		each * len * len * d * (double)(op->batch * op->heads) * window_share(op);
	char full[ZR_RATE_NAME];
	snprintf(full, sizeof full, "%s.%s", name, type_name(op->dtype));
	t->flops += flops;
	t->seconds += zr_tally_seconds(t, flops, full, 2, len, d, 1);
	return ZR_OK;
}

static int attention(const struct zr_ops *ops, struct zr_stream *st,
		     const struct zr_op_attention *op)
{
	(void)st;
	return attention_of(of(ops), op, "attention", 2);
}

static int attention_bwd(const struct zr_ops *ops, struct zr_stream *st,
			 const struct zr_op_attention_bwd *op)
{
	(void)st;
	return attention_of(of(ops), &op->fwd, "attention_bwd", 5);
}

static uint64_t attention_bwd_work(const struct zr_ops *ops, const struct zr_op_attention_bwd *op)
{
	return of(ops)->real->attention_bwd_work(of(ops)->real, op);
}

static int gelu_bwd(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_gelu_bwd *op)
{
	(void)st;
	return elements(ops, "gelu_bwd", op->dtype, (double)op->n, 4);
}

static int residual(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_residual *op)
{
	(void)st;
	return elements(ops, "residual", op->dtype, (double)op->n, 3);
}

static int bias_bwd(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_bias_bwd *op)
{
	(void)st;
	return elements(ops, "bias_bwd", op->dtype, (double)(op->rows * op->width), 1);
}

/* One product for the loss, one for each gradient. */
static int head_loss(const struct zr_ops *ops, struct zr_stream *st,
		     const struct zr_op_head_loss *op)
{
	struct zr_tally *t = of(ops);
	const double v = (double)(op->n_rows ? op->n_rows : op->vocabulary),
		     rows = (double)op->rows, c = (double)op->width;
	const double flops = rows * c * v * (2 + (op->dx ? 2 : 0) + (op->dw ? 2 : 0));
	char name[ZR_RATE_NAME];
	(void)st;
	snprintf(name, sizeof name, "head_loss.%s", type_name(op->dtype));
	t->flops += flops;
	t->seconds += zr_tally_seconds(t, flops, name, 3, rows, c, v);
	come_from_memory(
		t, v * c * ((op->dtype == ZR_F32 ? 4 : 2) * (op->dx ? 2 : 1) + (op->dw ? 4 : 0)));
	return ZR_OK;
}

static uint64_t head_loss_work(const struct zr_ops *ops, const struct zr_op_head_loss *op)
{
	return of(ops)->real->head_loss_work(of(ops)->real, op);
}

static int rotary(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_rotary *op)
{
	(void)st;
	return elements(ops, "rotary", op->dtype,
			(double)(op->batch * op->length * op->heads * op->head_dim), 2);
}

static int swiglu(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_swiglu *op)
{
	(void)st;
	return elements(ops, "swiglu", op->dtype, (double)op->n, 3);
}

static int swiglu_bwd(const struct zr_ops *ops, struct zr_stream *st,
		      const struct zr_op_swiglu_bwd *op)
{
	(void)st;
	return elements(ops, "swiglu_bwd", op->dtype, (double)op->n, 6);
}

static int logit_cap(const struct zr_ops *ops, struct zr_stream *st,
		     const struct zr_op_logit_cap *op)
{
	(void)st;
	return elements(ops, "logit_cap", ZR_F32, (double)op->n, 2);
}

static int cast(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_cast *op)
{
	const int to = op->dst_dtype == ZR_F32 ? 4 : 2, from = op->src_dtype == ZR_F32 ? 4 : 2;
	(void)st;
	of(ops)->seconds += zr_tally_bytes(of(ops), (double)op->n * (to + from));
	return ZR_OK;
}

static int init(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_init *op)
{
	(void)st;
	of(ops)->seconds += zr_tally_bytes(of(ops), (double)op->n * 4);
	return ZR_OK;
}

static int fold(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_fold *op)
{
	(void)st;
	return elements(ops, "fold", ZR_F32, (double)op->n, 3);
}

/* ---- experts: as if tokens went to all of them alike -------------------------------------- */

static int route(const struct zr_ops *ops, struct zr_stream *st, const struct zr_op_route *op)
{
	(void)st;
	return elements(ops, "route", ZR_F32, (double)(op->rows * op->experts), 4);
}

static int router_losses(const struct zr_ops *ops, struct zr_stream *st,
			 const struct zr_op_router_losses *op)
{
	(void)ops;
	(void)st;
	(void)op; /* a few numbers */
	return ZR_OK;
}

static int route_bwd(const struct zr_ops *ops, struct zr_stream *st,
		     const struct zr_op_route_bwd *op)
{
	(void)st;
	return elements(ops, "route_bwd", ZR_F32, (double)(op->rows * op->experts), 2);
}

static int expert_rows(const struct zr_ops *ops, struct zr_stream *st,
		       const struct zr_op_expert_rows *op)
{
	(void)st;
	return elements(ops, "expert_rows", op->dtype, (double)(op->rows * op->k * op->width), 2);
}

static int expert_combine(const struct zr_ops *ops, struct zr_stream *st,
			  const struct zr_op_expert_combine *op)
{
	(void)st;
	return elements(ops, "expert_combine", op->dtype, (double)(op->rows * op->k * op->width),
			2);
}

static int expert_weigh(const struct zr_ops *ops, struct zr_stream *st,
			const struct zr_op_expert_weigh *op)
{
	(void)st;
	return elements(ops, "expert_weigh", op->dtype, (double)(op->places * op->width), 4);
}

static int grouped(const struct zr_ops *ops, struct zr_stream *st,
		   const struct zr_op_matmul_grouped *op)
{
	const double rows = (double)op->rows / (double)op->experts;
	(void)st;
	product(of(ops), op->a_dtype, op->flags & ZR_MM_TRANS_B ? "nt" : "nn", rows, (double)op->n,
		(double)op->k, (double)op->experts);
	return ZR_OK;
}

static int grouped_dw(const struct zr_ops *ops, struct zr_stream *st,
		      const struct zr_op_matmul_grouped_dw *op)
{
	double wanted = 0;
	(void)st;
	for (int64_t e = 0; e < op->experts; e++)
		wanted += op->dw[e] != NULL;
	product(of(ops), op->dtype, "tn", (double)op->m, (double)op->n,
		(double)op->rows / (double)op->experts, wanted);
	return ZR_OK;
}

void zr_tally_open(struct zr_tally *t, const struct zr_ops *real, const struct zr_rates *rates,
		   int ranks, int threads)
{
	*t = (struct zr_tally){ .real = real, .rates = rates, .ranks = ranks, .threads = threads };
	t->ops = (struct zr_ops){
		.size = sizeof t->ops,
		.dev = (struct zr_inst *)(void *)t,
		.matmul = matmul,
		.embedding = embedding,
		.embedding_bwd = embedding_bwd,
		.layernorm = layernorm,
		.layernorm_bwd = layernorm_bwd,
		.layernorm_bwd_work = layernorm_bwd_work,
		.attention = attention,
		.attention_bwd = attention_bwd,
		.attention_bwd_work = attention_bwd_work,
		.gelu_bwd = gelu_bwd,
		.residual = residual,
		.bias_bwd = bias_bwd,
		.head_loss = head_loss,
		.head_loss_work = head_loss_work,
		.cast = cast,
		.init = init,
		.fold = fold,
		.rmsnorm = rmsnorm,
		.rmsnorm_bwd = rmsnorm_bwd,
		.rmsnorm_bwd_work = rmsnorm_bwd_work,
		.rotary = rotary,
		.swiglu = swiglu,
		.swiglu_bwd = swiglu_bwd,
		.embedding_bwd_rows = embedding_bwd,
		.head_loss_rows = head_loss,
		.matmul_low_rank = low_rank,
		.route = route,
		.router_losses = router_losses,
		.route_bwd = route_bwd,
		.expert_rows = expert_rows,
		.expert_combine = expert_combine,
		.expert_weigh = expert_weigh,
		.matmul_grouped = grouped,
		.matmul_grouped_dw = grouped_dw,
		.logit_cap = logit_cap,
	};
}
