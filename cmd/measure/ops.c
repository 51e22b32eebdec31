/* SPDX-License-Identifier: Apache-2.0
 *
 * ops.c - what a step has beside products: norms, activations, sums, casts, copies. Memory bounds
 * most of them.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define WIDTH  512
#define MOST   (1 << 23) /* elements */
#define ARRAYS 6

struct sweep {
	struct zr_bench *b;
	const struct zr_ops *ops;
	int32_t dtype, to; /* to: of a cast */
	int64_t n, rows;
	char *x[ARRAYS]; /* [n] fp32 or less */
	float *stats[4];
	void *work;
	int32_t *tokens;
};

static int layernorm(const struct sweep *s)
{
	struct zr_op_layernorm op = { .size = sizeof op,
				      .dtype = s->dtype,
				      .rows = s->rows,
				      .width = WIDTH,
				      .eps = 1e-5f,
				      .x = s->x[0],
				      .gamma = s->x[1],
				      .beta = s->x[1],
				      .y = s->x[2],
				      .mean = s->stats[0],
				      .rstd = s->stats[1] };

	return s->ops->layernorm(s->ops, NULL, &op);
}

static struct zr_op_layernorm_bwd layernorm_bwd_op(const struct sweep *s)
{
	return (struct zr_op_layernorm_bwd){ .size = sizeof(struct zr_op_layernorm_bwd),
					     .dtype = s->dtype,
					     .rows = s->rows,
					     .width = WIDTH,
					     .dy = s->x[1],
					     .x = s->x[0],
					     .gamma = s->x[1],
					     .mean = s->stats[0],
					     .rstd = s->stats[1],
					     .dx = s->x[2],
					     .dgamma = s->stats[2],
					     .dbeta = s->stats[3],
					     .work = s->work };
}

static int layernorm_bwd(const struct sweep *s)
{
	struct zr_op_layernorm_bwd op = layernorm_bwd_op(s);
	return s->ops->layernorm_bwd(s->ops, NULL, &op);
}

static int rmsnorm(const struct sweep *s)
{
	struct zr_op_rmsnorm op = { .size = sizeof op,
				    .dtype = s->dtype,
				    .rows = s->rows,
				    .width = WIDTH,
				    .eps = 1e-5f,
				    .x = s->x[0],
				    .gamma = s->x[1],
				    .y = s->x[2],
				    .rstd = s->stats[1] };

	return s->ops->rmsnorm(s->ops, NULL, &op);
}

static struct zr_op_rmsnorm_bwd rmsnorm_bwd_op(const struct sweep *s)
{
	return (struct zr_op_rmsnorm_bwd){ .size = sizeof(struct zr_op_rmsnorm_bwd),
					   .dtype = s->dtype,
					   .rows = s->rows,
					   .width = WIDTH,
					   .dy = s->x[1],
					   .x = s->x[0],
					   .gamma = s->x[1],
					   .rstd = s->stats[1],
					   .dx = s->x[2],
					   .dgamma = s->stats[2],
					   .work = s->work };
}

static int rmsnorm_bwd(const struct sweep *s)
{
	struct zr_op_rmsnorm_bwd op = rmsnorm_bwd_op(s);
	return s->ops->rmsnorm_bwd(s->ops, NULL, &op);
}

static int gelu_bwd(const struct sweep *s)
{
	struct zr_op_gelu_bwd op = { .size = sizeof op,
				     .dtype = s->dtype,
				     .n = s->n,
				     .dy = s->x[0],
				     .pre = s->x[1],
				     .dx = s->x[2],
				     .act = s->x[3] };

	return s->ops->gelu_bwd(s->ops, NULL, &op);
}

static int residual(const struct sweep *s)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = s->dtype,
				     .n = s->n,
				     .a = s->x[0],
				     .b = s->x[1],
				     .out = s->x[2] };

	return s->ops->residual(s->ops, NULL, &op);
}

static int swiglu(const struct sweep *s)
{
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = s->dtype,
				   .n = s->n,
				   .gate = s->x[0],
				   .up = s->x[1],
				   .out = s->x[2] };

	return s->ops->swiglu(s->ops, NULL, &op);
}

static int swiglu_bwd(const struct sweep *s)
{
	struct zr_op_swiglu_bwd op = { .size = sizeof op,
				       .dtype = s->dtype,
				       .n = s->n,
				       .dy = s->x[0],
				       .gate = s->x[1],
				       .up = s->x[2],
				       .dgate = s->x[3],
				       .dup = s->x[4],
				       .act = s->x[5] };

	return s->ops->swiglu_bwd(s->ops, NULL, &op);
}

