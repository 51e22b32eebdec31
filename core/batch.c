/* SPDX-License-Identifier: Apache-2.0
 *
 * batch.c - the batch triple: train_batch_size = micro_batch_size * gradient_accumulation_steps * ranks. Two
 * are given and the third derived; with only train_batch_size or only micro_batch_size nothing accumulates.
 */
#include <math.h>
#include <string.h>

#include "core/setup.h"

static int64_t given(uint64_t v)
{
	return v == ZR_AUTO_COUNT ? 0 : (int64_t)v;
}

static const char *source(const struct zr_config *cfg, const char *key)
{
	const char *s = zr_config_source(cfg, "train", key);
	return s ? s : "[train]";
}

static int divide(const struct zr_config *cfg, int64_t train, int64_t part, const char *part_name, int64_t world,
		  int64_t *out, struct zr_error *err)
{
	if (train % (part * world))
		return zr_err(err, ZR_EINVAL,
			      "%s: train_batch_size = %lld is not a multiple of %s = %lld times %lld rank%s; change one of them",
			      source(cfg, "train_batch_size"), (long long)train, part_name, (long long)part, (long long)world,
			      world == 1 ? "" : "s");
	*out = train / (part * world);
	return 0;
}

int zr_train_derive(struct zr_config *cfg, const char *key, uint64_t given, int64_t value,
		    struct zr_error *err)
{
	char text[32];
	snprintf(text, sizeof text, "%lld", (long long)value);
	return given == ZR_AUTO_COUNT ? zr_config_set_auto(cfg, "train", key, text, err) : 0;
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
		return zr_config_blame(cfg, "train", ZR_EINVAL, err, "epochs: the data does not "
				       "say how many sequences it has: give steps instead");
	if (strcmp(where, "default") && strcmp(where, "auto") && steps != (double)t->steps)
		return zr_err(err, ZR_EINVAL, "%s: steps = %llu, but epochs = %g of %lld sequences "
			      "are %.0f steps; give one of the two", where,
			      (unsigned long long)t->steps, t->epochs, (long long)sequences, steps);
	return zr_train_derive(cfg, "steps", ZR_AUTO_COUNT, (int64_t)steps, err);
}

int zr_batch_resolve(struct zr_config *cfg, const struct zr_train_opts *t, int world, struct zr_batch_shape *out,
		     struct zr_error *err)
{
	int64_t train = given(t->train_batch_size), micro = given(t->micro_batch_size);
	int64_t steps = given(t->gradient_accumulation_steps);
	int rc = 0;
	if (!train && !micro)
		return zr_err(err, ZR_EINVAL,
			      "[train] needs two of train_batch_size, micro_batch_size and gradient_accumulation_steps "
			      "(the third is derived); found %s",
			      steps ? "only gradient_accumulation_steps" : "none");
	if (!steps && (!train || !micro))
		steps = 1;
	if (!train)
		train = micro * steps * world;
	else if (!micro)
		rc = divide(cfg, train, steps, "gradient_accumulation_steps", world, &micro, err);
	else if (!steps)
		rc = divide(cfg, train, micro, "micro_batch_size", world, &steps, err);
	if (rc)
		return rc;
	if (train != micro * steps * world)
		return zr_err(err, ZR_EINVAL,
			      "%s: train_batch_size = %lld, but micro_batch_size %lld x gradient_accumulation_steps %lld x %d "
			      "rank%s = %lld; drop one of the three to have it derived",
			      source(cfg, "train_batch_size"), (long long)train, (long long)micro, (long long)steps, world,
			      world == 1 ? "" : "s", (long long)(micro * steps * world));
	out->train = train;
	out->micro = micro;
	out->accumulation = steps;
	out->slots = steps * world;
	rc = zr_train_derive(cfg, "train_batch_size", t->train_batch_size, train, err);
	rc = rc ? rc : zr_train_derive(cfg, "micro_batch_size", t->micro_batch_size, micro, err);
	return rc ? rc : zr_train_derive(cfg, "gradient_accumulation_steps",
					 t->gradient_accumulation_steps, steps, err);
}
