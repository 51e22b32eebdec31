/* SPDX-License-Identifier: Apache-2.0
 *
 * replicas.c - see checkpoint.h: masters and compute copies that every rank has whole, and shares
 * of copies that each node has. Where ranks have drifted apart no one can tell which is right:
 * nothing is saved. Optimizer states are left out: where they differ, masters do an update later.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/memory/piece.h"
#include "files/checkpoint/checkpoint.h"

#define CHUNK 256 /* blocks that are fetched at a time */
#define PART ((int32_t)(sizeof((struct zr_ckpt_word *)0)->text / 8)) /* hashes in a word */

struct hashing {
	struct zr_session *s;
	XXH3_state_t *hash;
	char *chunk; /* of fp32, twice */
	uint64_t *of; /* [n_tensors] of what is here; 0: no other rank has it */
};

/* Whether each node has the unit's copy, split over its ranks. */
static int by_node(const struct zr_setup *p, int32_t unit)
{
	return p->groups[unit].param == ZR_GROUP_NODE && p->process.local_world < p->process.world;
}

/* The unit's first block in this rank's copy. */
static int64_t share(const struct zr_setup *p, int32_t unit)
{
	return by_node(p, unit) ? p->process.local_rank * p->plan.unit[unit].param_per : 0;
}

/* The first rank that should have what rank r has of a unit that each rank, or each node, has. */
static int32_t twin(const struct zr_ckpt_word *words, int32_t r, int node)
{
	int32_t k = 0;
	while (node && words[k].done != words[r].done)
		k++;
	return k;
}

/* The tensor's blocks [at, at + n): its master, or the compute copy. */
static int add(const struct hashing *h, int32_t tensor, int copy, int64_t at, int64_t n)
{
	struct zr_session *s = h->s;
	const struct zr_place *t = &s->setup->layout.tensor[tensor];
	int64_t elements = (t->elements < (at + n) * ZR_BLOCK ? t->elements : (at + n) * ZR_BLOCK) - at * ZR_BLOCK;
	struct zr_ckpt_entry e = { .tensor = tensor, .state = -1, .blocks = t->blocks, .elements = t->elements };
	uint64_t block = copy ? zr_datum_bytes(s, ZR_D_LOWP) : ZR_BLOCK * 4;
	struct zr_spot spot = s->setup->plan.unit[t->unit].param;
	int rc = 0;
	spot.at += (uint64_t)(t->offset / ZR_BLOCK + at - share(s->setup, t->unit)) * block;
	const void *data = copy ? zr_spot_get(s, spot, (uint64_t)n * block, h->chunk, &rc) : zr_entry_get(s, &e, at, n, h->chunk, h->chunk + CHUNK * ZR_BLOCK * 4, &rc);
	if (!rc)
		XXH3_64bits_update(h->hash, data, (uint64_t)elements * (block / ZR_BLOCK));
	return rc;
}

static int hash_tensor(const struct hashing *h, int32_t tensor)
{
	const struct zr_setup *p = h->s->setup;
	const struct zr_place *t = &p->layout.tensor[tensor];
	const struct zr_groups *g = &p->groups[t->unit];
	int node = by_node(p, t->unit), master = g->state == ZR_GROUP_SELF;
	int apart = !master || zr_has_datum(h->s, t->unit, ZR_D_LOWP);
	int copy = node || (g->param == ZR_GROUP_SELF && apart);
	int64_t at = share(p, t->unit) - t->offset / ZR_BLOCK;
	int64_t end = at + p->plan.unit[t->unit].param_per;
	int rc = 0;
	XXH3_64bits_reset(h->hash);
	end = node && end < t->blocks ? end : t->blocks;
	for (at = at < 0 ? 0 : at; !rc && at < end; at += CHUNK) {
		int64_t n = end - at < CHUNK ? end - at : CHUNK;
		rc = master ? add(h, tensor, 0, at, n) : 0;
		rc = rc || !copy ? rc : add(h, tensor, 1, at, n);
	}
	h->of[tensor] = master || copy ? XXH3_64bits_digest(h->hash) : 0;
	return rc;
}

/* Of all ranks, a part of the tensors at a time: the first that differs. */
static int compare(const struct hashing *h, struct zr_ckpt_word *mine, struct zr_ckpt_word *words,
		   const struct zr_ckpt_word **bad, struct zr_error *err)
{
	const struct zr_setup *p = h->s->setup;
	for (int32_t i = 0; i < p->layout.n_tensors; i++) {
		const struct zr_place *t = &p->layout.tensor[i];
		int32_t at = i % PART;
		if (!at && !mine->code)
			memcpy(mine->text, h->of + i, (size_t)PART * 8);
		int rc = at ? 0 : zr_ckpt_share(h->s, mine, words, bad, err);
		if (rc || *bad)
			return rc;
		for (int32_t r = 1; r < p->process.world; r++) {
			int32_t k = twin(words, r, by_node(p, t->unit));
			if (memcmp(words[r].text + at * 8, words[k].text + at * 8, 8))
				return zr_err(err, ZR_EIO,
					"step %lld: tensor %s (unit %s) of rank %d is not that of "
					"rank %d: ranks have drifted apart, so this step is not "
					"saved; go on from an earlier checkpoint with --resume",
					(long long)h->s->step, t->decl->name,
					p->layout.unit[t->unit].name, r, k);
		}
	}
	return 0;
}

int zr_replicas_compare(struct zr_session *s, struct zr_ckpt_word *words, const struct zr_ckpt_word **bad, struct zr_error *err)
{
	const struct zr_process *at = &s->setup->process;
	struct zr_ckpt_word mine = { .done = (int64_t)at->local_rank << 32 | at->local_world };
	struct zr_error why = { 0 };
	int32_t tensors = s->setup->layout.n_tensors, no = 0;
	*bad = NULL;
	if (zr_alone(s))
		return 0;
	struct hashing h = { s, XXH3_createState(), malloc(2 * CHUNK * ZR_BLOCK * 4),
			     calloc((size_t)tensors + PART, 8) };
	s->err = &why;
	if (!h.hash || !h.chunk || !h.of)
		no = zr_err(&why, ZR_ENOMEM, "out of memory for hashes of what all ranks have");
	for (int32_t i = 0; !no && i < tensors; i++)
		no = hash_tensor(&h, i);
	if (no)
		zr_ckpt_say(&mine, &why);
	int rc = compare(&h, &mine, words, bad, err);
	XXH3_freeState(h.hash);
	free(h.chunk);
	free(h.of);
	return rc;
}