static int rotary(const struct sweep *s)
{
	struct zr_op_rotary op = { .size = sizeof op,
				   .dtype = s->dtype,
				   .batch = 1,
				   .length = s->rows,
				   .heads = WIDTH / 64,
				   .head_dim = 64,
				   .stride = WIDTH,
				   .x = s->x[0],
				   .out = s->x[1],
				   .frequency = { 1, 0.5f, 0.1f } };

	return s->ops->rotary(s->ops, NULL, &op);
}

static int bias_bwd(const struct sweep *s)
{
	struct zr_op_bias_bwd op = { .size = sizeof op,
				     .dtype = s->dtype,
				     .rows = s->rows,
				     .width = WIDTH,
				     .dy = s->x[0],
				     .db = s->stats[0] };

	return s->ops->bias_bwd(s->ops, NULL, &op);
}

#define WORDS 4096 /* of the embedding: MOST fp32 values hold WORDS x WIDTH */
#define TABLE ((double)(WORDS * WIDTH) / MOST) /* its elements, to those that are looked up */

static int embedding(const struct sweep *s)
{
	struct zr_op_embedding op = { .size = sizeof op,
				      .dtype = s->dtype,
				      .batch = 1,
				      .length = s->rows,
				      .width = WIDTH,
				      .vocabulary = WORDS,
				      .tokens = s->tokens,
				      .wte = s->x[0],
				      .out = s->x[1] };

	return s->ops->embedding(s->ops, NULL, &op);
}

static int embedding_bwd(const struct sweep *s)
{
	struct zr_op_embedding_bwd op = { .size = sizeof op,
					  .flags = ZR_OP_ACCUMULATE_WTE,
					  .dtype = s->dtype,
					  .batch = 1,
					  .length = s->rows,
					  .width = WIDTH,
					  .vocabulary = WORDS,
					  .tokens = s->tokens,
					  .dout = s->x[0],
					  .dwte = (float *)(void *)s->x[1] };

	return s->ops->embedding_bwd(s->ops, NULL, &op);
}

static int fold(const struct sweep *s)
{
	struct zr_op_fold op = { .size = sizeof op,
				 .flags = ZR_OP_ACCUMULATE,
				 .comm_dtype = s->dtype,
				 .n = s->n,
				 .g = (float *)(void *)s->x[0],
				 .acc = (float *)(void *)s->x[1],
				 .sumsq = (double *)(void *)s->stats[0],
				 .nonfinite = (uint32_t *)(void *)s->stats[1] };

	return s->ops->fold(s->ops, NULL, &op);
}

static int cast(const struct sweep *s)
{
	struct zr_op_cast op = { .size = sizeof op,
				 .n = s->n,
				 .src = zr_array_at(s->dtype, s->x[0]),
				 .dst = zr_array_at(s->to, s->x[1]) };

	return s->ops->cast(s->ops, NULL, &op);
}

/* A cast to the same type copies. */
static int copy(const struct sweep *s)
{
	struct zr_op_cast op = { .size = sizeof op,
				 .n = s->n,
				 .src = zr_array_at(ZR_F32, s->x[0]),
				 .dst = zr_array_at(ZR_F32, s->x[1]) };

	return s->ops->cast(s->ops, NULL, &op);
}

#define SHORT 16 /* K of a product that little else is in */

static int multiply(const struct sweep *s, uint32_t flags)
{
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = flags,
				   .m = s->rows,
				   .n = WIDTH,
				   .k = SHORT,
				   .lda = SHORT,
				   .ldb = WIDTH,
				   .ldd = WIDTH,
				   .a = zr_array_at(s->dtype, s->x[0]),
				   .b = zr_array_at(s->dtype, s->x[1]),
				   .d = zr_array_at(s->dtype, s->x[2]),
				   .bias = s->x[1],
				   .pre = flags ? s->x[3] : NULL };

	return s->ops->matmul(s->ops, NULL, &op);
}

static int product_gelu(const struct sweep *s)
{
	return multiply(s, ZR_MM_GELU);
}

static int product(const struct sweep *s)
{
	return multiply(s, 0);
}

