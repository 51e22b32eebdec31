/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c - the batch triple: train_batch_size = micro_batch_size * gradient_accumulation_steps *
 * ranks. Two are given and the third derived; with only train_batch_size or only micro_batch_size
 * nothing accumulates.
 */
#include "core/config/batch.h"

#include <math.h>
#include <string.h>

enum { TRAIN, MICRO, STEPS, ALL };
static const char *const key[ALL] = { "train_batch_size", "micro_batch_size",
				      "gradient_accumulation_steps" };

/* The one of n that is 0 follows from the others. */
static int derive(const struct zr_config *cfg, int64_t n[ALL], int64_t data_ranks,
		  struct zr_error *err)
{
	int from = n[MICRO] ? MICRO : STEPS, to = from == MICRO ? STEPS : MICRO;
	const char *s = data_ranks == 1 ? "" : "s";
	if (!n[TRAIN])
		n[TRAIN] = n[MICRO] * n[STEPS] * data_ranks;
	if (!n[to] && n[TRAIN] % (n[from] * data_ranks))
		return zr_config_blame(cfg, "train", ZR_EINVAL, err,
				       "train_batch_size = %lld is "
				       "not a multiple of %s = %lld times %lld rank%s; change one "
				       "of them",
				       (long long)n[TRAIN], key[from], (long long)n[from],
				       (long long)data_ranks, s);
	if (!n[to])
		n[to] = n[TRAIN] / (n[from] * data_ranks);
	if (n[TRAIN] == n[MICRO] * n[STEPS] * data_ranks)
		return 0;
	return zr_config_blame(cfg, "train", ZR_EINVAL, err,
			       "train_batch_size = %lld, but "
			       "micro_batch_size %lld x gradient_accumulation_steps %lld x %lld "
			       "rank%s = %lld; drop one of the three to have it derived",
			       (long long)n[TRAIN], (long long)n[MICRO], (long long)n[STEPS],
			       (long long)data_ranks, s,
			       (long long)(n[MICRO] * n[STEPS] * data_ranks));
}

int zr_train_derive(struct zr_config *cfg, const char *key, uint64_t given, int64_t value,
		    struct zr_error *err)
{
	char text[32];
	snprintf(text, sizeof text, "%lld", (long long)value);
	if (given == ZR_AUTO_COUNT)
		return zr_config_set_auto(cfg, "train", key, text, err);
	return 0;
}

/* Whether a value is somebody's own, by its source. */
static int is_given(const char *where)
{
	return strcmp(where, "default") && strcmp(where, "auto");
}

int zr_epochs_resolve(struct zr_config *cfg, const struct zr_train_opts *t, int64_t sequences,
		      int64_t per_step, struct zr_error *err)
{
	const double all = t->epochs * (double)sequences / (double)per_step;
	const double steps = ceil(all * (1 - 1e-12)); /* 0.1 * 30 exceeds 3 */
	const char *where = zr_config_source(cfg, "train", "steps");
	if (!(t->epochs > 0))
		return 0;
	if (!sequences)
		return zr_config_blame(cfg, "train", ZR_EINVAL, err,
				       "epochs: the data does not "
				       "say how many sequences it has: give steps instead");
	if (is_given(where) && steps != (double)t->steps)
		return zr_err(err, ZR_EINVAL,
			      "%s: steps = %llu, but epochs = %g of %lld sequences "
			      "are %.0f steps; give one of the two",
			      where, (unsigned long long)t->steps, t->epochs, (long long)sequences,
			      steps);
	return zr_train_derive(cfg, "steps", ZR_AUTO_COUNT, (int64_t)steps, err);
}

