/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - matrix products, attention and the loss with its projection, by the device's operations.
 */

#include "bench.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

static const int32_t types[] = { ZR_F32, ZR_BF16 };
static const char *const type_names[] = { "fp32", "bf16" };

struct product {
	struct zr_bench *b;
	struct zr_op_matmul op;
	struct zr_op_attention_bwd attention;
	struct zr_op_head_loss head;
};

static int op_failed(struct product *p, int rc, const char *op)
{
	return zr_instance_failed(&p->b->s->roles.device, rc, op, p->b->err);
}

static int matmul(void *arg)
{
	struct product *p = arg;
	const struct zr_ops *ops = p->b->s->roles.ops;
	return op_failed(p, ops->matmul(ops, NULL, &p->op), "matmul");
}

/* kind: TYPE.nn, .nt or .tn */
static int measure_product(struct product *p, int type, const char *kind, uint32_t flags,
			   const int64_t *size, double limit)
{
	const struct zr_ops *ops = p->b->s->roles.ops;
	const int64_t m = size[0], n = size[1], k = size[2];
	const int32_t t = types[type], d = flags & ZR_MM_TRANS_A ? ZR_F32 : t;
	const uint64_t width = zr_bytes_of(t, 1);
	const double at[] = { (double)m, (double)n, (double)k };
	char name[ZR_RATE_NAME];

	zr_bench_empty(p->b);
	p->op = (struct zr_op_matmul){ .size = sizeof p->op,
				       .flags = flags,
				       .m = m,
				       .n = n,
				       .k = k,
				       .lda = flags & ZR_MM_TRANS_A ? m : k,
				       .ldb = flags & ZR_MM_TRANS_B ? k : n,
				       .ldd = n };
	p->op.a = zr_array_at(t, zr_bench_take(p->b, width * (uint64_t)(m * k)));
	p->op.b = zr_array_at(t, zr_bench_take(p->b, width * (uint64_t)(k * n)));
	p->op.d = zr_array_at(d, zr_bench_take(p->b, 4 * (uint64_t)(m * n)));
	if (flags & ZR_MM_FP8)
		p->op.work = zr_bench_take(p->b, ops->matmul_work(ops, &p->op));
	double s = zr_bench_time(p->b, matmul, p);
	snprintf(name, sizeof name, "matmul.%s", kind);
	zr_bench_note(p->b, name, at, 3, 2 * at[0] * at[1] * at[2], s, "FLOP/s", limit,
		      m == n && n == k && m >= 256);
	return s > 0 ? 0 : p->b->err->code;
}

/* Whether the device multiplies numbers of 8 bits otherwise than in 16, which is the host's way. */
static int has_8_bits(const struct zr_setup *s)
{
	const struct zr_ops *ops = s->roles.ops;
	return !s->facts.device_info.unified && ZR_HAS(ops, struct zr_ops, matmul_work) &&
	       ops->matmul_work;
}

static int products(struct product *p, const double limit[2])
{
	static const int64_t side[] = { 16, 64, 256, 1024 };
	static const struct {
		const char *name;
		int type;
		uint32_t flags;
	} kinds[] = { { "fp32.nn", 0, 0 },
		      { "fp32.nt", 0, ZR_MM_TRANS_B },
		      { "fp32.tn", 0, ZR_MM_TRANS_A },
		      { "bf16.nn", 1, 0 },
		      { "bf16.nt", 1, ZR_MM_TRANS_B },
		      { "bf16.tn", 1, ZR_MM_TRANS_A },
		      { "fp8.nn", 1, ZR_MM_FP8 } };
	const int n = (int)LEN(kinds) - !has_8_bits(p->b->s);
	int rc = 0;

	for (int kind = 0; kind < n; kind++)
		for (int i = 0; i < 64 && !rc; i++) {
			const int64_t size[] = { side[i / 16], side[i / 4 % 4], side[i % 4] };
			rc = measure_product(p, kinds[kind].type, kinds[kind].name,
					     kinds[kind].flags, size, limit[kinds[kind].type]);
		}
	return rc;
}

/* ---- attention ------------------------------------------------------------------- */

#define HEADS 8

static int attention(void *arg)
{
	struct product *p = arg;
	const struct zr_ops *ops = p->b->s->roles.ops;
	return op_failed(p, ops->attention(ops, NULL, &p->attention.fwd), "attention");
}

static int attention_bwd(void *arg)
{
	struct product *p = arg;
	const struct zr_ops *ops = p->b->s->roles.ops;
	return op_failed(p, ops->attention_bwd(ops, NULL, &p->attention), "attention_bwd");
}

static void place_attention(struct product *p, int type, int64_t length, int64_t head)
{
	struct zr_op_attention_bwd *a = &p->attention;
	const uint64_t width = HEADS * (uint64_t)head, one = zr_bytes_of(types[type], 1);
	char *qkv, *dqkv;

	zr_bench_empty(p->b);
	*a = (struct zr_op_attention_bwd){ .size = sizeof *a };
	qkv = zr_bench_take(p->b, 3 * one * width * (uint64_t)length);
	dqkv = zr_bench_take(p->b, 3 * one * width * (uint64_t)length);
	a->fwd = (struct zr_op_attention){
		.size = sizeof a->fwd,
		.dtype = types[type],
		.batch = 1,
		.length = length,
		.heads = HEADS,
		.kv_heads = HEADS,
		.head_dim = head,
		.q_stride = 3 * (int64_t)width,
		.k_stride = 3 * (int64_t)width,
		.v_stride = 3 * (int64_t)width,
		.out_stride = (int64_t)width,
		.scale = 0.125f,
		.q = qkv,
		.k = qkv + one * width,
		.v = qkv + 2 * one * width,
		.out = zr_bench_take(p->b, one * width * (uint64_t)length),
		.lse = zr_bench_take(p->b, 4 * HEADS * (uint64_t)length)
	};
	a->dout = zr_bench_take(p->b, one * width * (uint64_t)length);
	a->dq = dqkv;
	a->dk = dqkv + one * width;
	a->dv = dqkv + 2 * one * width;
	a->work =
		zr_bench_take(p->b, p->b->s->roles.ops->attention_bwd_work(p->b->s->roles.ops, a));
}

