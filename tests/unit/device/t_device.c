/* SPDX-License-Identifier: Apache-2.0
 *
 * t_device.c - device/cpu as a plugin, or the device that ZR_TEST_DEVICE names: its options and their refusals, memory,
 * copies, and that every operation has the same bits for any number of workers (I1) and allocates nothing (I3). All that
 * touches device memory runs over each kind of it; t_separate.c tests what sets the kinds apart.
 */
#include "tests/lib/isa.h"
#include "tests/lib/testdevice.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <cmocka.h>

/* ---- options ---------------------------------------------------------------------------------------- */

static void isa_is_what_was_asked_or_a_refusal_that_names_a_feature(void **state)
{
	int i;
	(void)state;
	for (i = 0; i < DEV_VARIANTS; i++) {
		struct dev d;
		struct zr_device_info info = { .size = sizeof info };
		int rc = dev_open(&d, 1, dev_isas[i]);
		if (rc) {
			assert_int_equal(rc, ZR_EINVAL);
			assert_non_null(strstr(test_error(d.h), "lacks "));
			assert_non_null(strstr(test_error(d.h), dev_isas[i]));
		} else {
			assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
			assert_int_equal(strncmp(info.variant, dev_isas[i], strlen(dev_isas[i])), 0);
			assert_true(isa_runs(dev_isas[i]));
		}
		dev_close(&d);
	}
}

static void auto_takes_the_widest_and_shares_processors(void **state)
{
	struct opts {
		int64_t threads;
	} *first;
	struct dev d;
	struct zr_device_info info = { .size = sizeof info };
	(void)state;
	assert_int_equal(dev_open(&d, 1, "auto"), ZR_OK);
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	if (!strncmp(info.variant, "scalar", 6))
		assert_false(isa_runs("avx2"));
	first = d.opts;
	for (int32_t share = 0; share < 4; share++) {
		first->threads = ZR_AUTO_I64;
		assert_int_equal(d.desc->resolve(d.h, &(struct zr_facts){ .size = sizeof(struct zr_facts), .workers = share }, d.opts), ZR_OK);
		assert_int_equal(first->threads, share ? share : 1);
	}
	dev_close(&d);
}

/* ---- memory ----------------------------------------------------------------------------------------- */

struct kind {
	const char *memory, *separate;
};
static struct kind unified = { "auto", "no" }, limited = { "128M", "no" }, separate = { "128M", "yes" };

static int open_kind(struct dev *d, int workers, const char *isa, void **state)
{
	const struct kind *k = *state;
	return dev_open_memory(d, workers, isa, k->memory, k->separate);
}

static void must(const struct dev *d, int rc)
{
	if (rc)
		fail_msg("%s", test_error(d->h));
}

static void *take(const struct dev *d, uint64_t bytes)
{
	void *p = NULL;
	must(d, d->v->mem_alloc(d->inst, bytes, ZR_MEM_DEVICE, &p));
	return p;
}

static void move(const struct dev *d, void *dst, const void *src, uint64_t bytes)
{
	must(d, d->v->copy(d->inst, NULL, dst, src, bytes));
	must(d, d->v->sync(d->inst, NULL));
}

static void create_reports_its_scratch_and_returns_all_when_refused(void **state)
{
	struct dev d;
	struct zr_device_info info = { .size = sizeof info };
	struct zr_inst *inst = NULL;
	int64_t calls, nth;
	uint64_t held;
	assert_int_equal(open_kind(&d, 2, "auto", state), ZR_OK);
	calls = test_allocs(d.h);
	held = test_bytes(d.h);
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	assert_true(info.scratch > 0 && (info.scratch <= held || !dev_is_cpu())); /* others hold it in memory of their own */
	assert_int_equal(info.unified, *state == &unified);
	assert_int_equal(info.host_access, *state != &separate);
	assert_int_equal(info.host_ops, *state != &separate);
	if (info.unified)
		assert_true(info.memory > 1u << 20);
	else
		assert_int_equal(info.memory, (128u << 20) - (dev_is_cpu() ? 0 : info.scratch));
	for (nth = 1; nth <= calls; nth++) {
		test_clear(d.h);
		test_refuse(d.h, nth);
		assert_int_equal(d.desc->create(d.h, d.opts, &inst), ZR_ENOMEM);
		assert_int_equal(test_errors(d.h), 1);
		assert_int_equal(test_bytes(d.h), held);
	}
	dev_close(&d);
}

