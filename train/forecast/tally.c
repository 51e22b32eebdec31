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

/* Bytes of an element, of codes less than one. */
static double size_of(int32_t dtype)
{
	return (double)zr_bytes_of(dtype, ZR_BLOCK) / ZR_BLOCK;
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

/* Beside a device with a memory of its own, once a rate of the host is known, what has none is not
 * as fast as on the device. */
static double host_rate(struct zr_tally *t, const char *name, int dims, const double *at)
{
	static const double one[ZR_RATE_DIMS] = { COLD, 1, 1 };
	char full[ZR_RATE_NAME];

	snprintf(full, sizeof full, "host.%s", name);
	double rate = rate_of(t, full, dims, at);
	if (rate > 0 || (t->streams && rate_of(t, "host.copy", 1, one) > 0))
		return rate;
	return rate_of(t, name, dims, at);
}

double zr_tally_seconds(struct zr_tally *t, double work, const char *name, int dims, double a,
			double b, double c)
{
	const double at[ZR_RATE_DIMS] = { a, b, c };
	double rate;

	if (!(work > 0))
		return 0;
	if (t->on_host)
		rate = host_rate(t, name, dims, at);
	else
		rate = rate_of(t, name, dims, at);
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
		s = zr_tally_bytes(t, n * bytes * size_of(dtype));
		t->without += s;
	}

	t->seconds += s;
	return ZR_OK;
}

/* An operation takes so many seconds at its rate, and uses parameters or their gradients of so many
 * bytes. What is used once a step is then in no cache of a processor, as it is where a rate is
 * measured. A card's rate is that of operands in its memory, which it reads while it computes. */
static void uses_parameters(struct zr_tally *t, double seconds, double bytes)
{
	const double memory = zr_tally_seconds(t, bytes / 2, "copy", 1, COLD, 1, 1);

	if (!t->streams || t->on_host)
		t->seconds += seconds + memory;
	else
		t->seconds += seconds > memory ? seconds : memory;
}

/* `times` products of m x n x k. */
static void product(struct zr_tally *t, int32_t dtype, const char *kind, double m, double n,
		    double k, double times)
{
	char name[ZR_RATE_NAME];
	double flops = 2 * m * n * k * times;

	snprintf(name, sizeof name, "matmul.%s.%s", type_name(dtype), kind);
	t->flops += flops;

	const double seconds = zr_tally_seconds(t, flops, name, 3, m, n, k);
	if (*kind == 't') /* the gradient of a weight, in fp32 */
		uses_parameters(t, seconds, times * (4 * m * n));
	else
		uses_parameters(t, seconds, times * (size_of(dtype) * k * n));
}

/* Of operands that are rounded to 8 bits within. Who has no rate of such products multiplies in 16
 * bits; then each operand is read twice before, as its scale comes first, and written once. */
static void narrow_product(struct zr_tally *t, const struct zr_op_matmul *op, const char *kind)
{
	const double m = (double)op->m, n = (double)op->n, k = (double)op->k;
	const double flops = 2 * m * n * k, each = 3 * size_of(op->a.dtype);
	const double seconds = zr_tally_seconds(t, flops, "matmul.fp8.nn", 3, m, n, k);

	if (seconds > 0) {
		t->flops += flops;
		t->seconds += seconds;
		return;
	}

	if (!(op->flags & ZR_MM_SAME_A))
		t->seconds += zr_tally_bytes(t, m * k * each);
	t->seconds += zr_tally_bytes(t, k * n * each);
	product(t, op->a.dtype, kind, m, n, k, 1);
}

static int work_of_matmul(const struct zr_ops *ops, const struct zr_op_matmul *op)
{
	const char *kind = "nn";

	if (op->flags & ZR_MM_TRANS_A)
		kind = "tn";
	else if (op->flags & ZR_MM_TRANS_B)
		kind = "nt";

	if (op->flags & ZR_MM_FP8)
		narrow_product(of(ops), op, kind);
	else
		product(of(ops), op->a.dtype, kind, (double)op->m, (double)op->n, (double)op->k, 1);
	if (op->flags & ZR_MM_GELU)
		elements(ops, "gelu", op->d.dtype, (double)(op->m * op->n), 2);
	return ZR_OK;
}

static int work_of_matmul_low_rank(const struct zr_ops *ops, const struct zr_op_matmul_low_rank *op)
{
	const struct zr_op_matmul *p = &op->product;
	product(of(ops), p->a.dtype, "nn", (double)p->m, (double)p->n, (double)op->r, 1);
	return work_of_matmul(ops, p);
}

/* Rows of the table to which nothing is added are zeroed. */
static int work_of_embedding_bwd(const struct zr_ops *ops, const struct zr_op_embedding_bwd *op)
{
	const double rows = (double)(op->n_rows ? op->n_rows : op->vocabulary),
		     c = (double)op->width;

	if (op->dwte && !(op->flags & ZR_OP_ACCUMULATE_WTE))
		of(ops)->seconds += zr_tally_bytes(of(ops), rows * c * 4);
	if (!op->dwte && !op->dwpe)
		return ZR_OK;
	return elements(ops, "embedding_bwd", op->dtype, (double)(op->batch * op->length) * c, 2);
}

