/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tokenizer.c - tokenizer.json, and a text through what was read.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zr_tokenizer *t;
	struct zr_error err = { 0 };
	if (zr_tokenizer_open(fuzz_file("tokenizer.json", data, size), &t, &err))
		return fuzz_refused(&err);
	use(t);
	zr_tokenizer_close(t);
	fuzz_usable++;
	return 0;
}
