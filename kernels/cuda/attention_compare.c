/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_compare.c - see attention_compare.h.
 */
#include <attention_compare.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/scalar.h"

#define TIMES     3    /* that a problem is computed by what is tried */
#define PAD       8    /* elements between rows that belong to nobody */
#define ALIGNED   256  /* bytes */
#define GUARD     512  /* bytes behind each tensor that belong to nobody */
#define UNTOUCHED 0xff /* bytes; in each type that is NaN */
/* A number that counts, beside inputs of about 1: what a query of one key makes of nothing but
 * rounding is less. */
#define LEAST 1e-3

static const struct attention_problem problems[] = {
	{ .batch = 1, .length = 1, .heads = 2, .kv_heads = 1 },
	{ .batch = 2, .length = 515, .heads = 8, .kv_heads = 2 },
	{ .batch = 1, .length = 1024, .heads = 4, .kv_heads = 4 },
	{ .batch = 1, .length = 640, .heads = 4, .kv_heads = 4, .sharp = 8 },
	{ .batch = 1, .length = 300, .heads = 6, .kv_heads = 1, .window = 100 },
	{ .batch = 2, .length = 700, .heads = 4, .kv_heads = 2, .documents = 1 },
	{ .batch = 1,
	  .length = 515,
	  .heads = 4,
	  .kv_heads = 2,
	  .window = 200,
	  .documents = 1,
	  .softcap = 2 },
	{ .batch = 2, .length = 700, .heads = 4, .kv_heads = 2, .first = 333, .key_sums = 1 },
	{ .batch = 2, .length = 300, .heads = 4, .kv_heads = 2, .dropout = 0.2F, .scores = 1 },
	{ .batch = 1,
	  .length = 700,
	  .heads = 2,
	  .kv_heads = 1,
	  .first = 333,
	  .window = 400,
	  .dropout = 0.5F },
	{ .batch = 1, .length = 300, .heads = 4, .kv_heads = 1, .softcap = 2, .scores = 1 },
};
static const int64_t widths[] = { 64, 80, 96, 128, 256 };

/* ---- tensors --------------------------------------------------------------------- */

enum { Q, K, V, DOUT, STARTS, INPUTS, OUT = INPUTS, LSE, DQ, DK, DV, SUMS, SCORES, WORK, TENSORS };

static const char *const names[TENSORS] = {
	"q",  "k",  "v",  "dout",     "starts",     "out",  "lse",
	"dq", "dk", "dv", "key_sums", "max_scores", "work",
};

/* Rows of `width` elements, `stride` apart, `at` bytes from the first tensor. */
struct tensor {
	int32_t dtype;
	int64_t rows, width, stride;
	size_t at;
};

/* All tensors lie in one allocation: `host` is what it holds at first, `known` and `tried` what
 * kernels have made of it. */
struct job {
	const struct attention_problem *problem;
	struct zr_op_attention_bwd op; /* with addresses of `card` */
	struct tensor tensor[TENSORS];
	size_t bytes;
	char *host, *known, *tried, *card;
	struct comparison *out;
};

static size_t tensor_bytes(const struct tensor *t)
{
	return (size_t)(t->rows * t->stride) * (size_t)zr_bytes_of(t->dtype, 1);
}