static void memory_is_aligned_zeroed_and_copied(void **state)
{
	const uint64_t bytes = (3u << 20) + 77;
	struct dev d;
	void *a, *b, *c, *none = NULL;
	uint64_t i, seed = 9;
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	a = take(&d, bytes);
	c = take(&d, bytes);
	assert_int_equal(d.v->mem_alloc(d.inst, bytes, ZR_MEM_HOST, &b), ZR_OK);
	assert_int_equal((uintptr_t)a % 64, 0);
	memset(b, 55, bytes);
	move(&d, b, a, bytes);
	for (i = 0; i < bytes; i++)
		assert_int_equal(((char *)b)[i], 0);
	for (i = 0; i < bytes; i++)
		((char *)b)[i] = (char)(rnd(&seed) * 127);
	move(&d, a, b, bytes);
	move(&d, c, a, bytes - 1);
	memset(b, 55, bytes);
	move(&d, b, c, bytes);
	for (i = 0, seed = 9; i < bytes - 1; i++)
		assert_int_equal(((char *)b)[i], (char)(rnd(&seed) * 127));
	assert_int_equal(((char *)b)[bytes - 1], 0);
	d.v->mem_free(d.inst, a, bytes, ZR_MEM_DEVICE);
	d.v->mem_free(d.inst, c, bytes, ZR_MEM_DEVICE);
	d.v->mem_free(d.inst, b, bytes, ZR_MEM_HOST);
	assert_int_equal(d.v->mem_alloc(d.inst, (uint64_t)1 << 62, ZR_MEM_HOST, &none), ZR_ENOMEM);
	assert_non_null(strstr(test_error(d.h), "no memory for 4611686018427387904 bytes"));
	dev_close(&d);
}

static void there_and_back(const struct dev *d, char *host, uint64_t bytes)
{
	int (*const start[])(struct zr_inst *, void *, const void *, uint64_t, uint64_t *) = { d->v->copy_start, d->v->copy_now };
	void *there = take(d, bytes);
	uint64_t ticket;
	for (int i = 0; i < 4; i++) {
		memset(host, i % 2 ? 55 : 33 + i, bytes);
		must(d, start[i / 2](d->inst, i % 2 ? host : there, i % 2 ? there : host, bytes, &ticket));
		must(d, d->v->copy_wait(d->inst, ticket));
		assert_true(i % 2 == 0 || (host[0] == 32 + i && !memcmp(host, host + 1, bytes - 1)));
	}
	d->v->mem_free(d->inst, there, bytes, ZR_MEM_DEVICE);
}

/* A refusal is one of the call alone: operations go on. */
static void memory_of_others_is_pinned_once_and_given_back(void **state)
{
	const uint64_t page = 1 << 16, bytes = 5 * page + 77;
	char *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct dev d;
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	for (int round = 0; round < 2; round++) {
		struct zr_op_init op = { .size = sizeof op, .n = 16, .mean = 3, .dst = take(&d, page) };
		must(&d, d.v->mem_pin(d.inst, host, bytes));
		there_and_back(&d, host + page, bytes - page);
		assert_true(d.v->mem_pin(d.inst, host, bytes) < 0 && d.v->mem_pin(d.inst, host + page, page) < 0);
		must(&d, d.ops->init(d.ops, NULL, &op));
		move(&d, host, op.dst, 16 * sizeof(float));
		assert_true(((float *)(void *)host)[15] == 3);
		d.v->mem_free(d.inst, op.dst, page, ZR_MEM_DEVICE);
		d.v->mem_unpin(d.inst, host);
	}
	assert_string_equal(test_log(d.h), "");
	munmap(host, bytes);
	dev_close(&d);
}

/* ---- every operation ---------------------------------------------------------------------------------
 * One array of floats in device memory holds all operands of a chain of operations; what it holds at the
 * end tells whether any bit of any result differed. Sizes give every operation several items and a short last. */