static const struct op {
	const char *name;
	int (*fn)(const struct sweep *);
	size_t needs; /* where the device's table has it */
	/* of n elements that it must read from memory and write there: of dtype, and of fp32 */
	double arrays, fp32;
} all_ops[] = {
	{ "layernorm", layernorm, offsetof(struct zr_ops, layernorm), 2, 0 },
	{ "layernorm_bwd", layernorm_bwd, offsetof(struct zr_ops, layernorm_bwd), 4, 0 },
	{ "rmsnorm", rmsnorm, offsetof(struct zr_ops, rmsnorm), 2, 0 },
	{ "rmsnorm_bwd", rmsnorm_bwd, offsetof(struct zr_ops, rmsnorm_bwd), 4, 0 },
	{ "gelu_bwd", gelu_bwd, offsetof(struct zr_ops, gelu_bwd), 4, 0 },
	{ "residual", residual, offsetof(struct zr_ops, residual), 3, 0 },
	{ "swiglu", swiglu, offsetof(struct zr_ops, swiglu), 3, 0 },
	{ "swiglu_bwd", swiglu_bwd, offsetof(struct zr_ops, swiglu_bwd), 6, 0 },
	{ "rotary", rotary, offsetof(struct zr_ops, rotary), 2, 0 },
	{ "bias_bwd", bias_bwd, offsetof(struct zr_ops, bias_bwd), 1, 0 },
	/* rows come several times: the table crosses memory once, in a cache that holds it */
	{ "embedding", embedding, offsetof(struct zr_ops, embedding), 1 + TABLE, 0 },
	{ "embedding_bwd", embedding_bwd, offsetof(struct zr_ops, embedding_bwd), 1, 2 * TABLE },
	{ "fold", fold, offsetof(struct zr_ops, fold), 0, 3 },
};

struct call {
	struct sweep s;
	int (*fn)(const struct sweep *);
	const char *name;
};

static int run_call(void *arg)
{
	struct call *c = arg;
	return zr_instance_failed(&c->s.b->s->roles.device, c->fn(&c->s), c->name, c->s.b->err);
}

static int place(struct sweep *s, int64_t n)
{
	struct zr_bench *b = s->b;

	zr_bench_empty(b);
	s->n = n;
	s->rows = n / WIDTH;
	for (int i = 0; i < ARRAYS; i++)
		s->x[i] = zr_bench_take(b, 4 * (uint64_t)n < 4 * WORDS * WIDTH ? 4 * WORDS * WIDTH :
										 4 * (uint64_t)n);
	for (int i = 0; i < 4; i++)
		s->stats[i] = zr_bench_take(b, 4 * (uint64_t)(s->rows + WIDTH));
	struct zr_op_layernorm_bwd l = layernorm_bwd_op(s);
	struct zr_op_rmsnorm_bwd r = rmsnorm_bwd_op(s);
	uint64_t work = s->ops->layernorm_bwd_work ? s->ops->layernorm_bwd_work(s->ops, &l) : 0;
	uint64_t more = s->ops->rmsnorm_bwd_work ? s->ops->rmsnorm_bwd_work(s->ops, &r) : 0;
	s->work = zr_bench_take(b, work > more ? work : more);
	s->tokens = zr_bench_take(b, 4 * (uint64_t)s->rows);
	int32_t *tokens = malloc(4 * (size_t)s->rows);
	uint32_t seed = 7;
	if (!tokens)
		return zr_no_memory(b->err);

	for (int64_t i = 0; i < s->rows; i++)
		tokens[i] = (int32_t)((seed = seed * 1664525u + 1013904223u) >> 16) % WORDS;
	int rc = zr_bench_put(b, s->tokens, tokens, 4 * (uint64_t)s->rows);
	free(tokens);
	return rc;
}

/* limit: bytes copied per second; each is read and written. Whether n counts for the table: only
 * large sizes are compared with memory. */
static int measure(struct call *c, const char *type, double bytes, double limit)
{
	char name[ZR_RATE_NAME];
	const double at = (double)c->s.n;
	const int large = c->s.n == MOST;
	double t = zr_bench_time(c->s.b, run_call, c);

	snprintf(name, sizeof name, "%s%s%s", c->name, *type ? "." : "", type);
	zr_bench_note(c->s.b, name, &at, 1, at, t, "element/s",
		      large && bytes > 0 ? 2 * limit / bytes : 0, large);
	return t > 0 ? 0 : c->s.b->err->code;
}

/* How much longer a product takes for the GELU of its result, which is stored beside it. */
static int measure_gelu(struct call *c, const char *type)
{
	char name[ZR_RATE_NAME];
	const double at = (double)c->s.n;

	c->name = "matmul";
	c->fn = product;
	const double plain = zr_bench_time(c->s.b, run_call, c);
	c->fn = product_gelu;
	const double both = plain > 0 ? zr_bench_time(c->s.b, run_call, c) : 0;
	snprintf(name, sizeof name, "gelu.%s", type);
	if (both > 1.1 * plain) /* less is noise */
		zr_bench_note(c->s.b, name, &at, 1, at, both - plain, "element/s", 0,
			      c->s.n == MOST);
	return both > 0 ? 0 : c->s.b->err->code;
}