/* The steps that are `share` of the run, as transformers rounds: in double precision, up. */
static int resolve_share(struct zr_config *cfg, const char *section, const char *key, double share,
			 uint64_t steps, uint64_t given, struct zr_error *err)
{
	const char *where = zr_config_source(cfg, section, key);
	const uint64_t every = (uint64_t)ceil((double)steps * share);
	char text[32];
	if (!(share > 0))
		return 0;
	if (is_given(where) && every != given)
		return zr_err(err, ZR_EINVAL,
			      "%s: %s = %llu, but %s_ratio = %g of %llu steps are "
			      "%llu steps; give one of the two",
			      where, key, (unsigned long long)given, key, share,
			      (unsigned long long)steps, (unsigned long long)every);

	snprintf(text, sizeof text, "%llu", (unsigned long long)every);
	return zr_config_set_auto(cfg, section, key, text, err);
}

int zr_shares_resolve(struct zr_config *cfg, struct zr_error *err)
{
	const struct zr_train_opts *t = zr_config_find(cfg, "train")->opts;
	const struct zr_checkpoint_opts *c = zr_config_find(cfg, "checkpoint")->opts;
	int rc = resolve_share(cfg, "train", "eval_every", t->eval_every_ratio, t->steps,
			       t->eval_every, err);
	if (!rc)
		rc = resolve_share(cfg, "checkpoint", "every", c->every_ratio, t->steps, c->every,
				   err);
	return rc;
}

static int wrong_group(const struct zr_config *cfg, uint64_t group, const char *why,
		       struct zr_error *err)
{
	return zr_config_blame(cfg, "train", ZR_EINVAL, err, "sum_group = %llu: %s",
			       (unsigned long long)group, why);
}

/* A number of things, all ranks' micro-batches or the ranks, that the group does not divide. */
static int wrong_number(const struct zr_config *cfg, uint64_t group, const char *of, int64_t n,
			const char *ending, struct zr_error *err)
{
	char why[160];
	snprintf(why, sizeof why, "it must divide the number of %s, %lld%s", of, (long long)n,
		 ending);
	return wrong_group(cfg, group, why, err);
}

/* Trees are balanced, whole in each step, and end with a micro-batch of all ranks or within it. */
static int check_group(const struct zr_config *cfg, const struct zr_train_opts *t, int64_t ranks,
		       int64_t slots, struct zr_error *err)
{
	const int64_t group = (int64_t)t->sum_group;
	if (group == 1)
		return 0;

	const char *why = NULL;
	if (group & (group - 1) || group >> 16)
		why = "it must be a power of two, at most 32768";
	else if (t->reduction == ZR_REDUCE_LOCAL)
		why = "reduction = local adds in another order; take one of both out";
	if (why)
		return wrong_group(cfg, t->sum_group, why, err);

	if (slots % group)
		return wrong_number(cfg, t->sum_group, "all micro-batches of a step", slots, "",
				    err);
	if (ranks % group && group % ranks)
		return wrong_number(cfg, t->sum_group, "ranks", ranks, ", or be a multiple of it",
				    err);
	return 0;
}

int zr_batch_resolve(struct zr_config *cfg, const struct zr_train_opts *t, int data_ranks,
		     struct zr_batch_shape *out, struct zr_error *err)
{
	const uint64_t given[ALL] = { t->train_batch_size, t->micro_batch_size,
				      t->gradient_accumulation_steps };
	int64_t n[ALL];
	for (int i = 0; i < ALL; i++)
		n[i] = given[i] == ZR_AUTO_COUNT ? 0 : (int64_t)given[i];
	if (!n[TRAIN] && !n[MICRO])
		return zr_err(err, ZR_EINVAL,
			      "[train] needs two of train_batch_size, "
			      "micro_batch_size and gradient_accumulation_steps (the third is "
			      "derived); found %s",
			      n[STEPS] ? "only gradient_accumulation_steps" : "none");
	if (!n[STEPS] && (!n[TRAIN] || !n[MICRO]))
		n[STEPS] = 1;
	int rc = derive(cfg, n, data_ranks, err);
	*out = (struct zr_batch_shape){ n[TRAIN], n[MICRO], n[STEPS], n[STEPS] * data_ranks,
					out->length };
	for (int i = 0; !rc && i < ALL; i++)
		rc = zr_train_derive(cfg, key[i], given[i], n[i], err);
	if (!rc)
		rc = check_group(cfg, t, data_ranks, out->slots, err);
	return rc;
}