#define B 3
#define T 50
#define C 72
#define HEADS 4
#define V 301
#define ROWS (B * T)
#define N (9 * ZR_BLOCK + 100)
#define SLOTS 92
#define SLOT 65536 /* floats; every operand fits one */
#define BYTES ((uint64_t)SLOTS * SLOT * sizeof(float))

static float *slot(float *all, int i)
{
	return all + (size_t)i * SLOT;
}

static int32_t *tokens_of(float *x)
{
	return (int32_t *)(void *)slot(x, 58);
}

static struct zr_scalars *scalars_of(float *x)
{
	return (struct zr_scalars *)(void *)slot(x, 59);
}

static void rows_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_embedding e = { .size = sizeof e, .dtype = dtype, .batch = B, .length = T, .width = C,
				     .vocabulary = V, .positions = T + 2, .tokens = tokens_of(x), .wte = slot(x, 0),
				     .wpe = slot(x, 1), .out = slot(x, 2) };
	struct zr_op_embedding_bwd eb = { .size = sizeof eb, .dtype = dtype, .batch = B, .length = T, .width = C,
					  .vocabulary = V, .positions = T + 2, .tokens = tokens_of(x),
					  .dout = slot(x, 3), .dwte = slot(x, 4), .dwpe = slot(x, 5) };
	struct zr_op_layernorm l = { .size = sizeof l, .dtype = dtype, .rows = ROWS, .width = C, .eps = 1e-5f,
				     .x = slot(x, 2), .gamma = slot(x, 6), .beta = slot(x, 7), .y = slot(x, 8),
				     .mean = slot(x, 9), .rstd = slot(x, 10) };
	struct zr_op_layernorm_bwd lb = { .size = sizeof lb, .dtype = dtype, .rows = ROWS, .width = C,
					  .dy = slot(x, 3), .x = slot(x, 2), .gamma = slot(x, 6),
					  .mean = slot(x, 9), .rstd = slot(x, 10), .dx = slot(x, 11),
					  .dgamma = slot(x, 12), .dbeta = slot(x, 13), .work = slot(x, 14) };
	struct zr_op_bias_bwd bb = { .size = sizeof bb, .dtype = dtype, .rows = ROWS, .width = C,
				     .dy = slot(x, 3), .db = slot(x, 15) };
	assert_true(o->layernorm_bwd_work(o, &lb) <= SLOT * sizeof(float));
	must(d, o->embedding(o, NULL, &e));
	must(d, o->embedding_bwd(o, NULL, &eb));
	must(d, o->layernorm(o, NULL, &l));
	must(d, o->layernorm_bwd(o, NULL, &lb));
	must(d, o->bias_bwd(o, NULL, &bb));
}

static void attention_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_attention a = { .size = sizeof a, .dtype = dtype, .batch = B, .length = T, .heads = HEADS,
				     .kv_heads = HEADS, .head_dim = C / HEADS, .q_stride = 3 * C, .k_stride = 3 * C,
				     .v_stride = 3 * C, .out_stride = C, .scale = 0.25f, .dropout = 0.1f,
				     .rng = { 1, 2, 3, 4 }, .q = slot(x, 16), .out = slot(x, 17), .lse = slot(x, 18) };
	struct zr_op_attention_bwd ab = { .size = sizeof ab };
	size_t third = C * width_of(dtype);
	a.k = (char *)slot(x, 16) + third;
	a.v = (char *)slot(x, 16) + 2 * third;
	ab.fwd = a;
	ab.dout = slot(x, 19);
	ab.dq = slot(x, 20);
	ab.dk = (char *)slot(x, 20) + third;
	ab.dv = (char *)slot(x, 20) + 2 * third;
	ab.work = slot(x, 21);
	assert_true(o->attention_bwd_work(o, &ab) <= SLOT * sizeof(float));
	must(d, o->attention(o, NULL, &a));
	must(d, o->attention_bwd(o, NULL, &ab));
}

