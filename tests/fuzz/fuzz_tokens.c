/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tokens.c - files of tokens through data/tokens, in each of its formats.
 */
#include <stdlib.h>
#include <zeroth/data.h>

#include "fuzz.h"
#include "tests/lib/testhost.h"

#define VOCABULARY 50257
#define LENGTH     7
#define SEQUENCES  3

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
	desc = test_plugin("data/tokens");
	v = test_iface(desc, "zr.data/1");
	atexit(cleanup);
	return 0;
}

static void check_batch(const struct zr_batch *b)
{
	for (int64_t r = 0; r < SEQUENCES * LENGTH; r++) {
		fuzz_check(b->inputs[r] >= 0 && b->inputs[r] < VOCABULARY);
		fuzz_check(b->targets[r] >= (b->starts ? ZR_PADDING : 0));
		fuzz_check(b->targets[r] < VOCABULARY);
		fuzz_check(!b->starts ||
			   (b->positions[r] >= 0 && b->starts[r] + b->positions[r] == r % LENGTH));
	}
}

static void read_batches(struct zr_inst *inst, const struct zr_data_info *info)
{
	int32_t rows[4][SEQUENCES * LENGTH];
	float weights[SEQUENCES * LENGTH];
	int documents = (info->flags & ZR_DATA_DOCUMENTS) != 0;
	for (int64_t step = 0; step < 4; step++) {
		struct zr_batch b = {
			.size = sizeof b,
			.split = step % 2 && info->val_tokens ? ZR_SPLIT_VAL : ZR_SPLIT_TRAIN,
			.seed = 1,
			.step = step,
			.slots = 1,
			.sequences = SEQUENCES,
			.length = LENGTH,
			.inputs = rows[0],
			.targets = rows[1],
			.starts = documents ? rows[2] : NULL,
			.positions = documents ? rows[3] : NULL,
			.weights = documents ? weights : NULL,
		};
		double sum;
		if (v->batch(inst, &b)) {
			fuzz_check(test_error_code(host));
			return;
		}
		check_batch(&b);
		fuzz_check(!v->targets(inst, &b, &sum) && sum >= 0 && sum <= SEQUENCES * LENGTH);
	}
	fuzz_usable++;
}

static void read_as(const char *path, const char *format, int val)
{
	struct zr_data_info info = { .size = sizeof info };
	struct zr_inst *inst;
	void *opts = test_options(desc);
	test_clear(host);
	fuzz_check(!test_set(desc, opts, "path", path) && !test_set(desc, opts, "format", format));
	fuzz_check(!val || !test_set(desc, opts, "val_path", path));
	if (test_create(host, desc, opts, &inst)) {
		fuzz_check(test_error_code(host) && *test_error(host));
	} else {
		fuzz_check(!v->info(inst, &info) && info.train_tokens >= 0);
		if (!v->prepare(inst, LENGTH, VOCABULARY))
			read_batches(inst, &info);
		else
			fuzz_check(test_error_code(host) && *test_error(host));
		desc->destroy(inst);
	}
	free(opts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = fuzz_file("tokens", data, size);
	read_as(path, "auto", 0);
	read_as(path, "llmc", 1);
	read_as(path, "uint16", 1);
	read_as(path, "uint32", 0);
	return 0;
}
