/* SPDX-License-Identifier: Apache-2.0
 *
 * slices.c - see slices.h.
 */
#include "core/model/slices.h"

#include "core/config/batch.h"

int zr_slice_runs(const struct zr_slices *z, int32_t rank, struct zr_slice_run run[2])
{
	const int32_t half = z->here / 2;

	if (z->ranks == 1) {
		run[0] = (struct zr_slice_run){ 0, z->n };
		return 1;
	}
	if (z->here == 1) {
		run[0] = (struct zr_slice_run){ zr_slice_of_leaf(z, rank), 1 };
		return 1;
	}

	run[0] = (struct zr_slice_run){ rank * half, half };
	run[1] = (struct zr_slice_run){ z->n - (rank + 1) * half, half };
	return 2;
}

int32_t zr_slice_at(const struct zr_slices *z, int32_t i)
{
	struct zr_slice_run run[2] = { { 0 } };

	zr_slice_runs(z, z->rank, run);
	if (i < run[0].n)
		return run[0].first + i;
	return run[1].first + i - run[0].n;
}

int32_t zr_slice_place(const struct zr_slices *z, int32_t slice)
{
	struct zr_slice_run run[2] = { { 0 } };
	const int n = zr_slice_runs(z, z->rank, run);

	if (n == 1 || slice < run[1].first)
		return slice - run[0].first;
	return slice - run[1].first + run[0].n;
}

static int is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static int refuse(const struct zr_config *cfg, const char *key, uint64_t value, const char *why,
		  struct zr_error *err)
{
	return zr_config_blame(cfg, "train", ZR_EINVAL, err, "%s = %llu: %s", key,
			       (unsigned long long)value, why);
}

/* The smallest number of slices that so many ranks can share. */
static uint64_t fewest(uint64_t ranks)
{
	uint64_t n = 2;
	while (n < ranks)
		n *= 2;
	return n;
}

static int check_ranks(const struct zr_config *cfg, const struct zr_train_opts *t, int32_t ranks,
		       struct zr_error *err)
{
	const uint64_t share = t->sequence_ranks;
	char why[160];

	if (share == 1)
		return 0;
	if (!is_power_of_two(share))
		return refuse(cfg, "sequence_ranks", share, "it must be a power of two", err);
	if (t->slices < share) {
		snprintf(why, sizeof why,
			 "each rank needs a slice: set slices to %llu or a larger power of two",
			 (unsigned long long)fewest(share));
		return refuse(cfg, "sequence_ranks", share, why, err);
	}
	if ((uint64_t)ranks % share == 0)
		return 0;

	snprintf(why, sizeof why, "it must divide the number of ranks, %d", ranks);
	return refuse(cfg, "sequence_ranks", share, why, err);
}

int zr_slices_choose(const struct zr_config *cfg, const struct zr_train_opts *t, int32_t ranks,
		     int32_t rank, struct zr_slices *out, struct zr_error *err)
{
	if (!is_power_of_two(t->slices) || t->slices > ZR_MOST_SLICES)
		return refuse(cfg, "slices", t->slices, "it must be a power of two, at most 32768",
			      err);
	if (t->slices > 1 && t->reduction == ZR_REDUCE_LOCAL)
		return refuse(cfg, "slices", t->slices,
			      "reduction = local adds in another order; take one of both out", err);
	int rc = check_ranks(cfg, t, ranks, err);
	if (rc)
		return rc;

	const int32_t share = (int32_t)t->sequence_ranks;
	*out = (struct zr_slices){ .n = (int32_t)t->slices,
				   .ranks = share,
				   .rank = rank % share,
				   .here = (int32_t)t->slices / share,
				   .by_heads = share > 1 && t->sequence != ZR_SEQUENCE_KEYS };
	return 0;
}

int zr_slices_fit(const struct zr_config *cfg, int64_t micro, int64_t length, struct zr_slices *z,
		  struct zr_error *err)
{
	char why[160];

	if (!zr_sliced(z))
		return 0;
	if (micro != 1) {
		snprintf(why, sizeof why,
			 "a micro-batch is one sequence then: set micro_batch_size = 1 (found "
			 "%lld)",
			 (long long)micro);
		return refuse(cfg, "slices", (uint64_t)z->n, why, err);
	}
	if (length % z->n) {
		snprintf(why, sizeof why, "it must divide sequence_length, %lld",
			 (long long)length);
		return refuse(cfg, "slices", (uint64_t)z->n, why, err);
	}

	z->rows = length / z->n;
	return 0;
}
