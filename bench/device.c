/* SPDX-License-Identifier: Apache-2.0
 *
 * device.c - rates of operations of the device that ZR_TEST_DEVICE names (cpu): lines "name value
 * unit", each the median of several batches. Sizes are large where the device has memory for them,
 * so that launches and caches count for nothing. Products of a model: forward, gradient of the
 * input and of the weight, as its plugin asks for them, in its numbers.
 *
 *   bench/device [NAME...]   only those whose names begin so
 *   BIG=1 bench/device fold  large sizes, 5 GiB in all, on a processor too; THREADS=N: of so many
 *   bench/device attention=HEADS/KV_HEADS/WIDTH/LENGTH...   attention of these shapes, causal
 */
#include <zeroth/device.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/testdevice.h"

static struct dev d;
static struct zr_device_info info = { .size = sizeof info };
static int big;
static char *room; /* of the device */
static char *host;

static char **wanted; /* names; none: all */

static int wants(const char *name)
{
	for (char **w = wanted; *w; w++)
		if (!strncmp(name, *w, strlen(*w)))
			return 1;
	return !*wanted;
}

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

/* Seconds: median of 5 batches of at least a twentieth of a second each, after one that counts for
 * nothing. */
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
	if (!wants(name))
		return;
	printf("%s %.4g %s\n", name, work / time_of(op), unit);
	fflush(stdout);
}

/* ---- matrix products ------------------------------------------------------------- */

static int64_t m, n, k;
static uint32_t flags;
static int32_t to;

