/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_text.c - text and .gz: by data/text, and as `zeroth tokenize` reads them. Both see the same
 * bytes.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/data.h>
#ifdef HAVE_ZLIB
#include <zlib.h>
#endif

#include "files/chat/input.h"
#include "fuzz.h"
#include "tests/lib/testhost.h"

#define LENGTH 9

static struct zr_host *host;
static const struct zr_desc *desc;
static const struct zr_data_v1 *v;

static void cleanup(void)
{
	test_host_free(host);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	host = test_host(1);
	desc = test_plugin("data/text");
	v = test_iface(desc, "zr.data/1");
	atexit(cleanup);
	return 0;
}

/* The number of bytes; -1: refused. */
static int64_t by_plugin(const char *path, const char *content)
{
	struct zr_data_info info = { .size = sizeof info };
	int32_t inputs[2 * LENGTH], targets[2 * LENGTH];
	struct zr_inst *inst;
	void *opts = test_options(desc);
	int rc;
	test_clear(host);
	fuzz_check(!test_set(desc, opts, "path", path));
	fuzz_check(!test_set(desc, opts, "content", content));
	rc = test_create(host, desc, opts, &inst);
	if (rc) {
		fuzz_check(test_error_code(host) && *test_error(host));
	} else {
		fuzz_check(!v->info(inst, &info));
		for (int64_t step = 0; !rc && step < 2; step++) {
			struct zr_batch b = { .size = sizeof b,
					      .seed = 5,
					      .step = step,
					      .slots = 1,
					      .sequences = 2,
					      .length = LENGTH,
					      .inputs = inputs,
					      .targets = targets };
			rc = step ? 0 : v->prepare(inst, LENGTH, 256);
			fuzz_check(rc || !v->batch(inst, &b));
			for (int i = 0; !rc && i < 2 * LENGTH; i++)
				fuzz_check(inputs[i] >= 0 && inputs[i] < 256);
		}
		fuzz_usable += !rc;
		desc->destroy(inst);
		rc = 0;
	}
	free(opts);
	return rc ? -1 : info.train_tokens + info.val_tokens;
}

static int64_t by_command(const char *path)
{
	static char piece[65536];
	struct zr_input *in;
	struct zr_error err = { 0 };
	int64_t all = 0;
	size_t n = 1;
	int rc = zr_input_open(path, &in, &err);
	fuzz_check(!rc);
	while (!rc && n) {
		rc = zr_input_read(in, piece, sizeof piece, &n, &err);
		all += rc ? 0 : (int64_t)n;
	}
	if (rc)
		fuzz_refused(&err);
	zr_input_close(in);
	return rc ? -1 : all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int compressed = size > 1 && data[0] == 0x1f && data[1] == 0x8b;
	const char *path = fuzz_file(compressed ? "text.gz" : "text", data, size);
	int64_t text = by_plugin(path, "text"), n = by_plugin(path, "any"), m = by_command(path);
	fuzz_check(text < 0 || text == n);
	fuzz_check(n < 0 || n == m);
	fuzz_check(n >= 0 || m <= 0);
	return 0;
}

#ifdef HAVE_ZLIB
/* Every other time what is compressed is damaged. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
	static uint8_t plain[65536];
	z_stream z = { .next_in = data,
		       .avail_in = (unsigned)size,
		       .next_out = plain,
		       .avail_out = sizeof plain / 2 };
	if (seed % 2 || size < 18 || room < 18 || data[0] != 0x1f ||
	    inflateInit2(&z, 15 + 16) != Z_OK)
		return LLVMFuzzerMutate(data, size, room);
	int code = inflate(&z, Z_FINISH);
	size_t n = z.total_out;
	inflateEnd(&z);
	if (code != Z_STREAM_END)
		return LLVMFuzzerMutate(data, size, room);
	n = LLVMFuzzerMutate(plain, n, sizeof plain);
	z = (z_stream){ .next_in = plain,
			.avail_in = (unsigned)n,
			.next_out = data,
			.avail_out = (unsigned)room };
	fuzz_check(deflateInit2(&z, (int)(seed / 2 % 10), Z_DEFLATED, 15 + 16, 8,
				Z_DEFAULT_STRATEGY) == Z_OK);
	deflate(&z, Z_FINISH);
	n = z.total_out;
	deflateEnd(&z);
	return n;
}
#endif
