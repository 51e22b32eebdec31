/* SPDX-License-Identifier: Apache-2.0
 *
 * replicas.c - see checkpoint.h: masters and compute copies that every rank has whole, and shares
 * of them that each node has. Where ranks have drifted apart no one can tell which is right:
 * nothing is saved. Optimizer states are left out: where they differ, masters do an update later.
 * Persistent numbers are compared, too. Also the hashes of frozen tensors that checkpoints leave
 * out.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/numbers.h"
#include "core/memory/subgroup.h"
#include "core/persistent.h"
#include "files/checkpoint/checkpoint.h"

#define CHUNK 256 /* blocks that are fetched at a time */
#define PART  ((int32_t)(sizeof((struct zr_ckpt_word *)0)->text / 8)) /* hashes in a word */

struct hashing {
	struct zr_session *s;
	XXH3_state_t *hash;
	char *chunk; /* of fp32, twice */
	/* [2 * n_tensors] of master and copy that are here; 0: no other rank has it */
	uint64_t *of;
};

/* Over which group a tensor's master, or its copy, is split; each such group has all of it. */
static int32_t group_of(const struct zr_setup *p, int32_t tensor, int copy)
{
	const struct zr_groups *g = &p->facts.groups[p->facts.layout.tensor[tensor].unit];
	return copy ? g->param : g->state;
}

/* The first rank that should have what rank r has of what each rank, or each node, has. */
static int32_t twin(const struct zr_ckpt_word *words, int32_t r, int32_t group)
{
	int32_t k = 0;
	while (group == ZR_GROUP_NODE && words[k].done != words[r].done)
		k++;
	return k;
}

/* The tensor's blocks [at, at + n): its master, or the compute copy. Behind the last element of
 * what an update writes is what was in the buffers that it passed through. */
static int hash_blocks(const struct hashing *h, int32_t tensor, int copy, int64_t at, int64_t n,
		       struct zr_error *err)
{
	struct zr_session *s = h->s;
	const struct zr_setup *p = s->setup;
	const struct zr_place *t = &p->facts.layout.tensor[tensor];
	uint64_t block = ZR_BLOCK * 4;
	const void *data;

	if (copy) {
		struct zr_spot spot = p->plan.unit[t->unit].param;
		struct zr_share share = zr_unit_share(
			&p->facts, t->unit, p->facts.groups[t->unit].param, p->facts.process.rank);
		block = zr_unit_block(&p->facts, t->unit);
		spot.at += (uint64_t)(t->offset / ZR_BLOCK + at - share.first) * block;
		data = zr_spot_get(s, spot, (uint64_t)n * block, h->chunk, err);
	} else {
		struct zr_ckpt_entry e = {
			.tensor = tensor, .state = -1, .blocks = t->blocks, .elements = t->elements
		};
		data = zr_entry_get(s, &e, at, n, h->chunk, h->chunk + CHUNK * ZR_BLOCK * 4, err);
	}

	if (!data)
		return err->code;

	int64_t left = t->elements - at * ZR_BLOCK;
	uint64_t bytes = (uint64_t)n * block;
	if (!p->facts.frozen[tensor] && left < n * ZR_BLOCK)
		bytes = (uint64_t)left * (block / ZR_BLOCK);
	XXH3_64bits_update(h->hash, data, bytes);
	return 0;
}

static int hash_tensor(const struct hashing *h, int32_t tensor, int copy, struct zr_error *err)
{
	const struct zr_setup *p = h->s->setup;
	const struct zr_place *t = &p->facts.layout.tensor[tensor];
	int32_t group = group_of(p, tensor, copy);
	struct zr_share share = zr_unit_share(&p->facts, t->unit, group, p->facts.process.rank);
	int64_t at = share.first - t->offset / ZR_BLOCK, end = at + share.n;
	int is_master = copy && group == group_of(p, tensor, 0) &&
			!zr_has_datum(p, t->unit, ZR_D_LOWP);
	int rc = 0;

	if (is_master || zr_group_ranks(&p->facts, group) == p->facts.process.world ||
	    (!copy && p->facts.frozen[tensor] > 1))
		return 0;

	XXH3_64bits_reset(h->hash);
	zr_intersect(0, t->blocks, &at, &end);
	for (int64_t n; !rc && at < end; at += n) {
		n = end - at;
		if (n > CHUNK)
			n = CHUNK;
		rc = hash_blocks(h, tensor, copy, at, n, err);
	}

	h->of[2 * tensor + copy] = XXH3_64bits_digest(h->hash);
	return rc;
}

/* The hash of a tensor that all ranks exchanged, its `at`-th of this part: the first rank that has
 * another than those it should be equal to is refused. */
static int compare_one(const struct hashing *h, const struct zr_ckpt_word *words, int32_t hash,
		       struct zr_error *err)
{
	const struct zr_setup *p = h->s->setup;
	const struct zr_place *t = &p->facts.layout.tensor[hash / 2];
	const int32_t group = group_of(p, hash / 2, hash % 2), at = hash % PART * 8;