static void head_op(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_head_loss h = { .size = sizeof h, .dtype = dtype, .scale = 0.5f, .rows = ROWS, .width = C,
				     .vocabulary = V, .x = slot(x, 8), .w = slot(x, 0), .targets = tokens_of(x),
				     .loss = slot(x, 22), .loss_sum = (double *)(void *)slot(x, 23),
				     .dx = slot(x, 24), .dw = slot(x, 25), .work = slot(x, 87) };
	assert_true(o->head_loss_work(o, &h) <= (SLOTS - 87) * SLOT * sizeof(float));
	must(d, o->head_loss(o, NULL, &h));
}

static void element_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_gelu_bwd g = { .size = sizeof g, .dtype = dtype, .n = N, .dy = slot(x, 27), .pre = slot(x, 28),
				    .dx = slot(x, 29), .act = slot(x, 60) };
	struct zr_op_residual r = { .size = sizeof r, .dtype = dtype, .dropout = 0.2f, .n = N, .rng = { 5, 6, 7, 8 },
				    .a = slot(x, 27), .b = slot(x, 28), .out = slot(x, 30) };
	struct zr_op_fold f = { .size = sizeof f, .flags = ZR_OP_ACCUMULATE, .comm_dtype = dtype, .n = N,
				.g = slot(x, 31), .acc = slot(x, 32), .sumsq = (double *)(void *)slot(x, 33),
				.nonfinite = (uint32_t *)(void *)slot(x, 34) };
	struct zr_op_adamw a = { .size = sizeof a, .lowp_dtype = dtype, .bias_correction = 1, .n = N, .beta1 = 0.9,
				 .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1, .scalars = scalars_of(x),
				 .grad = slot(x, 31), .master = slot(x, 35), .m = slot(x, 36), .v = slot(x, 37),
				 .lowp = slot(x, 38) };
	struct zr_op_sgd m = { .size = sizeof m, .lowp_dtype = dtype, .nesterov = 1, .n = N, .momentum = 0.9,
			       .weight_decay = 0.1, .scalars = scalars_of(x), .grad = slot(x, 31), .master = slot(x, 39),
			       .buf = slot(x, 40), .lowp = slot(x, 41) };
	struct zr_op_cast c = { .size = sizeof c, .dst_dtype = dtype == ZR_F32 ? ZR_BF16 : dtype, .src_dtype = ZR_F32, .n = N,
				.src = slot(x, 31), .dst = slot(x, 42) };
	struct zr_op_init i = { .size = sizeof i, .n = N, .first = 12345, .mean = 1, .std = 2,
				.rng = { 9, 10, 11, 12 }, .dst = slot(x, 43) };
	must(d, o->gelu_bwd(o, NULL, &g));
	must(d, o->residual(o, NULL, &r));
	must(d, o->fold(o, NULL, &f));
	must(d, o->adamw(o, NULL, &a));
	must(d, o->sgd(o, NULL, &m));
	must(d, o->cast(o, NULL, &c));
	must(d, o->init(o, NULL, &i));
}

static void update_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	const struct zr_scalars *s = scalars_of(x);
	struct zr_op_adamw a = { .size = sizeof a, .lowp_dtype = dtype, .bias_correction = 1, .n = N, .beta1 = 0.9,
				 .beta2 = 0.99, .eps = 1e-8, .scalars = s, .grad = slot(x, 31), .master = slot(x, 44),
				 .m = slot(x, 45), .v = slot(x, 46), .lowp = slot(x, 47), .moment_dtype = ZR_BF16 };
	struct zr_op_lion l = { .size = sizeof l, .lowp_dtype = dtype, .n = N, .beta1 = 0.9, .beta2 = 0.99,
				.weight_decay = 0.1, .scalars = s, .grad = slot(x, 31), .master = slot(x, 48),
				.m = slot(x, 49), .lowp = slot(x, 50) };
	struct zr_op_adagrad g = { .size = sizeof g, .lowp_dtype = dtype, .n = N, .lr_decay = 0.1, .eps = 1e-10,
				   .weight_decay = 0.1, .scalars = s, .grad = slot(x, 31), .master = slot(x, 51),
				   .sum = slot(x, 52), .lowp = slot(x, 53) };
	struct zr_op_master m = { .size = sizeof m, .n = N, .master = slot(x, 31), .lowp = (uint16_t *)(void *)slot(x, 54),
				  .rem = slot(x, 55) };
	struct zr_op_round_stochastic r = { .size = sizeof r, .n = N, .first = 12345, .rng = { 9, 10, 11, 12 },
					    .src = slot(x, 31), .dst = (uint16_t *)(void *)slot(x, 57) };
	must(d, o->adamw(o, NULL, &a));
	must(d, o->lion(o, NULL, &l));
	must(d, o->adagrad(o, NULL, &g));
	must(d, o->master_split(o, NULL, &m));
	m.master = slot(x, 56); /* comes out as slot 31, see results() */
	must(d, o->master_join(o, NULL, &m));
	must(d, o->round_stochastic(o, NULL, &r));
}