static void place(struct job *j, int which, int32_t dtype, int64_t rows, int64_t width, int64_t pad)
{
	struct tensor *t = &j->tensor[which];

	*t = (struct tensor){ dtype, rows, width, width + pad, j->bytes };
	j->bytes = (j->bytes + tensor_bytes(t) + GUARD + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static void place_all(struct job *j, int32_t dtype, int64_t width, uint64_t work)
{
	const struct attention_problem *p = j->problem;
	const int64_t keys = p->batch * p->length, queries = p->batch * (p->length - p->first);

	place(j, Q, dtype, queries, p->heads * width, PAD);
	place(j, K, dtype, keys, p->kv_heads * width, PAD);
	place(j, V, dtype, keys, p->kv_heads * width, PAD);
	place(j, DOUT, dtype, queries, p->heads * width, PAD);
	place(j, STARTS, ZR_I32, keys, 1, 0);
	place(j, OUT, dtype, queries, p->heads * width, PAD);
	place(j, LSE, ZR_F32, queries * p->heads, 1, 0);
	place(j, DQ, dtype, queries, p->heads * width, PAD);
	place(j, DK, dtype, p->key_sums ? 0 : keys, p->kv_heads * width, PAD);
	place(j, DV, dtype, p->key_sums ? 0 : keys, p->kv_heads * width, PAD);
	place(j, SUMS, ZR_F32, p->key_sums ? keys : 0, 2 * p->kv_heads * width, 0);
	place(j, SCORES, ZR_F32, p->scores ? 1 : 0, p->heads, 0);
	place(j, WORK, ZR_F32, (int64_t)(work + 3) / 4, 1, 0);
}

static void *on_card(const struct job *j, int which)
{
	if (!j->tensor[which].rows)
		return NULL;
	return j->card + j->tensor[which].at;
}

static void describe(struct job *j, int32_t dtype, int64_t width)
{
	const struct attention_problem *p = j->problem;
	const float sharp = p->sharp > 0 ? p->sharp : 1;

	j->op = (struct zr_op_attention_bwd){ .size = sizeof j->op };
	j->op.fwd = (struct zr_op_attention){
		.size = sizeof j->op.fwd,
		.dtype = dtype,
		.batch = p->batch,
		.length = p->length,
		.heads = p->heads,
		.kv_heads = p->kv_heads,
		.head_dim = width,
		.first = (int32_t)p->first,
		.window = p->window,
		.softcap = p->softcap,
		.dropout = p->dropout,
		.rng = { 0x123456789abcdefu, 77, 5, 9 },
		.scale = sharp / sqrtf((float)width),
		.q_stride = p->heads * width + PAD,
		.k_stride = p->kv_heads * width + PAD,
		.v_stride = p->kv_heads * width + PAD,
		.out_stride = p->heads * width + PAD,
	};
}

static void point(struct job *j)
{
	struct zr_op_attention *o = &j->op.fwd;

	o->q = on_card(j, Q);
	o->k = on_card(j, K);
	o->v = on_card(j, V);
	o->out = on_card(j, OUT);
	o->lse = on_card(j, LSE);
	o->key_sums = on_card(j, SUMS);
	o->max_scores = on_card(j, SCORES);
	if (j->problem->documents)
		o->starts = on_card(j, STARTS);
	j->op.dout = on_card(j, DOUT);
	j->op.dq = on_card(j, DQ);
	j->op.dk = on_card(j, DK);
	j->op.dv = on_card(j, DV);
	j->op.work = on_card(j, WORK);
}

/* ---- inputs ---------------------------------------------------------------------- */

/* Numbers in [-2, 2), of which each type here has all bits. */
static void draw(const struct job *j, int which, uint64_t *state)
{
	const struct tensor *t = &j->tensor[which];
	char *to = j->host + t->at;

	for (int64_t r = 0; r < t->rows; r++)
		for (int64_t i = 0; i < t->width; i++) {
			*state = *state * 6364136223846793005u + 1442695040888963407u;
			const int drawn = (int)(*state >> 56) - 128;
			zr_put(to, r * t->stride + i, t->dtype, (float)drawn / 64);
		}
}

/* Documents of these lengths follow each other in each sequence. */
static void begin_documents(const struct job *j)
{
	static const int lengths[] = { 37, 1, 130, 64, 250 };
	const struct attention_problem *p = j->problem;
	int32_t *starts = (void *)(j->host + j->tensor[STARTS].at);

	for (int64_t b = 0; b < p->batch; b++) {
		int32_t start = 0;
		size_t n = 0;
		for (int32_t t = 0; t < p->length; t++) {
			if (t - start == lengths[n]) {
				start = t;
				n = (n + 1) % (sizeof lengths / sizeof *lengths);
			}
			starts[b * p->length + t] = start;
		}
	}
}

static void fill(const struct job *j)
{
	uint64_t state = 1;

	memset(j->host, UNTOUCHED, j->bytes);
	memset(j->host + j->tensor[SCORES].at, 0, tensor_bytes(&j->tensor[SCORES]));
	for (int which = Q; which <= DOUT; which++)
		draw(j, which, &state);
	begin_documents(j);
}

/* ---- differences ----------------------------------------------------------------- */

/* The problem, and what is wrong with it. */
static int wrong(struct job *j, const char *what)
{
	const struct attention_problem *p = j->problem;
	const struct zr_op_attention *o = &j->op.fwd;
	char options[160] = "";
	int n = 0;

	if (p->window)
		n += snprintf(options + n, sizeof options - (size_t)n, ", window %lld",
			      (long long)p->window);
	if (p->documents)
		n += snprintf(options + n, sizeof options - (size_t)n, ", documents");
	if (p->softcap > 0)
		n += snprintf(options + n, sizeof options - (size_t)n, ", soft cap %g",
			      (double)p->softcap);
	if (p->dropout > 0)
		n += snprintf(options + n, sizeof options - (size_t)n, ", dropout %g",
			      (double)p->dropout);
	if (p->first)
		snprintf(options + n, sizeof options - (size_t)n, ", queries from %lld on",
			 (long long)p->first);

	snprintf(j->out->text, sizeof j->out->text,
		 "%s, %lld x %lld tokens, %lld heads of width %lld over %lld%s: %s",
		 o->dtype == ZR_BF16 ? "bf16" : "fp16", (long long)p->batch, (long long)p->length,
		 (long long)p->heads, (long long)o->head_dim, (long long)p->kv_heads, options,
		 what);
	return -1;
}

/* Of all elements together, and of each beside its own size and the others'. Both are rounding of
 * inputs to products, with room: sequences of some hundred tokens give about half and a quarter. */
static double tolerance_of_all(int32_t dtype)
{
	return dtype == ZR_BF16 ? 6e-3 : 8e-4;
}

static double tolerance_of_each(int32_t dtype)
{
	return 20 * tolerance_of_all(dtype);
}

static int compare_tensor(struct job *j, int which)
{
	const struct tensor *t = &j->tensor[which];
	const char *x = j->tried + t->at, *y = j->known + t->at;
	const int32_t rounded = j->op.fwd.dtype;
	double difference = 0, size = 0, worst = 0;
	char text[160];

	for (int64_t r = 0; r < t->rows; r++)
		for (int64_t i = 0; i < t->width; i++) {
			const double b = (double)zr_get(y, r * t->stride + i, t->dtype);
			const double d = (double)zr_get(x, r * t->stride + i, t->dtype) - b;
			difference += d * d;
			size += b * b;
		}
	if (!t->rows)
		return 0;

	const double n = (double)(t->rows * t->width), mean = sqrt(size / n) + LEAST;
	const double share = sqrt(difference / (size + n * LEAST * LEAST));
	if (!(share <= tolerance_of_all(rounded))) { /* nor a NaN */
		snprintf(text, sizeof text, "%s differs by %.3g of its size, %.3g is allowed",
			 names[which], share, tolerance_of_all(rounded));
		return wrong(j, text);
	}
	if (share > j->out->largest)
		j->out->largest = share;

	for (int64_t r = 0; r < t->rows; r++)
		for (int64_t i = 0; i < t->width; i++) {
			const double b = (double)zr_get(y, r * t->stride + i, t->dtype);
			const double d = (double)zr_get(x, r * t->stride + i, t->dtype) - b;
			const double off = fabs(d) / (fabs(b) + mean);
			if (off <= worst)
				continue;
			worst = off;
			snprintf(text, sizeof text,
				 "%s differs at row %lld, column %lld, by %.3g of its size there",
				 names[which], (long long)r, (long long)i, off);
		}
	return worst > tolerance_of_each(rounded) ? wrong(j, text) : 0;
}

/* Whether bytes [from, to) are as they were. */
static int untouched(const struct job *j, size_t from, size_t to)
{
	return !memcmp(j->tried + from, j->host + from, to - from);
}

/* What belongs to nobody, and what is read alone. */
static int compare_rest(struct job *j)
{
	char text[80];

	for (int which = 0; which < TENSORS; which++) {
		const struct tensor *t = &j->tensor[which];
		const size_t element = (size_t)zr_bytes_of(t->dtype, 1), row = t->stride * element;
		const size_t end = t->at + tensor_bytes(t), width = (size_t)t->width * element;
		const size_t next = which + 1 < TENSORS ? t[1].at : j->bytes;
		int same = untouched(j, end, next);

		if (which < INPUTS)
			same &= untouched(j, t->at, end);
		for (size_t at = t->at; which != WORK && at < end; at += row)
			same &= untouched(j, at + width, at + row);
		if (!same) {
			snprintf(text, sizeof text, "bytes in or behind %s are overwritten",
				 names[which]);
			return wrong(j, text);
		}
	}
	return 0;
}

/* ---- one problem ----------------------------------------------------------------- */

static int failed(struct job *j, cudaError_t e, const char *what)
{
	char text[200];

	if (e == cudaSuccess)
		return 0;
	snprintf(text, sizeof text, "%s: %s", what, cudaGetErrorString(e));
	return wrong(j, text);
}

/* Forward and backward by k; to: what all tensors are afterwards. */
static int compute(struct job *j, const struct attention_kernels *k, char *to)
{
	int rc = failed(j, cudaMemcpy(j->card, j->host, j->bytes, cudaMemcpyDefault),
			"copying to the GPU");
	if (!rc)
		rc = failed(j, k->forward(&j->op.fwd, NULL), "the forward does not start");
	if (!rc)
		rc = failed(j, cudaDeviceSynchronize(), "the forward");
	if (!rc)
		rc = failed(j, k->backward(&j->op, NULL), "the backward does not start");
	if (!rc)
		rc = failed(j, cudaDeviceSynchronize(), "the backward");
	if (!rc)
		rc = failed(j, cudaMemcpy(to, j->card, j->bytes, cudaMemcpyDefault),
			    "copying from the GPU");
	return rc;
}

/* Whether the results of `tried` are those of the first time, which are in `first`. */
static int same_again(struct job *j, const char *first)
{
	const size_t from = j->tensor[INPUTS].at;

	if (!memcmp(j->tried + from, first + from, j->tensor[WORK].at - from))
		return 0;
	return wrong(j, "the bits are others when it is computed again");
}

static int run(struct job *j, const struct attention_kernels *tried,
	       const struct attention_kernels *known, char *first)
{
	fill(j);
	point(j);
	if (!tried->takes(&j->op.fwd) || !tried->takes_bwd(&j->op))
		return wrong(j, "the kernels do not take it");

	int rc = compute(j, known, j->known);
	if (!rc)
		rc = compute(j, tried, j->tried);
	if (!rc)
		memcpy(first, j->tried, j->bytes);
	for (int i = 1; !rc && i < TIMES; i++) {
		rc = compute(j, tried, j->tried);
		if (!rc)
			rc = same_again(j, first);
	}

	for (int which = OUT; !rc && which < WORK; which++)
		rc = compare_tensor(j, which);
	if (!rc)
		rc = compare_rest(j);
	return rc;
}

int compare_attention(const struct attention_kernels *tried, const struct attention_kernels *known,
		      const struct attention_problem *problem, int32_t dtype, int64_t width,
		      struct comparison *out)
{
	struct job j = { .problem = problem, .out = out };
	void *card = NULL;
	int rc;

	describe(&j, dtype, width);
	const uint64_t one = tried->work(&j.op), other = known->work(&j.op);
	place_all(&j, dtype, width, one > other ? one : other);

	char *all = malloc(4 * j.bytes);
	if (!all)
		return wrong(&j, "no memory on the host");

	j.host = all;
	j.known = all + j.bytes;
	j.tried = all + 2 * j.bytes;
	rc = failed(&j, cudaMalloc(&card, j.bytes), "allocating its tensors");
	j.card = card;
	if (!rc)
		rc = run(&j, tried, known, all + 3 * j.bytes);
	if (!rc)
		out->problems++;
	if (card)
		cudaFree(card);
	free(all);
	return rc;
}

int compare_attentions(const struct attention_kernels *tried, const struct attention_kernels *known,
		       struct comparison *out)
{
	static const int32_t types[] = { ZR_BF16, ZR_F16 };

	for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
		for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
			for (size_t t = 0; t < sizeof types / sizeof *types; t++)
				if (compare_attention(tried, known, &problems[i], types[t],
						      widths[w], out))
					return -1;
	return 0;
}