	for (int32_t r = 1; r < p->facts.process.world; r++) {
		int32_t k = twin(words, r, group);
		if (memcmp(words[r].text + at, words[k].text + at, 8))
			return zr_err(err, ZR_EIO,
				      "step %lld: tensor %s (unit %s) of rank "
				      "%d is not that of rank %d: ranks have drifted "
				      "apart, so this step is not saved; go on from an "
				      "earlier checkpoint with --resume",
				      (long long)h->s->step, t->decl->name,
				      p->facts.layout.unit[t->unit].name, r, k);
	}

	return 0;
}

/* Of all ranks, a part of the tensors at a time: the first that differs. */
static int compare(const struct hashing *h, struct zr_ckpt_word *mine, struct zr_ckpt_word *words,
		   const struct zr_ckpt_word **bad, struct zr_error *err)
{
	const int32_t hashes = 2 * h->s->setup->facts.layout.n_tensors;
	int rc = 0;

	for (int32_t i = 0; !rc && i < hashes; i++) {
		if (i % PART == 0) {
			if (!mine->code)
				memcpy(mine->text, h->of + i, (size_t)PART * 8);
			rc = zr_ckpt_share(h->s, mine, words, bad, err);
			if (rc || *bad)
				return rc;
		}

		rc = compare_one(h, words, i, err);
	}

	return rc;
}

/* The persistent numbers, which the model has written on each rank. */
static int compare_persistent(struct zr_session *s, struct zr_ckpt_word *words,
			      const struct zr_ckpt_word **bad, struct zr_error *err)
{
	const size_t bytes = (size_t)s->setup->facts.layout.persistent * sizeof(float);
	if (!bytes)
		return 0;

	struct zr_ckpt_word mine = { .done = (int64_t)XXH3_64bits(zr_persistent_at(s), bytes) };
	int rc = zr_ckpt_share(s, &mine, words, bad, err);
	if (rc || *bad)
		return rc;

	for (int32_t r = 1; r < s->setup->facts.process.world; r++) {
		if (words[r].done == words[0].done)
			continue;
		return zr_err(err, ZR_EIO,
			      "step %lld: persistent numbers of rank %d are not those of rank 0: "
			      "ranks have drifted apart, so this step is not saved; function renew "
			      "of [model] %s has to write the same on all",
			      (long long)s->step, r,
			      s->setup->roles.model.section->plugin->desc->id);
	}

	return 0;
}

int zr_replicas_compare(struct zr_session *s, struct zr_ckpt_word *words,
			const struct zr_ckpt_word **bad, struct zr_error *err)
{
	const struct zr_axis *node = &s->setup->facts.mesh.group[ZR_GROUP_NODE];
	struct zr_ckpt_word mine = { .done = (int64_t)node->rank << 32 | node->n };
	struct zr_error why = { 0 };
	int32_t tensors = s->setup->facts.layout.n_tensors, no = 0;

	*bad = NULL;
	if (s->setup->facts.process.world == 1)
		return 0;

	struct hashing h = { s, XXH3_createState(), malloc(2 * CHUNK * ZR_BLOCK * 4),
			     calloc(2 * (size_t)tensors + PART, 8) };
	if (!h.hash || !h.chunk || !h.of)
		no = zr_err(&why, ZR_ENOMEM, "out of memory for hashes of what all ranks have");
	for (int32_t i = 0; !no && i < 2 * tensors; i++)
		no = hash_tensor(&h, i / 2, i % 2, &why);
	if (no)
		zr_ckpt_say(&mine, &why);
	int rc = compare(&h, &mine, words, bad, err);
	if (!rc && !*bad)
		rc = compare_persistent(s, words, bad, err);
	XXH3_freeState(h.hash);
	free(h.chunk);
	free(h.of);
	return rc;
}

/* ---- tensors that are left out ---- */

static int hash_values(void *arg, const struct zr_place *t, int64_t first, int64_t n,
		       const float *x)
{
	struct hashing *h = arg;
	int64_t i = t - h->s->setup->facts.layout.tensor;
	if (!h->s->setup->facts.frozen[i])
		return 0;
	if (first == 0)
		XXH3_64bits_reset(h->hash);
	XXH3_64bits_update(h->hash, x, (size_t)n * sizeof *x);
	if (first + n == t->elements)
		h->s->frozen_hash[i] = XXH3_64bits_digest(h->hash);

	return 0;
}

int zr_checkpoint_leave_out(struct zr_session *s, struct zr_error *err)
{
	struct hashing h = { .s = s, .hash = XXH3_createState() };

	s->frozen_hash =
		calloc((size_t)s->setup->facts.layout.n_tensors + 1, sizeof *s->frozen_hash);
	int rc;
	if (s->frozen_hash && h.hash)
		rc = zr_session_masters(s, hash_values, &h, err);
	else
		rc = zr_no_memory(err);
	XXH3_freeState(h.hash);
	return rc;
}