/* D[m, n] of the flags' kind, its operands one after the other. */
static int product(void)
{
	const int64_t width = (int64_t)zr_bytes_of(to, 1);
	struct zr_op_matmul op = { .size = sizeof op,
				   .flags = flags,
				   .m = m,
				   .n = n,
				   .k = k,
				   .lda = flags & ZR_MM_TRANS_A ? m : k,
				   .ldb = flags & ZR_MM_TRANS_B ? k : n,
				   .ldd = n,
				   .a = zr_array_at(ZR_BF16, room),
				   .b = zr_array_at(ZR_BF16, room + 2 * m * k),
				   .d = zr_array_at(to, room + 2 * (m * k + k * n)) };
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

/* A model's products: width in, width out, how many of them. Its head comes last: `chunk` rows at a
 * time, logits in fp32, rows of the length that device/cuda gives them. */
struct model {
	const char *name;
	int64_t rows, chunk;
	int out_in; /* weights are [out, in] */
	struct {
		int64_t in, out, count;
	} w[5];
};

static const struct model models[] = {
	{ "gpt2_124m",
	  65536,
	  4096,
	  0,
	  { { 768, 2304, 12 },
	    { 768, 768, 12 },
	    { 768, 3072, 12 },
	    { 3072, 768, 12 },
	    { 768, 50304, 1 } } },
	{ "gpt2_1558m",
	  16384,
	  4096,
	  0,
	  { { 1600, 4800, 48 },
	    { 1600, 1600, 48 },
	    { 1600, 6400, 48 },
	    { 6400, 1600, 48 },
	    { 1600, 50304, 1 } } },
	{ "llama_7b",
	  8192,
	  4096,
	  1,
	  { { 4096, 4096, 128 }, { 4096, 11008, 64 }, { 11008, 4096, 32 }, { 4096, 32000, 1 } } },
};

/* Rates of each product and of all, weighed by how often a step has them. */
static void model_products(const struct model *a)
{
	const int64_t part_of = big ? 1 : 16; /* on a small device everything is smaller */
	double work = 0, seconds_of_all = 0;
	if (!wants(a->name))
		return;
	for (int i = 0; i < 5 && a->w[i].count; i++) {
		const int head = a->w[i].count == 1;
		const int64_t rows = (head ? a->chunk : a->rows) / part_of,
			      in = a->w[i].in / part_of, out = a->w[i].out / part_of;
		const double times = (double)a->w[i].count * (double)(a->rows / part_of / rows);
		const uint32_t w_out_in = a->out_in || head;
		for (int part = 0; part < 3; part++) {
			static const char *const parts[] = { "forward", "dx", "dw" };
			if (part == 0)
				shape(rows, out, in, w_out_in ? ZR_MM_TRANS_B : 0,
				      head ? ZR_F32 : ZR_BF16);
			else if (part == 1)
				shape(rows, in, out, w_out_in ? 0 : ZR_MM_TRANS_B, ZR_BF16);
			else if (w_out_in)
				shape(out, in, rows, ZR_MM_TRANS_A | ZR_MM_ACCUMULATE, ZR_F32);
			else
				shape(in, out, rows, ZR_MM_TRANS_A | ZR_MM_ACCUMULATE, ZR_F32);
			double t = time_of(product);
			printf("%s_%lldx%lld_%s %.4g TFLOP/s\n", a->name, (long long)in,
			       (long long)out, parts[part], 1e-12 * operations() / t);
			fflush(stdout);
			work += times * operations();
			seconds_of_all += times * t;
		}
	}
	printf("%s_products %.4g TFLOP/s\n", a->name, 1e-12 * work / seconds_of_all);
	fflush(stdout);
}

/* ---- attention ------------------------------------------------------------------- */

static int64_t batch, length, n_heads = 12, n_kv = 12, head_dim = 64, window;
static float softcap;

/* Elements of a token's query heads; of those and its keys and values, which lie behind them. */
static int64_t query_width(void)
{
	return head_dim * n_heads;
}

static int64_t qkv_width(void)
{
	return query_width() + 2 * head_dim * n_kv;
}

/* bf16 arrays, one behind the other: q, k and v by token; out; lse, in no more bytes than out; the
 * gradient of out; those of q, k and v; work. */
static struct zr_op_attention heads(void)
{
	const int64_t q = query_width(), kv = head_dim * n_kv, rows = batch * length;
	char *out = room + 2 * qkv_width() * rows;
	return (struct zr_op_attention){ .size = sizeof(struct zr_op_attention),
					 .dtype = ZR_BF16,
					 .batch = batch,
					 .length = length,
					 .heads = n_heads,
					 .kv_heads = n_kv,
					 .head_dim = head_dim,
					 .q_stride = qkv_width(),
					 .k_stride = qkv_width(),
					 .v_stride = qkv_width(),
					 .out_stride = q,
					 .scale = 1 / sqrtf((float)head_dim),
					 .q = room,
					 .k = room + 2 * q,
					 .v = room + 2 * (q + kv),
					 .out = out,
					 .lse = (float *)(void *)(out + 2 * q * rows),
					 .window = window,
					 .softcap = softcap };
}

static int attention(void)
{
	struct zr_op_attention op = heads();
	return d.ops->attention(d.ops, NULL, &op);
}

static struct zr_op_attention_bwd heads_bwd(void)
{
	const int64_t q = query_width(), kv = head_dim * n_kv, rows = batch * length;
	char *dout = room + 2 * (qkv_width() + 2 * q) * rows, *dq = dout + 2 * q * rows;
	return (struct zr_op_attention_bwd){ .size = sizeof(struct zr_op_attention_bwd),
					     .fwd = heads(),
					     .dout = dout,
					     .dq = dq,
					     .dk = dq + 2 * q,
					     .dv = dq + 2 * (q + kv),
					     .work = dq + 2 * qkv_width() * rows };
}

static int attention_bwd(void)
{
	struct zr_op_attention_bwd op = heads_bwd();
	return d.ops->attention_bwd(d.ops, NULL, &op);
}

/* The bytes that a forward and its backward need. */
static uint64_t attention_bytes(void)
{
	struct zr_op_attention_bwd op = heads_bwd();
	const uint64_t work = d.ops->attention_bwd_work ? d.ops->attention_bwd_work(d.ops, &op) : 0;
	return (uint64_t)((char *)op.work - room) + work;
}

static double attention_work(void)
{
	return 2e-12 * (double)query_width() * (double)(batch * length * length);
}

/* Of a word attention=HEADS/KV_HEADS/WIDTH/LENGTH: 16384 tokens, fewer on a small device. */
static void attention_of(const char *word, uint64_t bytes)
{
	long long h, kv, wide, tokens;
	if (sscanf(word, "attention=%lld/%lld/%lld/%lld", &h, &kv, &wide, &tokens) != 4 || kv < 1 ||
	    h < kv || h % kv || wide < 1 || tokens < 1) {
		fprintf(stderr, "%s: expected attention=HEADS/KV_HEADS/WIDTH/LENGTH\n", word);
		exit(2);
	}
	n_heads = h;
	n_kv = kv;
	head_dim = wide;
	length = tokens;
	batch = big && length < 16384 ? 16384 / length : 1;
	if (attention_bytes() > bytes) {
		fprintf(stderr, "%s: needs %llu bytes of the %llu that are taken\n", word,
			(unsigned long long)attention_bytes(), (unsigned long long)bytes);
		exit(2);
	}
	const double forward = time_of(attention), backward = time_of(attention_bwd);
	printf("attention_%lld_%lld_%lld_%lld %.4g TFLOP/s\n", h, kv, wide, tokens,
	       attention_work() / forward);
	printf("attention_bwd_%lld_%lld_%lld_%lld %.4g TFLOP/s\n", h, kv, wide, tokens,
	       2.5 * attention_work() / backward);
	fflush(stdout);
}

/* Of the processor, where it is the device: what else runs there counts less. */
static double busy(void)
{
	struct timespec t;
	clock_gettime(dev_is_cpu() ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Time of an operation with an option to the time without: the least of 7 of each, in turns. */
static void ratio(const char *name, int (*op)(void), int64_t window_, float softcap_)
{
	double least[2] = { 1e30, 1e30 };
	if (!wants(name))
		return;
	for (int i = 0; i < 14; i++) {
		window = i % 2 ? window_ : 0;
		softcap = i % 2 ? softcap_ : 0;
		must(d.v->sync(d.inst, NULL));
		double began = busy(), t;
		for (int k = 0; k < (big ? 20 : 1); k++)
			must(op());
		must(d.v->sync(d.inst, NULL));
		t = busy() - began;
		least[i % 2] = t < least[i % 2] ? t : least[i % 2];
	}
	window = 0;
	softcap = 0;
	printf("%s_%lld %.3f of the time without\n", name, (long long)length, least[1] / least[0]);
	fflush(stdout);
}

static void attention_options(void)
{
	batch = big ? 8 : 1;
	n_heads = n_kv = big ? 12 : 1;
	for (length = 4096; length <= 8192; length *= 2) {
		const int64_t part = length == 4096 ? length / 8 : length / 2;
		ratio("attention_window", attention, part, 0);
		ratio("attention_bwd_window", attention_bwd, part, 0);
		ratio("attention_softcap", attention, 0, 50);
		ratio("attention_bwd_softcap", attention_bwd, 0, 50);
	}
}

/* ---- what a step of GPT-2 or Llama has beside them: bytes read and written ------- */

static int64_t rows, width;

/* The k-th array of rows x width in bf16; vectors and statistics lie behind the eighth. */
static char *part(int k)
{
	return room + 2 * rows * width * k;
}

static float *stats(int k)
{
	return (float *)(void *)(part(8) + 4 * rows * k);
}

static int layernorm(void)
{
	struct zr_op_layernorm op = { .size = sizeof op,
				      .dtype = ZR_BF16,
				      .rows = rows,
				      .width = width,
				      .eps = 1e-5f,
				      .x = part(0),
				      .gamma = part(1),
				      .beta = part(1),
				      .y = part(2),
				      .mean = stats(0),
				      .rstd = stats(1) };
	return d.ops->layernorm(d.ops, NULL, &op);
}

static int layernorm_bwd(void)
{
	struct zr_op_layernorm_bwd op = { .size = sizeof op,
					  .dtype = ZR_BF16,
					  .rows = rows,
					  .width = width,
					  .dy = part(1),
					  .x = part(0),
					  .gamma = part(1),
					  .mean = stats(0),
					  .rstd = stats(1),
					  .dx = part(2),
					  .dgamma = stats(2),
					  .dbeta = stats(3),
					  .work = stats(4) };
	return d.ops->layernorm_bwd(d.ops, NULL, &op);
}

static int rmsnorm(void)
{
	struct zr_op_rmsnorm op = { .size = sizeof op,
				    .dtype = ZR_BF16,
				    .rows = rows,
				    .width = width,
				    .eps = 1e-5f,
				    .x = part(0),
				    .gamma = part(1),
				    .y = part(2),
				    .rstd = stats(1) };
	return d.ops->rmsnorm(d.ops, NULL, &op);
}

static int rmsnorm_bwd(void)
{
	struct zr_op_rmsnorm_bwd op = { .size = sizeof op,
					.dtype = ZR_BF16,
					.rows = rows,
					.width = width,
					.dy = part(1),
					.x = part(0),
					.gamma = part(1),
					.rstd = stats(1),
					.dx = part(2),
					.dgamma = stats(2),
					.work = stats(4) };
	return d.ops->rmsnorm_bwd(d.ops, NULL, &op);
}

static int residual(void)
{
	struct zr_op_residual op = { .size = sizeof op,
				     .dtype = ZR_BF16,
				     .n = rows * width,
				     .a = part(0),
				     .b = part(1),
				     .out = part(2) };
	return d.ops->residual(d.ops, NULL, &op);
}

static int gelu_bwd(void)
{
	struct zr_op_gelu_bwd op = { .size = sizeof op,
				     .dtype = ZR_BF16,
				     .n = rows * width,
				     .dy = part(0),
				     .pre = part(1),
				     .dx = part(2),
				     .act = part(3) };
	return d.ops->gelu_bwd(d.ops, NULL, &op);
}

static int swiglu(void)
{
	struct zr_op_swiglu op = { .size = sizeof op,
				   .dtype = ZR_BF16,
				   .n = rows * width,
				   .gate = part(0),
				   .up = part(1),
				   .out = part(2) };
	return d.ops->swiglu(d.ops, NULL, &op);
}

static int swiglu_bwd(void)
{
	struct zr_op_swiglu_bwd op = { .size = sizeof op,
				       .dtype = ZR_BF16,
				       .n = rows * width,
				       .dy = part(0),
				       .gate = part(1),
				       .up = part(2),
				       .dgate = part(3),
				       .dup = part(4),
				       .act = part(5) };
	return d.ops->swiglu_bwd(d.ops, NULL, &op);
}

static int rotary(void)
{
	struct zr_op_rotary op = { .size = sizeof op,
				   .dtype = ZR_BF16,
				   .batch = 1,
				   .length = rows,
				   .heads = width / 64,
				   .head_dim = 64,
				   .stride = width,
				   .x = part(0),
				   .out = part(1),
				   .frequency = { 1, 0.5f, 0.1f } };
	return d.ops->rotary(d.ops, NULL, &op);
}

static int bias_bwd(void)
{
	struct zr_op_bias_bwd op = { .size = sizeof op,
				     .dtype = ZR_BF16,
				     .rows = rows,
				     .width = width,
				     .dy = part(0),
				     .db = stats(0) };
	return d.ops->bias_bwd(d.ops, NULL, &op);
}

static int fold(void)
{
	struct zr_op_fold op = { .size = sizeof op,
				 .flags = ZR_OP_ACCUMULATE,
				 .comm_dtype = ZR_BF16,
				 .n = rows * width,
				 .g = (float *)(void *)part(0),
				 .acc = (float *)(void *)part(2),
				 .sumsq = (double *)(void *)stats(0),
				 .nonfinite = (uint32_t *)(void *)stats(2) };
	return d.ops->fold(d.ops, NULL, &op);
}

static void bytes_of(const char *name, int (*op)(void), double arrays)
{
	rate(name, op, 2e-9 * arrays * (double)(rows * width), "GB/s");
}

static void rows_of(int64_t rows_, int64_t width_)
{
	rows = rows_;
	width = width_;
}

static void other_operations(void)
{
	rows_of(big ? 65536 : 1024, 768);
	bytes_of("layernorm", layernorm, 2);
	bytes_of("layernorm_bwd", layernorm_bwd, 4);
	bytes_of("residual", residual, 3);
	bytes_of("bias_bwd", bias_bwd, 1);
	rows_of(big ? 65536 : 1024, 3072);
	bytes_of("gelu_bwd", gelu_bwd, 4);
	bytes_of("fold", fold, 6);
	rows_of(big ? 8192 : 256, 4096);
	bytes_of("rmsnorm", rmsnorm, 2);
	bytes_of("rmsnorm_bwd", rmsnorm_bwd, 4);
	bytes_of("rotary", rotary, 2);
	rows_of(big ? 8192 : 256, 11008);
	bytes_of("swiglu", swiglu, 3);
	bytes_of("swiglu_bwd", swiglu_bwd, 6);
}

static struct zr_op_head_loss head;

static void *carve(char **at, uint64_t bytes)
{
	char *p = *at;
	*at += (bytes + 255) / 256 * 256;
	return p;
}

static void place_head(int64_t rows_, int64_t width_, int64_t vocabulary)
{
	const uint64_t n = (uint64_t)rows_, c = (uint64_t)width_, v = (uint64_t)vocabulary;
	char *at = room;
	head = (struct zr_op_head_loss){ .size = sizeof head,
					 .flags = ZR_OP_ACCUMULATE,
					 .dtype = ZR_BF16,
					 .scale = 1e-4f,
					 .rows = rows_,
					 .width = width_,
					 .vocabulary = vocabulary,
					 .x = carve(&at, 2 * n * c),
					 .w = carve(&at, 2 * v * c),
					 .dx = carve(&at, 2 * n * c),
					 .dw = carve(&at, 4 * v * c),
					 .loss = carve(&at, 4 * n),
					 .loss_sum = carve(&at, 8) };
	int32_t *targets = carve(&at, 4 * n);
	head.targets = targets;
	head.work = carve(&at, d.ops->head_loss_work(d.ops, &head));
	memset(host, 0, 4 * n); /* tokens 0, in front of the random numbers */
	must(d.v->copy(d.inst, NULL, targets, host, 4 * n));
	must(d.v->sync(d.inst, NULL));
}

static int head_loss(void)
{
	return d.ops->head_loss(d.ops, NULL, &head);
}

/* ---- updates and copies ---------------------------------------------------------- */

static int64_t count;
static struct zr_scalars *scalars;

static int adamw(void)
{
	struct zr_op_adamw op = { .size = sizeof op,
				  .lowp_dtype = ZR_BF16,
				  .bias_correction = 1,
				  .n = count,
				  .beta1 = 0.9,
				  .beta2 = 0.99,
				  .eps = 1e-8,
				  .weight_decay = 0.1,
				  .scalars = scalars,
				  .grad = (float *)(void *)room,
				  .master = (float *)(void *)(room + 4 * count),
				  .m = room + 8 * count,
				  .v = room + 12 * count,
				  .lowp = room + 16 * count };
	return d.ops->adamw(d.ops, NULL, &op);
}

static int on_device(void)
{
	return d.v->copy(d.inst, NULL, room + 4 * count, room, 4 * (uint64_t)count);
}

static int cast(void)
{
	struct zr_op_cast op = { .size = sizeof op,
				 .n = count,
				 .src = zr_array_at(ZR_F32, room),
				 .dst = zr_array_at(ZR_F32, room + 4 * count) };
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

/* Both ways at once, each half of the bytes: copies that run beside the operations. */
static int both_ways(void)
{
	const uint64_t half = (uint64_t)count / 2;
	uint64_t in = 0, out = 0;
	int rc = d.v->copy_start(d.inst, room, host, half, &in);
	if (!rc)
		rc = d.v->copy_start(d.inst, host + half, room + half, half, &out);
	if (!rc)
		rc = d.v->copy_wait(d.inst, in);
	if (rc)
		return rc;
	return d.v->copy_wait(d.inst, out);
}

/* Random bf16 numbers near 1, which make random fp32 ones too: products of zeros are faster than
 * others. */
static void fill(uint64_t bytes)
{
	const uint64_t part = 1 << 20;
	uint64_t seed = 1;
	for (uint64_t i = 0; i < part / 2; i++)
		put(host, ZR_BF16, (int64_t)i, rnd(&seed));
	for (uint64_t at = 0; at < bytes; at += part)
		must(d.v->copy(d.inst, NULL, room + at, host, part));
}

int main(int argc, char **argv)
{
	const struct zr_scalars s = { 3, 0.5f, 1e-3f };
	uint64_t bytes, pinned;
	int threads = getenv("THREADS") ? atoi(getenv("THREADS")) : 1;
	wanted = argv + (argc > 0);
	must(dev_open(&d, threads, "auto"));
	must(d.v->info(d.inst, &info));
	big = getenv("BIG") || (!dev_is_cpu() && info.memory > 8ull << 30);
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
	rate("attention", attention, attention_work(), "TFLOP/s");
	rate("attention_bwd", attention_bwd, 2.5 * attention_work(), "TFLOP/s");
	attention_options();
	other_operations();
	place_head(big ? 16384 : 256, 768, big ? 50257 : 3001);
	rate("head_loss", head_loss, 6e-12 * (double)(head.rows * head.width * head.vocabulary),
	     "TFLOP/s");
	count = big ? 128 << 20 : 4 << 20;
	rate("adamw", adamw, 30e-9 * (double)count, "GB/s");
	rate("cast_on_device", cast, 8e-9 * (double)count, "GB/s");
	rate("copy_on_device", on_device, 8e-9 * (double)count, "GB/s");
	count = (int64_t)pinned;
	rate("copy_to_device", to_device, 1e-9 * (double)count, "GB/s");
	rate("copy_from_device", from_device, 1e-9 * (double)count, "GB/s");
	if (ZR_HAS(d.v, struct zr_device_v1, copy_wait) && d.v->copy_wait)
		rate("copy_both_ways", both_ways, 1e-9 * (double)count, "GB/s");
	for (char **w = wanted; *w; w++)
		if (!strncmp(*w, "attention=", 10))
			attention_of(*w, bytes);
	d.v->mem_free(d.inst, host, pinned, ZR_MEM_PINNED);
	d.v->mem_free(d.inst, room, bytes + 4096, ZR_MEM_DEVICE);
	dev_close(&d);
	return 0;
}
