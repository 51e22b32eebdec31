/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tokenizer.c - tokenizer.json, and a text through what was read; the same with tokens that
 * are added.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/tokenizer.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

static int check_ids(void *arg, const int32_t *ids, size_t n)
{
	const int64_t *size = arg;
	for (size_t i = 0; i < n; i++)
		fuzz_check(ids[i] >= 0 && ids[i] < *size);
	return 0;
}

/* What everyone does with a tokenizer that was read. */
static void use(const struct zr_tokenizer *t)
{
	static const char text[] = "It's the 1st\n\n  of 1234 <|begin_of_text|> x<mask> "
				   "\xe4\xba\xba \xff\t\r\n ''''LL";
	struct zr_error err = { 0 };
	struct zr_encoder *e;
	int64_t size = zr_tokenizer_size(t);
	const int32_t *ids;
	size_t n;
	for (int64_t i = -1; i <= size && i < 1000; i++)
		zr_tokenizer_bytes(t, i, &n);
	for (int after = 0; after < 2; after++)
		for (int k = zr_tokenizer_template(t, after, &ids, &err); k > 0; k--)
			fuzz_check(ids[k - 1] >= 0 && ids[k - 1] < size);
	err = (struct zr_error){ 0 };
	fuzz_check(!zr_encoder_open(t, check_ids, &size, &e, &err));
	int rc = zr_encode(e, text, 30, &err);
	if (!rc)
		rc = zr_encode(e, text + 30, sizeof text - 31, &err);
	if (!rc)
		rc = zr_encode_end(e, &err);
	if (rc)
		fuzz_refused(&err);
	zr_encoder_close(e);
}

/* Tokens that it had stay what they were; those that are added have the ids that were foretold. */
static void check_added(const struct zr_tokenizer *t, const struct zr_tokenizer *more,
			const char *tokens, const int32_t *id, int64_t size)
{
	struct zr_error err = { 0 };
	const char *was, *is;
	size_t n, m;

	for (int64_t i = 0; i < zr_tokenizer_size(t) && i < 1000; i++) {
		was = zr_tokenizer_bytes(t, i, &n);
		is = zr_tokenizer_bytes(more, i, &m);
		fuzz_check(!was || (is && n == m && !memcmp(was, is, n)));
	}

	fuzz_check(zr_tokenizer_size(more) == size);
	fuzz_check(!zr_tokenizer_same_ids(more, tokens, id, &err));
}

static void use_with(const struct zr_tokenizer *t, const char *path, const char *tokens)
{
	struct zr_error err = { 0 };
	struct zr_tokenizer *more;
	int64_t size, distinct;
	int32_t *id;

	if (zr_tokenizer_places(path, tokens, &id, &size, &distinct, &err)) {
		fuzz_refused(&err);
		return;
	}

	fuzz_check(!zr_tokenizer_open_with(path, tokens, &more, &err));
	check_added(t, more, tokens, id, size);
	use(more);
	zr_tokenizer_close(more);
	free(id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zr_tokenizer *t;
	struct zr_error err = { 0 };
	const char *path = fuzz_file("tokenizer.json", data, size);

	if (zr_tokenizer_open(path, &t, &err))
		return fuzz_refused(&err);

	use(t);
	use_with(t, path, "<|begin_of_text|> the <new> </new>");
	zr_tokenizer_close(t);
	fuzz_usable++;
	return 0;
}