static void norm_ops(const struct dev *d, float *x, int32_t dtype)
{
	enum { WIDE = 131 }; /* rows and columns of a factor */
	const struct zr_ops *o = d->ops;
	const struct zr_scalars *s = scalars_of(x);
	struct zr_op_lamb l = { .size = sizeof l, .lowp_dtype = dtype, .bias_correction = 1, .n = N, .beta1 = 0.9,
				.beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1, .max_coeff = 10, .scalars = s,
				.grad = slot(x, 31), .master = slot(x, 61), .m = slot(x, 62), .v = slot(x, 63),
				.lowp = slot(x, 64), .block_norms = (double *)(void *)slot(x, 65) };
	struct zr_op_muon m = { .size = sizeof m, .lowp_dtype = dtype, .nesterov = 1, .n = N, .momentum = 0.9,
				.weight_decay = 0.1, .eps = 1e-7, .ratio = 2, .scalars = s, .grad = slot(x, 31),
				.master = slot(x, 66), .buf = slot(x, 67), .x = slot(x, 68),
				.sumsq = (double *)(void *)slot(x, 69), .lowp = slot(x, 70) };
	struct zr_op_muon_factor f = { .size = sizeof f, .n = WIDE, .a = 3, .b = -4, .c = 2, .gram = slot(x, 71),
				       .square = slot(x, 72) };
	must(d, o->lamb_norms(o, NULL, &l));
	l.norms = l.block_norms; /* of the first block, for all */
	must(d, o->lamb(o, NULL, &l));
	must(d, o->muon_momentum(o, NULL, &m));
	must(d, o->muon_normalize(o, NULL, &m)); /* slot 68, see results() */
	must(d, o->muon_factor(o, NULL, &f));
	must(d, o->muon_update(o, NULL, &m));
}