static int attentions(struct product *p, const double limit[2])
{
	static const int64_t lengths[] = { 64, 256, 1024 }, heads[] = { 32, 64, 128 };
	char name[ZR_RATE_NAME];

	for (int i = 0; i < 18; i++) {
		const int type = i / 9;
		const int64_t length = lengths[i / 3 % 3], head = heads[i % 3];
		const double at[] = { (double)length, (double)head },
			     work = 2.0 * HEADS * at[0] * at[0] * at[1];
		place_attention(p, type, length, head);
		double s = zr_bench_time(p->b, attention, p);
		snprintf(name, sizeof name, "attention.%s", type_names[type]);
		zr_bench_note(p->b, name, at, 2, work, s, "FLOP/s", limit[type],
			      length == 1024 && head == 64);
		s = s > 0 ? zr_bench_time(p->b, attention_bwd, p) : 0;
		snprintf(name, sizeof name, "attention_bwd.%s", type_names[type]);
		zr_bench_note(p->b, name, at, 2, 2.5 * work, s, "FLOP/s", limit[type],
			      length == 1024 && head == 64);
		if (s <= 0)
			return p->b->err->code;
	}

	return 0;
}

/* ---- the loss -------------------------------------------------------------------- */

static int head_loss(void *arg)
{
	struct product *p = arg;
	const struct zr_ops *ops = p->b->s->roles.ops;
	return op_failed(p, ops->head_loss(ops, NULL, &p->head), "head_loss");
}

static int place_head(struct product *p, int type, int64_t rows, int64_t width, int64_t vocabulary)
{
	const uint64_t n = (uint64_t)rows, c = (uint64_t)width, v = (uint64_t)vocabulary,
		       one = zr_bytes_of(types[type], 1);
	static const int32_t zeros[1024];

	zr_bench_empty(p->b);
	p->head = (struct zr_op_head_loss){ .size = sizeof p->head,
					    .flags = ZR_OP_ACCUMULATE,
					    .dtype = types[type],
					    .scale = 1e-4f,
					    .rows = rows,
					    .width = width,
					    .vocabulary = vocabulary,
					    .x = zr_bench_take(p->b, one * n * c),
					    .w = zr_bench_take(p->b, one * v * c),
					    .dx = zr_bench_take(p->b, one * n * c),
					    .dw = zr_bench_take(p->b, 4 * v * c),
					    .loss = zr_bench_take(p->b, 4 * n),
					    .loss_sum = zr_bench_take(p->b, 8) };
	int32_t *targets = zr_bench_take(p->b, 4 * n);
	p->head.targets = targets;
	p->head.work = zr_bench_take(p->b, p->b->s->roles.ops->head_loss_work(p->b->s->roles.ops,
									      &p->head));
	return zr_bench_put(p->b, targets, zeros, 4 * n);
}

static int losses(struct product *p, const double limit[2])
{
	static const int64_t widths[] = { 64, 256, 1024 }, words[] = { 256, 4096 },
			     rows[] = { 32, 256 };
	char name[ZR_RATE_NAME];
	int rc = 0;

	for (int i = 0; i < 24 && !rc; i++) {
		const int type = i / 12;
		const int64_t n = rows[i / 6 % 2], c = widths[i / 2 % 3], v = words[i % 2];
		const double at[] = { (double)n, (double)c, (double)v };
		rc = place_head(p, type, n, c, v);
		double s = rc ? 0 : zr_bench_time(p->b, head_loss, p);
		snprintf(name, sizeof name, "head_loss.%s", type_names[type]);
		zr_bench_note(p->b, name, at, 3, 6 * at[0] * at[1] * at[2], s, "FLOP/s",
			      limit[type], n == 256 && c == 1024 && v == 4096);
		rc = s > 0 ? 0 : p->b->err->code;
	}

	return rc;
}

static int measure_gemm(struct zr_bench *b)
{
	struct product p = { .b = b };
	double limit[2] = { zr_bench_fma(b, 0), 0 };

	limit[1] = zr_bench_fma(b, 1);
	/* without an instruction for bf16 its products are those of fp32 */
	limit[1] = limit[1] > 0 ? limit[1] : limit[0];
	int rc = b->err->code;
	if (!rc)
		rc = products(&p, limit);
	if (!rc)
		rc = attentions(&p, limit);
	if (rc)
		return rc;
	return losses(&p, limit);
}

const struct zr_bench_subject zr_bench_gemm = {
	.name = "gemm",
	.summary = "matrix products, attention, loss",
	.run = measure_gemm,
	.room = 96 << 20,
	.seconds = 0.02,
	.least_ranks = 1,
	.by_thread = 1,
};