/* Keys of the first t queries of a causal triangle, or of what a window leaves of it. */
static double keys_of(double t, double window)
{
	const double w = window > 0 && window < t ? window : t;
	return w * t - w * w / 2;
}

/* The share of the triangle that is computed. */
static double computed_share(const struct zr_op_attention *op)
{
	const double t = (double)op->length, w = (double)op->window;
	return (keys_of(t, w) - keys_of((double)op->first, w)) / (t * t / 2);
}

static int attention_of(struct zr_tally *t, const struct zr_op_attention *op, const char *name,
			double each)
{
	const double len = (double)op->length, d = (double)op->head_dim;
	const double flops =
		each * len * len * d * (double)(op->batch * op->heads) * computed_share(op);
	char full[ZR_RATE_NAME];

	snprintf(full, sizeof full, "%s.%s", name, type_name(op->dtype));
	t->flops += flops;
	t->seconds += zr_tally_seconds(t, flops, full, 2, len, d, 1);
	return ZR_OK;
}

static int work_of_attention(const struct zr_ops *ops, const struct zr_op_attention *op)
{
	return attention_of(of(ops), op, "attention", 2);
}

static int work_of_attention_bwd(const struct zr_ops *ops, const struct zr_op_attention_bwd *op)
{
	return attention_of(of(ops), &op->fwd, "attention_bwd", 5);
}

/* One product for the loss, one for each gradient. */
static int work_of_head_loss(const struct zr_ops *ops, const struct zr_op_head_loss *op)
{
	struct zr_tally *t = of(ops);
	const double v = (double)(op->n_rows ? op->n_rows : op->vocabulary),
		     rows = (double)op->rows, c = (double)op->width;
	const int64_t rank = ZR_HAS(op, struct zr_op_head_loss, dv) ? op->r : 0;
	const double low = rows * (double)rank * v * (op->dx ? 6 : 2);
	const int products = 1 + (op->dx != NULL) + (op->dw != NULL);
	const double flops = 2 * rows * c * v * products + low;
	char name[ZR_RATE_NAME];

	snprintf(name, sizeof name, "head_loss.%s", type_name(op->dtype));
	double weight_bytes = (double)size_of(op->dtype); /* of each, and of its gradient in fp32 */
	if (op->dx)
		weight_bytes *= 2;
	if (op->dw)
		weight_bytes += 4;
	t->flops += flops;
	uses_parameters(t, zr_tally_seconds(t, flops, name, 3, rows, c, v), v * c * weight_bytes);
	return ZR_OK;
}

static int work_of_cast(const struct zr_ops *ops, const struct zr_op_cast *op)
{
	const double each = size_of(op->dst.dtype) + size_of(op->src.dtype);
	of(ops)->seconds += zr_tally_bytes(of(ops), (double)op->n * each);
	return ZR_OK;
}

static int work_of_init(const struct zr_ops *ops, const struct zr_op_init *op)
{
	of(ops)->seconds += zr_tally_bytes(of(ops), (double)op->n * 4);
	return ZR_OK;
}

/* ---- experts: as if tokens went to all of them alike -------------------------------------- */

static int work_of_matmul_grouped(const struct zr_ops *ops, const struct zr_op_matmul_grouped *op)
{
	const double rows = (double)op->rows / (double)op->experts;
	product(of(ops), op->a.dtype, op->flags & ZR_MM_TRANS_B ? "nt" : "nn", rows, (double)op->n,
		(double)op->k, (double)op->experts);
	return ZR_OK;
}

static int work_of_matmul_grouped_dw(const struct zr_ops *ops,
				     const struct zr_op_matmul_grouped_dw *op)
{
	double wanted = 0;

	for (int64_t e = 0; e < op->experts; e++)
		wanted += op->dw[e] != NULL;
	product(of(ops), op->dtype, "tn", (double)op->m, (double)op->n,
		(double)op->rows / (double)op->experts, wanted);
	return ZR_OK;
}

/* ---- the table: operations of an update are left out -------------------------------------- */

#define ELEMENTS(type, n, bytes) elements(ops, __func__, type, (double)(n), bytes)
#define OWN(name)                work_of_##name(ops, o)
#define FREE                     ((void)ops, (void)o, ZR_OK)
#define OPERATION(name, arg, last, pointers, work)                                                 \
	static int name(const struct zr_ops *ops, struct zr_stream *s,                             \
			const struct zr_op_##arg *o)                                               \
	{                                                                                          \
		(void)s;                                                                           \
		return work;                                                                       \
	}
#define UPDATE(name, arg, last, pointers)
#define QUERY(name, arg)                                                                           \
	static uint64_t name(const struct zr_ops *ops, const struct zr_op_##arg *o)                \
	{                                                                                          \
		return of(ops)->real->name(of(ops)->real, o);                                      \
	}
#include <ops.def>

void zr_tally_open(struct zr_tally *t, const struct zr_ops *real, const struct zr_rates *rates,
		   int ranks, int threads)
{
	*t = (struct zr_tally){ .real = real, .rates = rates, .ranks = ranks, .threads = threads };
	t->ops = (struct zr_ops){
		.size = sizeof t->ops,
		.dev = (struct zr_inst *)(void *)t,
#define OPERATION(name, arg, last, pointers, work) .name = name,
#define UPDATE(name, arg, last, pointers)
#define QUERY(name, arg) .name = name,
#include <ops.def>
	};
}
