/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - causal attention by device/cpu: reads lines "LENGTH HEADS WIDTH fp32|bf16",
 * computes one sequence of so many heads forward and backward for a while, and answers each with
 * the least milliseconds of both and the MiB that the backward works in. bench/attention.py asks
 * it in turns with PyTorch.
 *
 *   bench/attention [workers [isa]]
 */
#include "tests/lib/testdevice.h"

#include <string.h>
#include <time.h>

#define SECONDS 0.05 /* of each, at least one */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void must(int rc)
{
	if (rc)
		abort();
}

/* Numbers between -2 and 2 of fp32 or bf16: the sign, 8 bits and what follows them. */
static void *numbers(int64_t n, int32_t dtype)
{
	uint16_t *x = calloc(1, zr_bytes_of(dtype, n));
	const int64_t each = dtype == ZR_F32 ? 2 : 1;
	uint32_t state = 1;

	for (int64_t i = each - 1; i < each * n; i += each) {
		state = state * 1664525u + 1013904223u;
		x[i] = (uint16_t)((state >> 16 & 0x80ffu) | 0x3f00u);
	}
	return x;
}

static double forward(const struct dev *d, const struct zr_op_attention_bwd *b)
{
	double began = now();
	must(d->ops->attention(d->ops, NULL, &b->fwd));
	return now() - began;
}

static double backward(const struct dev *d, const struct zr_op_attention_bwd *b)
{
	double began = now();
	must(d->ops->attention_bwd(d->ops, NULL, b));
	return now() - began;
}

static double least(double (*of)(const struct dev *, const struct zr_op_attention_bwd *),
		    const struct dev *d, const struct zr_op_attention_bwd *b)
{
	double began = now(), best = of(d, b);
	while (now() - began < 1e3 * SECONDS) {
		double t = of(d, b);
		best = t < best ? t : best;
	}
	return best;
}

static void measure(const struct dev *d, int64_t length, int64_t heads, int64_t D, int32_t dtype)
{
	const int64_t width = heads * D, n = length * width, one = (int64_t)zr_bytes_of(dtype, 1);
	char *qkv = numbers(3 * n, dtype), *grad = numbers(3 * n, dtype);
	void *out = numbers(n, dtype), *dout = numbers(n, dtype);
	float *lse = malloc((size_t)(length * heads) * sizeof *lse);
	struct zr_op_attention o = { .size = sizeof o,
				     .dtype = dtype,
				     .batch = 1,
				     .length = length,
				     .heads = heads,
				     .kv_heads = heads,
				     .head_dim = D,
				     .q_stride = 3 * width,
				     .k_stride = 3 * width,
				     .v_stride = 3 * width,
				     .out_stride = width,
				     .scale = 0.125f,
				     .q = qkv,
				     .k = qkv + one * width,
				     .v = qkv + 2 * one * width,
				     .out = out,
				     .lse = lse };
	struct zr_op_attention_bwd b = { .size = sizeof b,
					 .fwd = o,
					 .dout = dout,
					 .dq = grad,
					 .dk = grad + one * width,
					 .dv = grad + 2 * one * width };
	uint64_t work = d->ops->attention_bwd_work(d->ops, &b);
	double there, back;

	b.work = aligned_alloc(64, (work + 63) / 64 * 64);
	there = least(forward, d, &b);
	back = least(backward, d, &b);
	printf("%.4f %.4f %.1f\n", there, back, (double)work / (1 << 20));
	fflush(stdout);
	free(b.work);
	free(qkv);
	free(out);
	free(dout);
	free(grad);
	free(lse);
}

int main(int argc, char **argv)
{
	struct dev d;
	long length, heads, width;
	char type[5];

	must(dev_open(&d, argc > 1 ? atoi(argv[1]) : 1, argc > 2 ? argv[2] : "auto"));
	while (scanf("%ld %ld %ld %4s", &length, &heads, &width, type) == 4)
		measure(&d, length, heads, width, strcmp(type, "fp32") ? ZR_BF16 : ZR_F32);
	dev_close(&d);
	return 0;
}