/* What a model like Llama adds; the attention's heads of queries share a head of keys and values each two. */
static void llama_ops(const struct dev *d, float *x, int32_t dtype)
{
	const struct zr_ops *o = d->ops;
	struct zr_op_embedding e = { .size = sizeof e, .dtype = dtype, .batch = B, .length = T, .width = C, .vocabulary = V,
				     .tokens = tokens_of(x), .wte = slot(x, 0), .out = slot(x, 73) };
	struct zr_op_embedding_bwd eb = { .size = sizeof eb, .dtype = dtype, .batch = B, .length = T, .width = C,
					  .vocabulary = V, .tokens = tokens_of(x), .dout = slot(x, 3), .dwte = slot(x, 74) };
	struct zr_op_rmsnorm n = { .size = sizeof n, .dtype = dtype, .rows = ROWS, .width = C, .eps = 1e-5f, .x = slot(x, 2),
				   .gamma = slot(x, 6), .y = slot(x, 75), .rstd = slot(x, 76) };
	struct zr_op_rmsnorm_bwd nb = { .size = sizeof nb, .dtype = dtype, .rows = ROWS, .width = C, .dy = slot(x, 3),
					.x = slot(x, 2), .gamma = slot(x, 6), .rstd = slot(x, 76), .dx = slot(x, 77),
					.dgamma = slot(x, 78), .work = slot(x, 79) };
	struct zr_op_rotary r = { .size = sizeof r, .dtype = dtype, .batch = B, .length = T, .heads = HEADS + HEADS / 2,
				  .head_dim = C / HEADS, .stride = 2 * C, .x = slot(x, 16), .out = slot(x, 80),
				  .frequency = { 1, 0.7f, 0.3f, 0.1f } };
	struct zr_op_attention a = { .size = sizeof a, .dtype = dtype, .batch = B, .length = T, .heads = HEADS,
				     .kv_heads = HEADS / 2, .head_dim = C / HEADS, .q_stride = 2 * C, .k_stride = 2 * C,
				     .v_stride = 2 * C, .out_stride = C, .scale = 0.25f, .q = slot(x, 80),
				     .out = slot(x, 81), .lse = slot(x, 82), .window = T / 2,
				     .softcap = 2 };
	struct zr_op_attention_bwd ab = { .size = sizeof ab, .dout = slot(x, 19), .dq = slot(x, 83), .work = slot(x, 87) };
	struct zr_op_swiglu g = { .size = sizeof g, .dtype = dtype, .n = N, .gate = slot(x, 27), .up = slot(x, 28),
				  .out = slot(x, 84) };
	struct zr_op_swiglu_bwd gb = { .size = sizeof gb, .dtype = dtype, .n = N, .dy = slot(x, 29), .gate = slot(x, 27),
				       .up = slot(x, 28), .dgate = slot(x, 85), .dup = slot(x, 86), .act = slot(x, 60) };
	size_t k = C * width_of(dtype), v = (C + C / 2) * width_of(dtype);
	a.k = (char *)slot(x, 80) + k;
	a.v = (char *)slot(x, 16) + v; /* not turned */
	ab.fwd = a;
	ab.dk = (char *)slot(x, 83) + k;
	ab.dv = (char *)slot(x, 83) + v;
	assert_true(o->rmsnorm_bwd_work(o, &nb) <= SLOT * sizeof(float));
	assert_true(o->attention_bwd_work(o, &ab) <= (SLOTS - 87) * SLOT * sizeof(float));
	must(d, o->embedding(o, NULL, &e));
	must(d, o->embedding_bwd(o, NULL, &eb));
	must(d, o->rmsnorm(o, NULL, &n));
	must(d, o->rmsnorm_bwd(o, NULL, &nb));
	n.width = nb.width = C / HEADS; /* heads of k in place */
	n.rows = nb.rows = ROWS * HEADS / 2;
	n.per_row = nb.per_row = HEADS / 2;
	n.x_stride = n.y_stride = nb.x_stride = nb.dy_stride = nb.dx_stride = 2 * C;
	n.flags = ZR_RMSNORM_PLUS_ONE;
	nb.flags = ZR_RMSNORM_PLUS_ONE | ZR_RMSNORM_STORE | ZR_OP_ACCUMULATE;
	n.x = n.y = (char *)slot(x, 16) + k;
	nb.x = n.x;
	nb.dy = nb.dx = ab.dk;
	assert_true(o->rmsnorm_bwd_work(o, &nb) <= SLOT * sizeof(float));
	must(d, o->rmsnorm(o, NULL, &n));
	must(d, o->rotary(o, NULL, &r));
	must(d, o->attention(o, NULL, &a));
	must(d, o->attention_bwd(o, NULL, &ab));
	r.flags = ZR_ROTARY_BACK;
	r.x = r.out = slot(x, 83);
	must(d, o->rotary(o, NULL, &r));
	must(d, o->rmsnorm_bwd(o, NULL, &nb));
	g.activation = gb.activation = ZR_ACT_GELU_ERF;
	g.width = gb.width = N / 4;
	g.stride = gb.stride = N / 4 + 9;
	must(d, o->swiglu(o, NULL, &g));
	must(d, o->swiglu_bwd(o, NULL, &gb));
}

