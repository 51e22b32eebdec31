/* SPDX-License-Identifier: Apache-2.0
 *
 * setup_layers.c - how many bytes each layer needs, of a micro-batch or of a slice of it.
 */
#include <stdlib.h>

#include "core/base/numbers.h"
#include "core/model/declared.h"
#include "core/setup.h"

/* How far apart slices have what is not of whole rows. */
static uint64_t apart(uint64_t bytes)
{
	return zr_up(bytes, 64);
}

/* Behind what its slices saved: keys; or by heads what attention reads and gives of some heads,
 * what it gives of all, and what it keeps. */
static uint64_t kept_behind(const struct zr_slices *z, const struct zr_layer_bytes *one)
{
	const uint64_t n = (uint64_t)z->here;

	if (!z->by_heads)
		return apart(n * one->keys);
	return apart(n * one->keys) + 2 * apart(n * one->attended) +
	       (uint64_t)z->n * apart(one->attend_kept);
}

/* What a rank has of all its slices; they are computed in the same scratch, one by one. */
static struct zr_layer_bytes of_all_slices(const struct zr_slices *z,
					   const struct zr_layer_bytes *one)
{
	const uint64_t n = (uint64_t)z->here;
	struct zr_layer_bytes all = *one;

	all.rows_of = 0;
	all.out = n * apart(one->out);
	all.saved = n * apart(one->saved) + kept_behind(z, one);
	all.grad = n * apart(one->grad);
	return all;
}

static int is_too_much(const struct zr_layer_bytes *b)
{
	/* sums over all layers fit, too */
	return (b->out | b->saved | b->work_fwd | b->work_bwd | b->grad | b->key_sums) >> 46 != 0;
}

/* Whether its sums are in its output, where doubles can be. */
static int has_its_sums(const struct zr_layer_bytes *b)
{
	if (!b->sums)
		return 1;
	if (b->sums_at % sizeof(double) || b->sums % sizeof(double))
		return 0;
	return b->sums <= b->out && b->sums_at <= b->out - b->sums;
}

/* lean: as one that is computed again, if the model can. */
static int size_layer(struct zr_setup *s, uint32_t i, int lean, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	const int64_t rows = zr_sliced(&f->slices) ? f->slices.rows : f->batch.length;
	struct zr_layer_bytes b = { .size = sizeof b,
				    .wants_lean = (uint32_t)lean,
				    .touching = (uint32_t)f->units_whole };
	int rc = ZR_ASK(zr_model_of(&s->roles), model, bytes, err, (int32_t)i, f->batch.micro, rows,
			f->types.dtype, s->roles.ops, &b);
	if (rc)
		return rc;

	f->layer_bytes[i] = b;
	if (zr_sliced(&f->slices)) {
		f->slice_bytes[i] = b;
		f->layer_bytes[i] = of_all_slices(&f->slices, &b);
	}
	if (!has_its_sums(&b))
		return zr_err(err, ZR_EINVAL, "layer %u: its sums lie outside of its output", i);
	if (!is_too_much(&b) && !is_too_much(&f->layer_bytes[i]))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "layer %u needs over 64 TiB a micro-batch; lower [train] micro_batch_size",
		      i);
}

int zr_setup_size_layers(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	int rc = 0;

	f->layer_bytes = calloc(f->decl.n_layers, sizeof *f->layer_bytes);
	f->slice_bytes = calloc(f->decl.n_layers, sizeof *f->slice_bytes);
	if (!f->layer_bytes || !f->slice_bytes)
		return zr_err(err, ZR_ENOMEM, "out of memory for %u layers", f->decl.n_layers);

	/* what a model multiplies by this fits 63 bits */
	if (f->batch.micro * f->batch.length > 1 << 28)
		return zr_err(err, ZR_EINVAL,
			      "[train] micro_batch_size x sequence_length exceeds "
			      "%d tokens; lower one",
			      1 << 28);

	for (uint32_t i = 0; !rc && i < f->decl.n_layers; i++)
		rc = size_layer(s, i, 0, err);
	return rc;
}

int zr_setup_size_dropped(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_act_choice *act = s->programs.act;
	int rc = 0;

	for (uint32_t i = 0; !rc && i < s->facts.decl.n_layers; i++)
		if (act[i].saved == ZR_ACT_RECOMPUTE && act[i].out != ZR_ACT_RECOMPUTE)
			rc = size_layer(s, i, 1, err);
	return rc;
}

static int is_cut(const struct zr_model_decl *m, int32_t layer)
{
	return zr_declared_cut(m, zr_layer_at(m, layer)) != ZR_CUT_WHOLE;
}

/* Whether the model divides heads, where that is asked for. */
static int choose_heads(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;

	f->slices.by_heads &= f->decl.by_heads;
	if (f->slices.ranks == 1 || f->slices.by_heads || f->train->sequence != ZR_SEQUENCE_HEADS)
		return 0;
	return zr_config_blame(
		s->cfg, "train", ZR_EINVAL, err,
		"sequence = heads: sequence_ranks = %d does not divide the key heads "
		"of the model; take fewer ranks, or keys",
		f->slices.ranks);
}

int zr_setup_check_cuts(struct zr_setup *s, struct zr_error *err)
{
	const struct zr_setup_facts *f = &s->facts;

	const int32_t n = (int32_t)f->decl.n_layers;
	int32_t i = 0;

	while (i < n && is_cut(&f->decl, i))
		i++;
	if (i == n || !zr_sliced(&f->slices))
		return choose_heads(s, err);
	return zr_config_blame(s->cfg, "train", ZR_ENOTSUP, err,
			       "slices = %d: model %s computes layer %s whole, not slice by slice; "
			       "set slices = 1, or take another model",
			       f->slices.n, s->roles.model.section->plugin->desc->id,
			       zr_layer_at(&f->decl, i)->name);
}