static int at_size(struct call *c, double limit)
{
	static const struct {
		int32_t from, to;
		const char *name;
		double bytes;
	} casts[] = { { ZR_F32, ZR_BF16, "fp32_bf16", 6 }, { ZR_BF16, ZR_F32, "bf16_fp32", 6 } };
	int rc = 0;
	for (int type = 0; type < 2; type++)
		for (size_t i = 0; i < sizeof all_ops / sizeof *all_ops && !rc; i++) {
			const struct op *o = &all_ops[i];
			int (*there)(void) = NULL;
			if (o->needs + sizeof there > c->s.ops->size)
				continue;

			memcpy(&there, (const char *)c->s.ops + o->needs, sizeof there);
			if (!there)
				continue;

			c->s.dtype = type ? ZR_BF16 : ZR_F32;
			c->fn = o->fn;
			c->name = o->name;
			rc = measure(c, type ? "bf16" : "fp32",
				     o->arrays * (int)zr_bytes_of(c->s.dtype, 1) + o->fp32 * 4,
				     limit);
		}
	for (int type = 0; type < 2 && !rc; type++) {
		c->s.dtype = type ? ZR_BF16 : ZR_F32;
		rc = measure_gelu(c, type ? "bf16" : "fp32");
	}

	for (int i = 0; i < 2 && !rc; i++) {
		c->s.dtype = casts[i].from;
		c->s.to = casts[i].to;
		c->fn = cast;
		c->name = "cast";
		rc = measure(c, casts[i].name, casts[i].bytes, limit);
	}

	const double at = 4 * (double)c->s.n;
	c->fn = copy;
	c->name = "copy";
	double t = rc ? 0 : zr_bench_time(c->s.b, run_call, c);
	zr_bench_note(c->s.b, "copy", &at, 1, at, t, "B/s", c->s.n == MOST ? limit : 0,
		      c->s.n == MOST);
	if (rc)
		return rc;
	return c->s.b->err->code;
}

/* ---- between host and device ----------------------------------------------------- */

struct transfer {
	struct zr_bench *b;
	void *to;
	const void *from;
	uint64_t bytes;
};

static int transfer(void *arg)
{
	const struct transfer *x = arg;
	return ZR_ASK(&x->b->s->roles.device, device, copy, x->b->err, NULL, x->to, x->from,
		      x->bytes);
}

static int transfers(struct zr_bench *b)
{
	static const uint64_t sizes[] = { 4096, 1 << 20, 32 << 20 };
	void *host = NULL, *device;

	if (b->s->facts.device_info.unified)
		return 0;

	int rc = ZR_ASK(&b->s->roles.device, device, mem_alloc, b->err, sizes[2], ZR_MEM_PINNED,
			&host);
	zr_bench_empty(b);
	device = rc ? NULL : zr_bench_take(b, sizes[2]);
	for (int i = 0; i < 6 && !rc; i++) {
		const double at = (double)sizes[i / 2];
		struct transfer x = { b, i % 2 ? host : device, i % 2 ? device : host,
				      sizes[i / 2] };
		double t = zr_bench_time(b, transfer, &x);
		zr_bench_note(b, i % 2 ? "from_device" : "to_device", &at, 1, at, t, "B/s", 0, 1);
		rc = b->err->code;
	}

	if (host)
		b->dev->mem_free(b->s->roles.device.inst, host, sizes[2], ZR_MEM_PINNED);
	return rc;
}

static int measure_ops(struct zr_bench *b)
{
	static const int64_t sizes[] = { 1 << 14, 1 << 18, MOST };
	struct call c = { .s = { .b = b, .ops = b->s->roles.ops } };
	const double limit = zr_bench_copy(b);
	int rc = b->err->code;

	for (int i = 0; i < 3 && !rc; i++) {
		rc = place(&c.s, sizes[i]);
		if (!rc)
			rc = at_size(&c, limit);
	}

	if (rc)
		return rc;
	return transfers(b);
}

const struct zr_bench_subject zr_bench_ops = {
	.name = "ops",
	.summary = "norms, activations, casts, copies",
	.run = measure_ops,
	.room = 4ull * ARRAYS * MOST + (16 << 20),
	.seconds = 0.02,
	.least_ranks = 1,
	.by_thread = 1,
};