/* Operands are small positive numbers, of either type. */
static void fill(float *x, int32_t dtype)
{
	uint64_t seed = 77;
	int64_t i;
	for (i = 0; i < SLOTS * (int64_t)SLOT; i++)
		put(x, dtype, i * (dtype == ZR_F32 ? 1 : 2), (rnd(&seed) + 1.001) / 4);
	for (i = 0; i < SLOTS * (int64_t)SLOT && dtype != ZR_F32; i++)
		put(x, dtype, 2 * i + 1, (rnd(&seed) + 1.001) / 4);
	for (i = 0; i < ROWS; i++)
		tokens_of(x)[i] = (int32_t)((rnd(&seed) + 1) / 2 * V);
	*scalars_of(x) = (struct zr_scalars){ 3, 0.5f, 1e-3f };
}

static void every_op(const struct dev *d, float *x, int32_t dtype)
{
	rows_ops(d, x, dtype);
	attention_ops(d, x, dtype);
	head_op(d, x, dtype);
	element_ops(d, x, dtype);
	update_ops(d, x, dtype);
	norm_ops(d, x, dtype);
	llama_ops(d, x, dtype);
}

/* All operations once on the same operands in device memory; what they left there. */
static void results(const struct dev *d, int32_t dtype, float *out)
{
	float *x = take(d, BYTES);
	double sum = 0;
	int64_t i;
	fill(out, dtype);
	move(d, x, out, BYTES);
	every_op(d, x, dtype);
	move(d, out, x, BYTES);
	assert_memory_equal(slot(out, 56), slot(out, 31), N * sizeof(float));
	for (i = 0; i < N; i++)
		sum += (double)slot(out, 68)[i] * slot(out, 68)[i];
	assert_true(fabs(sum - 1) < 1e-5);
	d->v->mem_free(d->inst, x, BYTES, ZR_MEM_DEVICE);
}

static void I1_every_operation_has_the_same_bits_for_any_number_of_workers(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16, ZR_F16 };
	float *first = malloc(BYTES), *now = malloc(BYTES);
	int isa, t, workers;
	size_t i;
	assert_true(first && now);
	for (isa = 0; isa < DEV_VARIANTS; isa++)
		for (t = 0; t < 3; t++)
			for (workers = 1; workers <= 3; workers++) {
				struct dev d;
				/* the first in memory of the host: bits do not depend on the kind either */
				if (!open_kind(&d, workers, dev_isas[isa], workers == 1 && dev_is_cpu() ? &(void *){ &unified } : state)) {
					results(&d, dtypes[t], workers == 1 ? first : now);
					for (i = 0; workers > 1 && i < SLOTS; i++)
						if (memcmp(slot(first, (int)i), slot(now, (int)i), SLOT * sizeof(float)))
							fail_msg("%s: operand %d differs with %d workers", dev_isas[isa],
								 (int)i, workers);
				}
				dev_close(&d);
			}
	free(first);
	free(now);
}

/* Bytes this process has mapped. */
static long mapped(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%ld", &pages), 1);
	fclose(f);
	return pages;
}

static void nothing(void *arg, int64_t item, int32_t worker)
{
	(void)arg, (void)item, (void)worker;
}

static void all_types(const struct dev *d, float *x, const float *host)
{
	static const int32_t dtypes[] = { ZR_BF16, ZR_F16, ZR_F32 };
	for (int t = 0; t < 3; t++) {
		move(d, x, host, BYTES);
		every_op(d, x, dtypes[t]);
	}
	must(d, d->v->sync(d->inst, NULL));
}

/* Of device/cpu stronger than I3 asks: not even in the first step. What the library of another takes is its own. */
static void I3_operations_allocate_nothing(void **state)
{
	float *host = malloc(BYTES);
	struct dev d;
	assert_non_null(host);
	fill(host, ZR_F32);
	assert_int_equal(open_kind(&d, 3, "auto", state), ZR_OK);
	float *x = take(&d, BYTES);
	d.h->parallel(d.h, 1, nothing, NULL); /* the threads have started, and freed what started them */
	mapped(); /* what it keeps of its first reading counts as taken */
	long pages = mapped();
	int64_t calls = test_allocs(d.h);
	size_t heap = mallinfo2().uordblks;
	all_types(&d, x, host);
	assert_int_equal(test_allocs(d.h), calls);
	assert_true(mallinfo2().uordblks == heap || !dev_is_cpu());
	assert_true(mapped() == pages || !dev_is_cpu());
	d.v->mem_free(d.inst, x, BYTES, ZR_MEM_DEVICE);
	dev_close(&d);
	free(host);
}

