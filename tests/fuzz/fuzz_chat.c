/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_chat.c - lines of JSON as conversations. A document is the same again, and a token is
 * learned if it has a byte of what is learned. Behind the line come 5 bytes: the template, what is
 * learned, other names of fields, the most tokens, and whether a system message is given.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/chat/parts.h"
#include "fuzz.h"

#define MOST 64 /* templates */

static struct zr_chat_options options;
static struct zr_chat_setup setup[MOST]; /* as --template NAME has it */
static struct zr_tokenizer *tokenizer;
static struct zr_chat_encoder encoder;
static size_t templates; /* 0: this build has no tokenizer */

static void cleanup(void)
{
	for (size_t i = 0; i < templates; i++)
		zr_chat_setup_free(&setup[i]);
	zr_chat_encoder_close(&encoder);
	zr_tokenizer_close(tokenizer);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char path[4096];
	struct zr_error err = { 0 };
	const char *name;
	(void)argc, (void)argv;
	fuzz_quiet();
	snprintf(path, sizeof path, "%s", fuzz_golden_path("chat/bytes.json"));
	options = (struct zr_chat_options){ .tokenizer = path, .bos = "<s>", .eos = "</s>" };
	atexit(cleanup);
	if (zr_tokenizer_open(path, &tokenizer, &err)) {
		fuzz_check(strstr(err.text, "this build")); /* lacks a library */
		return 0;
	}
	encoder.o = &options;
	encoder.t = tokenizer;
	for (size_t i = 0; i < MOST && (name = zr_chat_template_name(i)); i++) {
		options.template = name;
		fuzz_check(!zr_chat_prepare(&options, encoder.t, &setup[i], &err));
		templates = i + 1;
	}
	return 0;
}

static const int32_t *ids(void)
{
	return (const int32_t *)(const void *)encoder.ids.p;
}

/* Whether bytes [from, to) of the text have one of what is learned. */
static int is_learned(size_t from, size_t to)
{
	const struct zr_chat_text *text = &encoder.text;
	for (size_t i = 0; i < text->n; i++)
		if (from < text->span[i].to && to > text->span[i].from)
			return 1;
	return 0;
}

/* Not what is normalized, and not two tokens that take the white space beside them. */
static int is_kept(const struct zr_buf *text)
{
	for (size_t i = 0; i < text->n; i++)
		if ((unsigned char)text->p[i] >= 0x80)
			return 0;
	return !memmem(text->p, text->n, "<mask>", 6) && !memmem(text->p, text->n, "<right>", 7);
}

/* The tokens are the bytes of what a template wrote. */
static void compare_bytes(void)
{
	const struct zr_buf *text = &encoder.text.text;
	int all = encoder.s->train_on == ZR_TRAIN_ALL;
	size_t at = 0, n;
	if (encoder.c.plain || !is_kept(text))
		return;
	for (size_t i = 0; i < encoder.learned.n; i++, at += n) {
		const char *p = zr_tokenizer_bytes(encoder.t, ids()[i], &n);
		fuzz_check(p && n <= text->n - at && !memcmp(text->p + at, p, n));
		fuzz_check(encoder.learned.p[i] == (all || is_learned(at, at + n)));
	}
	fuzz_check(at == text->n);
}

static void check_document(void)
{
	int64_t targets = 0;
	size_t n = encoder.learned.n;
	fuzz_check(n && encoder.ids.n == n * sizeof(int32_t));
	fuzz_check(!options.max_length || (int64_t)n <= options.max_length);
	for (size_t i = 0; i < n; i++) {
		fuzz_check(ids()[i] >= 0 && ids()[i] < zr_tokenizer_size(encoder.t));
		fuzz_check((encoder.learned.p[i] & ~1) == 0);
		targets += i && encoder.learned.p[i];
	}
	fuzz_check(targets && targets == encoder.targets);
	compare_bytes();
}

static int encode(const uint8_t *line, size_t size)
{
	struct zr_error err = { 0 };
	int rc = zr_chat_encode(&encoder, (const char *)line, size, &err);
	fuzz_check(!rc == !err.code);
	if (rc) {
		fuzz_check(rc == ZR_EINVAL && encoder.reason >= 0);
		fuzz_check(encoder.reason < ZR_CHAT_REASONS);
		fuzz_refused(&err);
	}
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "", "messages=m role=r content=c user=u assistant=a",
					     "conversations=m from=c value=v text=t",
					     "prompt=p completion=a instruction=i output=o" };
	const uint8_t *how = data + size - 5;
	if (size < 5 || size > 16384 || !templates)
		return 0;
	struct zr_chat_setup s = setup[how[0] % templates];
	struct zr_error err = { 0 };
	s.train_on = how[1] % 4;
	fuzz_check(!zr_chat_fields_set(&s.fields, names[how[2] % 4], &err));
	options.max_length = how[3];
	options.system = how[4] % 2 ? "given" : NULL;
	encoder.s = &s;
	int rc = encode(data, size - 5);
	if (rc)
		return 0;
	check_document();
	size_t n = encoder.ids.n;
	int32_t *before = malloc(n);
	fuzz_check(before);
	memcpy(before, encoder.ids.p, n);
	fuzz_check(!encode(data, size - 5) && encoder.ids.n == n);
	fuzz_check(!memcmp(before, encoder.ids.p, n));
	free(before);
	fuzz_usable++;
	return 0;
}
