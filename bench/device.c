/* SPDX-License-Identifier: Apache-2.0
 *
 * device.c - rates of operations of the device that ZR_TEST_DEVICE names (cpu): lines "name value unit", each the median of
 * several batches. Sizes are large where the device has memory for them, so that launches and caches count for nothing.
 * Products of a model: forward, gradient of the input and of the weight, as its plugin asks for them, in its numbers.
 */
#include <zeroth/device.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/testdevice.h"

static struct dev d;
static struct zr_device_info info = { .size = sizeof info };
static int big;
static char *room; /* of the device */

static void must(int rc)
{
	if (rc) {
		fprintf(stderr, "%s\n", test_error(d.h));
		exit(1);
	}
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Seconds: median of 5 batches of at least a twentieth of a second each, after one that counts for nothing. */
static double time_of(int (*op)(void))
{
	double s[5], began, t;
	int n = 1, i, k;
	for (i = -1; i < 5; i++) {
		for (;; n *= 2) {
			must(d.v->sync(d.inst, NULL));
			began = seconds();
			for (k = 0; k < n; k++)
				must(op());
			must(d.v->sync(d.inst, NULL));
			t = seconds() - began;
			if (t > 0.05 || n > 1 << 20)
				break;
		}
		if (i >= 0)
			s[i] = t / n;
	}
	qsort(s, 5, sizeof *s, ascending);
	return s[2];
}

static void rate(const char *name, int (*op)(void), double work, const char *unit)
{
	printf("%s %.4g %s\n", name, work / time_of(op), unit);
	fflush(stdout);
}

/* ---- matrix products ---------------------------------------------------------------------------------- */

static int64_t m, n, k;
static uint32_t flags;
static int32_t to;

/* D[m, n] of the flags' kind, its operands one after the other. */
static int product(void)
{
	const int64_t width = to == ZR_F32 ? 4 : 2;
	struct zr_op_matmul op = { .size = sizeof op, .flags = flags, .a_dtype = ZR_BF16, .b_dtype = ZR_BF16, .d_dtype = to,
				   .m = m, .n = n, .k = k, .lda = flags & ZR_MM_TRANS_A ? m : k, .ldb = flags & ZR_MM_TRANS_B ? k : n, .ldd = n, .a = room,
				   .b = room + 2 * m * k, .d = room + 2 * (m * k + k * n) };
	if (flags & ZR_MM_GELU) {
		op.bias = room;
		op.pre = room + 2 * (m * k + k * n) + width * m * n;
	}
	return d.ops->matmul(d.ops, NULL, &op);
}

static void shape(int64_t m_, int64_t n_, int64_t k_, uint32_t flags_, int32_t to_)
{
	m = m_;
	n = n_;
	k = k_;
	flags = flags_;
	to = to_;
}

static double operations(void)
{
	return 2 * (double)m * (double)n * (double)k;
}

/* A model's products: width in, width out, how many of them. Its head comes last: `chunk` rows at a time, logits in fp32, rows of
 * the length that device/cuda gives them. */
struct model {
	const char *name;
	int64_t rows, chunk;
	int out_in; /* weights are [out, in] */
	struct {
		int64_t in, out, count;
	} w[5];
};

static const struct model models[] = {
	{ "gpt2_124m", 65536, 4096, 0, { { 768, 2304, 12 }, { 768, 768, 12 }, { 768, 3072, 12 }, { 3072, 768, 12 }, { 768, 50304, 1 } } },
	{ "gpt2_1558m", 16384, 4096, 0, { { 1600, 4800, 48 }, { 1600, 1600, 48 }, { 1600, 6400, 48 }, { 6400, 1600, 48 },
				   { 1600, 50304, 1 } } },
	{ "llama_7b", 8192, 4096, 1, { { 4096, 4096, 128 }, { 4096, 11008, 64 }, { 11008, 4096, 32 }, { 4096, 32000, 1 } } },
};

/* Rates of each product and of all, weighed by how often a step has them. */
static void model_products(const struct model *a)
{
	const int64_t part_of = big ? 1 : 16; /* on a small device everything is smaller */
	double work = 0, seconds_of_all = 0;
	for (int i = 0; i < 5 && a->w[i].count; i++) {
		const int head = a->w[i].count == 1;
		const int64_t rows = (head ? a->chunk : a->rows) / part_of, in = a->w[i].in / part_of, out = a->w[i].out / part_of;
		const double times = (double)a->w[i].count * (double)(a->rows / part_of / rows);
		const uint32_t w_out_in = a->out_in || head;
		for (int part = 0; part < 3; part++) {
			static const char *const parts[] = { "forward", "dx", "dw" };
			if (part == 0)
				shape(rows, out, in, w_out_in ? ZR_MM_TRANS_B : 0, head ? ZR_F32 : ZR_BF16);
			else if (part == 1)
				shape(rows, in, out, w_out_in ? 0 : ZR_MM_TRANS_B, ZR_BF16);
			else if (w_out_in)
				shape(out, in, rows, ZR_MM_TRANS_A | ZR_MM_ACCUMULATE, ZR_F32);
			else
				shape(in, out, rows, ZR_MM_TRANS_A | ZR_MM_ACCUMULATE, ZR_F32);
			double t = time_of(product);
			printf("%s_%lldx%lld_%s %.4g TFLOP/s\n", a->name, (long long)in, (long long)out, parts[part], 1e-12 * operations() / t);
			fflush(stdout);
			work += times * operations();
			seconds_of_all += times * t;
		}
	}
	printf("%s_products %.4g TFLOP/s\n", a->name, 1e-12 * work / seconds_of_all);
	fflush(stdout);
}

/* ---- attention ---------------------------------------------------------------------------------------- */

static int64_t batch, length;

static struct zr_op_attention heads(void)
{
	const int64_t width = 768, rows = batch * length;
	return (struct zr_op_attention){ .size = sizeof(struct zr_op_attention), .dtype = ZR_BF16, .batch = batch, .length = length,
					 .heads = 12, .kv_heads = 12, .head_dim = 64, .q_stride = 3 * width, .k_stride = 3 * width,
					 .v_stride = 3 * width, .out_stride = width, .scale = 0.125f, .q = room, .k = room + 2 * width,
					 .v = room + 4 * width, .out = room + 6 * width * rows,
					 .lse = (float *)(void *)(room + 8 * width * rows) };
}

static int attention(void)
{
	struct zr_op_attention op = heads();
	return d.ops->attention(d.ops, NULL, &op);
}

static int attention_bwd(void)
{
	const int64_t width = 768, rows = batch * length;
	struct zr_op_attention_bwd op = { .size = sizeof op, .fwd = heads(), .dout = room + 10 * width * rows,
					  .dq = room + 12 * width * rows, .dk = room + 12 * width * rows + 2 * width,
					  .dv = room + 12 * width * rows + 4 * width, .work = room + 18 * width * rows };
	return d.ops->attention_bwd(d.ops, NULL, &op);
}

/* ---- updates and copies --------------------------------------------------------------------------------- */

static int64_t count;
static char *host;
static struct zr_scalars *scalars;

static int adamw(void)
{
	struct zr_op_adamw op = { .size = sizeof op, .lowp_dtype = ZR_BF16, .bias_correction = 1, .n = count, .beta1 = 0.9, .beta2 = 0.99,
				  .eps = 1e-8, .weight_decay = 0.1, .scalars = scalars, .grad = (float *)(void *)room,
				  .master = (float *)(void *)(room + 4 * count), .m = room + 8 * count, .v = room + 12 * count,
				  .lowp = room + 16 * count };
	return d.ops->adamw(d.ops, NULL, &op);
}

static int on_device(void)
{
	return d.v->copy(d.inst, NULL, room + 4 * count, room, 4 * (uint64_t)count);
}

static int cast(void)
{
	struct zr_op_cast op = { .size = sizeof op, .dst_dtype = ZR_F32, .src_dtype = ZR_F32, .n = count, .src = room,
				 .dst = room + 4 * count };
	return d.ops->cast(d.ops, NULL, &op);
}

static int to_device(void)
{
	return d.v->copy(d.inst, NULL, room, host, (uint64_t)count);
}

static int from_device(void)
{
	return d.v->copy(d.inst, NULL, host, room, (uint64_t)count);
}

/* Random bf16 numbers near 1, which make random fp32 ones too: products of zeros are faster than others. */
static void fill(uint64_t bytes)
{
	const uint64_t part = 1 << 20;
	uint64_t seed = 1;
	for (uint64_t i = 0; i < part / 2; i++)
		put(host, ZR_BF16, (int64_t)i, rnd(&seed));
	for (uint64_t at = 0; at < bytes; at += part)
		must(d.v->copy(d.inst, NULL, room + at, host, part));
}

int main(void)
{
	const struct zr_scalars s = { 3, 0.5f, 1e-3f };
	uint64_t bytes, pinned;
	int threads = getenv("THREADS") ? atoi(getenv("THREADS")) : 1;
	must(dev_open(&d, threads, "auto", "auto"));
	must(d.v->info(d.inst, &info));
	big = !dev_is_cpu() && info.memory > 8ull << 30;
	bytes = big ? 4ull << 30 : 256 << 20;
	pinned = big ? 1ull << 30 : 64 << 20;
	must(d.v->mem_alloc(d.inst, bytes + 4096, ZR_MEM_DEVICE, (void **)&room));
	must(d.v->mem_alloc(d.inst, pinned, ZR_MEM_PINNED, (void **)&host));
	fill(bytes);
	scalars = (struct zr_scalars *)(void *)(room + bytes);
	must(d.v->copy(d.inst, NULL, scalars, &s, sizeof s));
	must(d.v->sync(d.inst, NULL));
	printf("# %s, %s\n", info.name, info.variant);

	const int64_t side = big ? 8192 : 512;
	shape(side, side, side, 0, ZR_BF16);
	rate("matmul_square", product, 1e-12 * operations(), "TFLOP/s");
	shape(big ? 32768 : 256, 3072, 768, ZR_MM_GELU, ZR_BF16);
	rate("matmul_gelu", product, 1e-12 * operations(), "TFLOP/s");
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		model_products(&models[i]);
	batch = big ? 32 : 1;
	length = big ? 1024 : 256;
	rate("attention", attention, 2e-12 * 768.0 * (double)(batch * length * length), "TFLOP/s");
	rate("attention_bwd", attention_bwd, 5e-12 * 768.0 * (double)(batch * length * length), "TFLOP/s");
	count = big ? 128 << 20 : 4 << 20;
	rate("adamw", adamw, 30e-9 * (double)count, "GB/s");
	rate("cast_on_device", cast, 8e-9 * (double)count, "GB/s");
	rate("copy_on_device", on_device, 8e-9 * (double)count, "GB/s");
	count = (int64_t)pinned;
	rate("copy_to_device", to_device, 1e-9 * (double)count, "GB/s");
	rate("copy_from_device", from_device, 1e-9 * (double)count, "GB/s");
	d.v->mem_free(d.inst, host, pinned, ZR_MEM_PINNED);
	d.v->mem_free(d.inst, room, bytes + 4096, ZR_MEM_DEVICE);
	dev_close(&d);
	return 0;
}