static void every_operation_is_there_and_unknown_types_are_refused(void **state)
{
	struct dev d;
	const char *at;
	struct zr_op_cast c = { .size = sizeof c, .dst_dtype = ZR_F64, .src_dtype = ZR_F32, .n = 1 };
	struct zr_op_gelu_bwd g = { .size = sizeof g, .dtype = ZR_F64, .n = 1 };
	struct zr_op_adamw m = { .size = sizeof m, .moment_dtype = ZR_F16, .n = 1 };
	struct zr_op_attention a = { .size = sizeof a, .dtype = ZR_F32, .batch = 1, .length = 4, .heads = 3,
				     .kv_heads = 2, .head_dim = 8 };
	struct zr_op_rotary r = { .size = sizeof r, .dtype = ZR_F32, .batch = 1, .length = 4, .heads = 3 };
	int i;
	assert_int_equal(open_kind(&d, 1, "auto", state), ZR_OK);
	assert_int_equal(d.ops->size, sizeof *d.ops);
	for (at = (const char *)&d.ops->matmul; at < (const char *)(d.ops + 1); at += sizeof(void *))
		assert_non_null(*(void *const *)(const void *)at);
	assert_int_equal(d.ops->cast(d.ops, NULL, &c), ZR_ENOTSUP);
	c.dst_dtype = ZR_NF4;
	assert_int_equal(d.ops->cast(d.ops, NULL, &c), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "1 elements are no whole blocks"));
	c = (struct zr_op_cast){ .size = sizeof c, .dst_dtype = ZR_INT8, .src_dtype = ZR_BF16 };
	assert_int_equal(d.ops->cast(d.ops, NULL, &c), ZR_ENOTSUP);
	assert_int_equal(d.ops->gelu_bwd(d.ops, NULL, &g), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "gelu_bwd"));
	assert_int_equal(d.ops->adamw(d.ops, NULL, &m), ZR_ENOTSUP);
	assert_non_null(strstr(test_error(d.h), "moments"));
	assert_int_equal(d.ops->attention(d.ops, NULL, &a), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "3 heads"));
	for (i = 0; i < 3; i++) {
		r.head_dim = (int[]){ 0, 258, 37 }[i];
		assert_int_equal(d.ops->rotary(d.ops, NULL, &r), ZR_ENOTSUP);
	}
	assert_non_null(strstr(test_error(d.h), "heads of width 37"));
	dev_close(&d);
}

#define OVER(kind, f) { #f " (" #kind ")", f, NULL, NULL, &kind }
#define OVER_EACH_KIND(f) OVER(unified, f), OVER(limited, f), OVER(separate, f)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(isa_is_what_was_asked_or_a_refusal_that_names_a_feature),
		cmocka_unit_test(auto_takes_the_widest_and_shares_processors),
		OVER_EACH_KIND(create_reports_its_scratch_and_returns_all_when_refused),
		OVER_EACH_KIND(memory_is_aligned_zeroed_and_copied),
		OVER_EACH_KIND(memory_of_others_is_pinned_once_and_given_back),
		OVER_EACH_KIND(I1_every_operation_has_the_same_bits_for_any_number_of_workers),
		OVER_EACH_KIND(I3_operations_allocate_nothing),
		OVER_EACH_KIND(every_operation_is_there_and_unknown_types_are_refused),
	};
	const struct CMUnitTest of_any[] = {
		OVER(separate, create_reports_its_scratch_and_returns_all_when_refused),
		OVER(separate, memory_is_aligned_zeroed_and_copied),
		OVER(separate, memory_of_others_is_pinned_once_and_given_back),
		OVER(separate, I1_every_operation_has_the_same_bits_for_any_number_of_workers),
		OVER(separate, I3_operations_allocate_nothing),
		OVER(separate, every_operation_is_there_and_unknown_types_are_refused),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return dev_is_cpu() ? cmocka_run_group_tests(tests, NULL, NULL) : cmocka_run_group_tests(of_any, NULL, NULL);
}
