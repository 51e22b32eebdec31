/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul.c - the matrix products of GPT-2 124M, of TinyLlama and of the demo model by device/cpu,
 * beside OpenBLAS on as many threads where a library of it can be loaded: fp32, without what
 * follows a product. In turns on the same data, with turns of multiply-adds of registers between
 * them. Per shape: GFLOP/s of each (best turn), the share that this is of the registers' best rate
 * with its type, and the median of the ratios of neighbouring turns, above 1 where device/cpu is
 * faster.
 *
 *   bench/matmul [workers [isa [milliseconds per shape [part of a shape's name [library]]]]]
 */
#include "cmd/measure/multiply.h"
#include "tests/lib/testhost.h"

#include <zeroth/device.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS 401

struct shape {
	const char *name;
	int64_t m, n, k;
	uint32_t flags;
	int32_t dtype; /* of a, b and d; gradients of parameters (TRANS_A) are fp32 */
};

#define NN 0
#define NT ZR_MM_TRANS_B
#define TN ZR_MM_TRANS_A

/* A linear map of bf16 to m rows: forward, gradient of its input, gradient of its weight; by how
 * the weight is stored: [k, n] or [n, k]. */
#define STORED_KN(name, m, n, k, then)                                                             \
	{ name, m, n, k, NN | (then), ZR_BF16 }, { name " dx", m, k, n, NT, ZR_BF16 },             \
	{                                                                                          \
		name " dw", k, n, m, TN, ZR_BF16                                                   \
	}
#define STORED_NK(name, m, n, k)                                                                   \
	{ name, m, n, k, NT, ZR_BF16 }, { name " dx", m, k, n, NN, ZR_BF16 },                      \
	{                                                                                          \
		name " dw", n, k, m, TN, ZR_BF16                                                   \
	}

static const struct shape shapes[] = {
	{ "qkv", 256, 2304, 768, NN, ZR_F32 },
	{ "qkv dx", 256, 768, 2304, NT, ZR_F32 },
	{ "qkv dw", 768, 2304, 256, TN, ZR_F32 },
	{ "attention out", 256, 768, 768, NN, ZR_F32 },
	{ "attention out dx", 256, 768, 768, NT, ZR_F32 },
	{ "attention out dw", 768, 768, 256, TN, ZR_F32 },
	{ "fc + gelu", 256, 3072, 768, NN | ZR_MM_GELU, ZR_F32 },
	{ "fc dx", 256, 768, 3072, NT, ZR_F32 },
	{ "fc dw", 768, 3072, 256, TN, ZR_F32 },
	{ "proj", 256, 768, 3072, NN, ZR_F32 },
	{ "proj dx", 256, 3072, 768, NT, ZR_F32 },
	{ "proj dw", 3072, 768, 256, TN, ZR_F32 },
	{ "head", 128, 50257, 768, NT, ZR_F32 },
	{ "head dx", 128, 768, 50257, NN, ZR_F32 },
	{ "head dw", 50257, 768, 128, TN | ZR_MM_ACCUMULATE, ZR_F32 },
	{ "demo qkv", 2048, 384, 128, NN, ZR_F32 },
	{ "demo qkv dx", 2048, 128, 384, NT, ZR_F32 },
	{ "demo qkv dw", 128, 384, 2048, TN, ZR_F32 },
	{ "demo out", 2048, 128, 128, NN, ZR_F32 },
	{ "demo out dw", 128, 128, 2048, TN, ZR_F32 },
	{ "demo fc + gelu", 2048, 512, 128, NN | ZR_MM_GELU, ZR_F32 },
	{ "demo proj", 2048, 128, 512, NN, ZR_F32 },
	{ "demo proj dw", 512, 128, 2048, TN, ZR_F32 },
	{ "demo head", 512, 256, 128, NT, ZR_F32 },
	{ "demo head dw", 256, 128, 512, TN | ZR_MM_ACCUMULATE, ZR_F32 },
	{ "demo fc bf16", 2048, 512, 128, NN | ZR_MM_GELU, ZR_BF16 },
	STORED_KN("gpt2 qkv bf16", 256, 2304, 768, 0),
	STORED_KN("gpt2 out bf16", 256, 768, 768, 0),
	STORED_KN("gpt2 fc bf16", 256, 3072, 768, ZR_MM_GELU),
	STORED_KN("gpt2 proj bf16", 256, 768, 3072, 0),
	STORED_KN("gpt2 T1024 qkv bf16", 1024, 2304, 768, 0),
	STORED_KN("gpt2 T1024 out bf16", 1024, 768, 768, 0),
	STORED_KN("gpt2 T1024 fc bf16", 1024, 3072, 768, ZR_MM_GELU),
	STORED_KN("gpt2 T1024 proj bf16", 1024, 768, 3072, 0),
	STORED_NK("gpt2 head bf16", 128, 50257, 768),
	STORED_NK("llama q bf16", 512, 2048, 2048),
	STORED_NK("llama k bf16", 512, 256, 2048),
	STORED_NK("llama gate bf16", 512, 5632, 2048),
	STORED_NK("llama down bf16", 512, 2048, 5632),
	{ "qkv fp16", 256, 2304, 768, NN, ZR_F16 },
	{ "qkv dx fp16", 256, 768, 2304, NT, ZR_F16 },
	{ "qkv dw fp16", 768, 2304, 256, TN, ZR_F16 },
	{ "demo fc fp16", 2048, 512, 128, NN | ZR_MM_GELU, ZR_F16 },
	{ "llama k", 512, 256, 2048, NT, ZR_F32 },
	{ "llama k dx", 512, 2048, 256, NN | ZR_MM_ACCUMULATE, ZR_F32 },
	{ "llama k dw", 256, 2048, 512, TN, ZR_F32 },
	{ "llama gate", 512, 5632, 2048, NT, ZR_F32 },
	{ "llama gate dx", 512, 2048, 5632, NN | ZR_MM_ACCUMULATE, ZR_F32 },
	{ "llama gate dw", 5632, 2048, 512, TN, ZR_F32 },
	{ "adapter x A^T", 1024, 16, 768, NT, ZR_F32 },
	{ "adapter dy B", 1024, 16, 2304, NN, ZR_F32 },
	{ "adapter dA", 16, 768, 1024, TN, ZR_F32 },
	{ "adapter dB", 2304, 16, 1024, TN, ZR_F32 },
	{ "adapter x A^T 16", 1024, 16, 768, NT, ZR_BF16 },
	{ "adapter dy B 16", 1024, 16, 2304, NN, ZR_BF16 },
	{ "adapter dA 16", 16, 768, 1024, TN, ZR_BF16 },
	{ "adapter dB 16", 2304, 16, 1024, TN, ZR_BF16 },
	{ "cube", 1024, 1024, 1024, NN, ZR_F32 },
};

/* Of this thread if it is the only worker: then other processes do not count. */
static clockid_t clock_id = CLOCK_MONOTONIC;

static double now(void)
{
	struct timespec t;
	clock_gettime(clock_id, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* ---- workers that wait by spinning, as those of OpenMP do ------------------------ */

static struct {
	void (*fn)(void *, int64_t, int32_t);
	void *arg;
	int64_t n;
	_Atomic int64_t next;
	_Atomic int started, ended; /* rounds begun; workers that ended this one */
} pool;

static void take_items(int32_t worker)
{
	for (int64_t i; (i = atomic_fetch_add(&pool.next, 1)) < pool.n;)
		pool.fn(pool.arg, i, worker);
	atomic_fetch_add(&pool.ended, 1);
}

static void *work(void *arg)
{
	for (int seen = 0;; seen++) {
		while (atomic_load(&pool.started) == seen)
			;
		take_items((int32_t)(intptr_t)arg);
	}
	return NULL;
}

static void pool_parallel(const struct zr_host *h, int64_t n, void (*fn)(void *, int64_t, int32_t),
			  void *arg)
{
	pool.fn = fn;
	pool.arg = arg;
	pool.n = n;
	atomic_store(&pool.next, 0);
	atomic_store(&pool.ended, 0);
	atomic_fetch_add(&pool.started, 1);
	take_items(0);
	while (atomic_load(&pool.ended) < h->workers)
		;
}

static void pool_start(struct zr_host *h)
{
	for (intptr_t i = 1; i < h->workers; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, work, (void *)i))
			exit(1);
	}
	h->parallel = pool_parallel;
}

static struct zr_device_info info;

static const struct zr_ops *device(struct zr_host *h, const char *isa, struct zr_inst **inst)
{
	const struct zr_desc *desc = test_plugin("device/cpu");
	const struct zr_device_v1 *v = test_iface(desc, "zr.device/1");
	void *opts = test_options(desc);
	if (test_set(desc, opts, "isa", isa) || test_create(h, desc, opts, inst)) {
		fprintf(stderr, "matmul: %s\n", test_error(h));
		exit(1);
	}
	free(opts);
	info.size = sizeof info;
	v->info(*inst, &info);
	return v->ops(*inst);
}

/* n small values, in room for as many floats. */
static void *operand(int64_t n, int32_t dtype)
{
	uint32_t seed = 12345;
	char *p = aligned_alloc(64, ((size_t)n * 4 + 127) / 64 * 64);
	int64_t i;
	if (!p)
		exit(1);
	for (i = 0; i < n; i++) {
		float x = (float)((int32_t)(seed = seed * 1664525u + 1013904223u) >> 16) * 0x1p-15f;
		if (dtype == ZR_BF16)
			memcpy(p + 2 * i, (char *)&x + 2, 2);
		else if (dtype == ZR_F16) /* 1/2 to 1, of either sign */
			memcpy(p + 2 * i, &(uint16_t){ (uint16_t)((seed >> 16 & 0x83ff) | 0x3800) },
			       2);
		else
			memcpy(p + 4 * i, &x, 4);
	}
	return p;
}

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha,
			 const float *a, int lda, const float *b, int ldb, float beta, float *c,
			 int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* of cblas.h */

/* NULL without such a library. */
static sgemm_fn sgemm_of(const char *library, int threads)
{
	void *lib = dlopen(library, RTLD_NOW);
	void (*set_threads)(int) =
		lib ? (void (*)(int))(uintptr_t)dlsym(lib, "openblas_set_num_threads") : NULL;
	if (!set_threads)
		fprintf(stderr, "matmul: no OpenBLAS: %s\n", lib ? library : dlerror());
	else
		set_threads(threads);
	return set_threads ? (sgemm_fn)(uintptr_t)dlsym(lib, "cblas_sgemm") : NULL;
}

static double run(const struct zr_ops *ops, const struct zr_op_matmul *op, int times)
{
	double start = now();
	while (times-- > 0)
		ops->matmul(ops, NULL, op);
	return now() - start;
}

static double run_peer(sgemm_fn sgemm, const struct zr_op_matmul *o, int times)
{
	double start = now();
	while (times-- > 0)
		sgemm(ROW_MAJOR, o->flags & ZR_MM_TRANS_A ? TRANS : NO_TRANS,
		      o->flags & ZR_MM_TRANS_B ? TRANS : NO_TRANS, (int)o->m, (int)o->n, (int)o->k,
		      1, o->a.data, (int)o->lda, o->b.data, (int)o->ldb,
		      o->flags & ZR_MM_ACCUMULATE ? 1 : 0, o->d.data, (int)o->ldd);
	return now() - start;
}

/* ---- the limit: multiply-adds of registers -------------------------------------- */

#define ROUNDS 300000 /* a millisecond, of tiles some */

/* By what the kernels multiply the type with. */
static zr_multiply_fn *limit_of(int32_t dtype)
{
	zr_multiply_fn *own = dtype == ZR_BF16 ? zr_multiply_of(1, info.variant) : NULL;
	if (own)
		return own;
	return zr_multiply_of(0, info.variant);
}

static void limit_item(void *arg, int64_t item, int32_t worker)
{
	(void)worker;
	((double *)arg)[item] = limit_of((int32_t)((double *)arg)[item])(ROUNDS);
}

/* Operations per second of all workers at once. */
static double limit_rate(const struct zr_host *h, int32_t dtype)
{
	double work[256], sum = 0, start = now();
	int n = h->workers < 256 ? h->workers : 256;
	for (int i = 0; i < n; i++)
		work[i] = dtype;
	h->parallel(h, n, limit_item, work);
	for (int i = 0; i < n; i++)
		sum += work[i];
	return sum / (now() - start);
}

/* ---- */

static void compare(const struct zr_host *h, const struct zr_ops *own, sgemm_fn peer,
		    const struct shape *s, double budget)
{
	static double ratio[TURNS];
	double limit = 0, rate;
	int32_t d_dtype = s->flags & ZR_MM_TRANS_A ? ZR_F32 : s->dtype;
	struct zr_op_matmul op = {
		.size = sizeof op,
		.flags = s->flags,
		.m = s->m,
		.n = s->n,
		.k = s->k,
		.lda = s->flags & ZR_MM_TRANS_A ? s->m : s->k,
		.ldb = s->flags & ZR_MM_TRANS_B ? s->k : s->n,
		.ldd = s->n,
		.a = zr_array_at(s->dtype, operand(s->m * s->k, s->dtype)),
		.b = zr_array_at(s->dtype, operand(s->k * s->n, s->dtype)),
		.d = zr_array_at(d_dtype, operand(s->m * s->n, d_dtype)),
		.pre = s->flags & ZR_MM_GELU ? operand(s->m * s->n, d_dtype) : NULL,
	};
	double flop = 2.0 * (double)s->m * (double)s->n * (double)s->k, best[2] = { 1e9, 1e9 }, end,
	       t[2];
	int times = (int)(2e7 / flop) + 1, n = 0;
	if (s->dtype != ZR_F32)
		peer = NULL;
	run(own, &op, 1);
	if (peer)
		run_peer(peer, &op, 1);
	end = now() + budget;
	do {
		t[0] = run(own, &op, times) / times;
		t[1] = peer ? run_peer(peer, &op, times) / times : t[0];
		rate = limit_rate(h, s->dtype);
		limit = rate > limit ? rate : limit;
		ratio[n++] = t[1] / t[0];
		best[0] = t[0] < best[0] ? t[0] : best[0];
		best[1] = t[1] < best[1] ? t[1] : best[1];
	} while (n < TURNS && now() < end);
	qsort(ratio, (size_t)n, sizeof *ratio, by_value);
	printf("%-24s %6lld %6lld %6lld  %7.1f  %5.2f", s->name, (long long)s->m, (long long)s->n,
	       (long long)s->k, flop / best[0] * 1e-9, flop / best[0] / limit);
	if (peer)
		printf(" %7.1f  %5.2f", flop / best[1] * 1e-9, ratio[n / 2]);
	printf("\n");
	free(op.a.data);
	free(op.b.data);
	free(op.d.data);
	free(op.pre);
}

int main(int argc, char **argv)
{
	struct zr_host *h = test_host(argc > 1 ? atoi(argv[1]) : 1);
	const char *isa = argc > 2 ? argv[2] : "auto", *only = argc > 4 ? argv[4] : NULL;
	double budget = argc > 3 ? atof(argv[3]) * 1e-3 : 0.5;
	const struct zr_desc *desc = test_plugin("device/cpu");
	struct zr_inst *inst;
	pool_start(h);
	const struct zr_ops *own = device(h, isa, &inst);
	sgemm_fn peer = sgemm_of(argc > 5 ? argv[5] : "libopenblas.so.0", h->workers);
	size_t i;
	if (h->workers == 1)
		clock_id = CLOCK_THREAD_CPUTIME_ID;
	printf("%-24s %6s %6s %6s  %7s %6s %7s %5s\n", "", "M", "N", "K", "own", "share",
	       "OpenBLAS", "ratio");
	for (i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (!only || strstr(shapes[i].name, only))
			compare(h, own, peer, &shapes[i], budget);
	desc->destroy(inst);
	test_host_free(h);
	return 0;
}
