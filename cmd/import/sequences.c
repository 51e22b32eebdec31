/* SPDX-License-Identifier: Apache-2.0
 *
 * sequences.c - see import.h: sequences that ranks share. Neighbouring ranks do so in DeepSpeed
 * (Ulysses), accelerate and Axolotl, too, and a batch is counted there as here: micro-batch times
 * accumulation times ranks over those that share a sequence. Source: DeepSpeed 0.19.6,
 * accelerate 1.15, transformers 5.24, Axolotl 0.18.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/import/import.h"

#define SHARE "train.sequence_ranks"

/* What these programs call it. */
static const char *const names[] = {
	"sequence_parallel_size",
	"sequence_parallel_degree",
	"context_parallel_size",
	"parallelism_config.sp_size",
	"parallelism_config.cp_size",
	"parallelism_config.parallelism_config_sp_size",
	"parallelism_config.parallelism_config_cp_size",
};

static int is_power_of_two(long long n)
{
	return n > 0 && !(n & (n - 1));
}

int zr_import_is_shared(struct zr_import *im)
{
	for (int i = 0; i < im->n_sources; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
			const struct zr_import_kind *kind = im->source[i].kind;
			if (zr_import_number(zr_import_find(im, kind, names[k]), 1) > 1)
				return 1;
		}
	return 0;
}

IMPORT_MAP(zr_import_sequence_ranks)
{
	const double n = zr_import_number(s, 1);

	if (n <= 1)
		return zr_import_no_effect(s, "off");
	if (n > 1 << 15 || n != (double)(long long)n || !is_power_of_two((long long)n))
		return zr_import_impossible(s, "a power of two of ranks shares a sequence here");
	return zr_import_as_it_is(im, s, SHARE);
}

IMPORT_MAP(zr_import_expert_ranks)
{
	const double n = zr_import_number(s, 1);

	if (n <= 1)
		return zr_import_no_effect(s, "each rank has all experts");
	return zr_import_as_it_is(im, s, "zero.expert_ranks");
}

static struct zr_setting *origin(const struct zr_import *im)
{
	for (int i = 0; i < im->n_lines; i++)
		if (!strcmp(im->lines[i].section, "train") &&
		    !strcmp(im->lines[i].key, "sequence_ranks"))
			return im->lines[i].from;
	return NULL;
}

/* Two of a rank, an early and a late one, as later rows have more to attend to; one, where the
 * length cannot be cut into so many. */
static int put_slices(struct zr_import *im, struct zr_setting *s, long long share)
{
	const long long length = zr_import_given_count(im, "train.sequence_length");
	long long slices = 2 * share;
	char text[32];

	if (length % slices)
		slices = share;
	if (length % slices)
		return zr_import_fate(
			s, ZR_FATE_REFUSED,
			"sequences of %lld tokens are not cut into %lld parts of equal "
			"length; give them a multiple of it",
			length, share);

	snprintf(text, sizeof text, "%lld", slices);
	return zr_import_put(im, NULL, "train.slices", text, "a sequence is cut for its ranks");
}

/* A micro-batch is one sequence then; there are as many more of them. */
static int part_micro_batches(struct zr_import *im, struct zr_setting *s)
{
	const char *given = zr_import_given(im, "train.micro_batch_size");
	const long long micro = zr_import_given_count(im, "train.micro_batch_size");
	const long long steps = zr_import_given_count(im, "train.gradient_accumulation_steps");
	const long long all = zr_import_given_count(im, "train.train_batch_size");
	char text[32];

	if (given && micro == 1)
		return 0;

	int rc = zr_import_change(im, "train.micro_batch_size", "1",
				  "ranks share sequences one by one");
	if (all) /* the other two follow from it */
		zr_import_drop(im, "train.gradient_accumulation_steps");
	if (rc || all || micro < 2)
		return rc;

	snprintf(text, sizeof text, "%lld", micro * (steps ? steps : 1));
	rc = zr_import_change(im, "train.gradient_accumulation_steps", text,
			      "as many sequences as before");
	if (rc)
		return rc;
	return zr_import_differs(s, "a micro-batch is one sequence, and a step has as many more");
}

int zr_import_finish_sequences(struct zr_import *im)
{
	const long long share = zr_import_given_count(im, SHARE);
	struct zr_setting *s = origin(im);

	if (share < 2 || !s)
		return 0;

	int rc = put_slices(im, s, share);
	if (!rc)
		rc = part_micro_batches(im, s);
	return rc;
}
