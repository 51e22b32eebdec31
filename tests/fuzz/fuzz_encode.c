/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_encode.c - any bytes through good tokenizers. Where a text is cut changes nothing, and where
 * neither normalization nor added tokens change it the ids stand for the text. The last byte of an
 * input says which tokenizer and where to cut.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"
#include "fuzz.h"

#define MOST 65536

static const char *const names[] = { "gpt2",      "llama3",  "qwen2",  "gpt4",      "joined",
				     "llama2",    "mistral", "gemma",  "metaspace", "across",
				     "falcon",    "t5",      "albert", "fallback",  "bert",
				     "wordpiece", "fused" };
#define N_NAMES (sizeof names / sizeof *names)
static struct zr_tokenizer *tokenizer[N_NAMES]; /* NULL: this build cannot */

struct ids {
	int32_t id[MOST];
	size_t n;
};

static void cleanup(void)
{
	for (size_t i = 0; i < N_NAMES; i++)
		zr_tokenizer_close(tokenizer[i]);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	for (size_t i = 0; i < N_NAMES; i++) {
		char name[64];
		struct zr_error err = { 0 };
		snprintf(name, sizeof name, "tokenizers/%s.json", names[i]);
		if (zr_tokenizer_open(fuzz_golden_path(name), &tokenizer[i], &err))
			fuzz_check(strstr(err.text, "this build")); /* lacks a library */
	}
	atexit(cleanup);
	return 0;
}

static int keep(void *arg, const int32_t *ids, size_t n)
{
	struct ids *out = arg;
	fuzz_check(n <= MOST - out->n);
	memcpy(out->id + out->n, ids, n * sizeof *ids);
	out->n += n;
	return 0;
}

/* Encodes text in pieces of `step` bytes. */
static void encode(const struct zr_tokenizer *t, const char *text, size_t n, size_t step,
		   struct ids *out)
{
	struct zr_encoder *e;
	struct zr_error err = { 0 };
	int rc = 0;
	out->n = 0;
	fuzz_check(!zr_encoder_open(t, keep, out, &e, &err));
	for (size_t at = 0; !rc && at < n; at += step)
		rc = zr_encode(e, text + at, n - at < step ? n - at : step, &err);
	if (!rc)
		rc = zr_encode_end(e, &err);
	if (rc)
		fuzz_failed(__FILE__, __LINE__, err.text);
	zr_encoder_close(e);
}

/* The ids stand for the text, with what is no UTF-8 replaced. */
static void decode(const struct zr_tokenizer *t, const char *text, size_t n, const struct ids *ids)
{
	struct zr_buf raw = { 0 }, want = { 0 }, got = { 0 };
	struct zr_utf8_bad bad = { 0 };
	fuzz_check(!zr_buf_add(&raw, text, n) && !zr_utf8_lossy(&raw, 1, &want, &bad));
	for (size_t i = 0; i < ids->n; i++) {
		size_t len;
		const char *p = zr_tokenizer_bytes(t, ids->id[i], &len);
		fuzz_check(p && !zr_buf_add(&got, p, len));
	}
	fuzz_check(got.n == want.n && !memcmp(got.p ? got.p : "", want.p ? want.p : "", got.n));
	zr_buf_free(&raw);
	zr_buf_free(&want);
	zr_buf_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ids whole, pieces;
	if (!size || size > 8192)
		return 0;
	uint8_t how = data[--size];
	const struct zr_tokenizer *t = tokenizer[how % N_NAMES];
	if (!t)
		return 0;
	encode(t, (const char *)data, size, size + 1, &whole);
	encode(t, (const char *)data, size, 1 + how / N_NAMES, &pieces);
	fuzz_check(whole.n == pieces.n && !memcmp(whole.id, pieces.id, whole.n * sizeof *whole.id));
	int changed = t->model != ZR_MODEL_BPE || t->nfc || t->normalizer.n || t->split[0].prefix;
	if (!changed && !t->added[0].n && !t->added[1].n && t->n_splits == 1)
		decode(t, (const char *)data, size, &whole);
	fuzz_usable++;
	return 0;
}
