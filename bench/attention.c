/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.c - causal attention in bf16 by device/cpu: reads lines "LENGTH HEADS", computes one
 * sequence of so many heads of width 64 forward and backward, and answers each with the
 * milliseconds of both and the MiB that the backward works in. bench/attention.py asks it in turns
 * with PyTorch.
 *
 *   bench/attention [workers [isa]]
 */
#include "tests/lib/testdevice.h"

#include <time.h>

enum { D = 64 };

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

/* bf16 numbers between -2 and 2. */
static uint16_t *numbers(int64_t n)
{
	uint16_t *x = malloc((size_t)n * sizeof *x);
	uint32_t state = 1;

	for (int64_t i = 0; i < n; i++) {
		state = state * 1664525u + 1013904223u;
		x[i] = (uint16_t)((state >> 16 & 0x80ffu) | 0x3f00u);
	}
	return x;
}

static void measure(const struct dev *d, int64_t length, int64_t heads)
{
	const int64_t width = heads * D, n = length * width;
	uint16_t *qkv = numbers(3 * n), *out = numbers(n), *dout = numbers(n), *grad = numbers(3 * n);
	float *lse = malloc((size_t)(length * heads) * sizeof *lse);
	struct zr_op_attention o = { .size = sizeof o, .dtype = ZR_BF16, .batch = 1,
				     .length = length, .heads = heads, .kv_heads = heads,
				     .head_dim = D, .q_stride = 3 * width, .k_stride = 3 * width,
				     .v_stride = 3 * width, .out_stride = width, .scale = 0.125f,
				     .q = qkv, .k = qkv + width, .v = qkv + 2 * width, .out = out,
				     .lse = lse };
	struct zr_op_attention_bwd b = { .size = sizeof b, .fwd = o, .dout = dout, .dq = grad,
					 .dk = grad + width, .dv = grad + 2 * width };
	uint64_t work = d->ops->attention_bwd_work(d->ops, &b);
	double began, between, end;

	b.work = aligned_alloc(64, (work + 63) / 64 * 64);
	began = now();
	must(d->ops->attention(d->ops, NULL, &o));
	between = now();
	must(d->ops->attention_bwd(d->ops, NULL, &b));
	end = now();
	printf("%.3f %.3f %.1f\n", between - began, end - between, (double)work / (1 << 20));
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
	long length, heads;

	must(dev_open(&d, argc > 1 ? atoi(argv[1]) : 1, argc > 2 ? argv[2] : "auto"));
	while (scanf("%ld %ld", &length, &heads) == 2)
		measure(&d, length, heads);
	dev_close(&d);
	return 0;
}
