/* SPDX-License-Identifier: Apache-2.0
 *
 * replicas.c - see checkpoint.h: masters and compute copies that every rank has whole. Where ranks have drifted apart no
 * one can tell which is right, so nothing of it may be saved. Optimizer states are left out: where they differ, the
 * masters do after the next update. So are copies that are split in each node: the next update publishes them anew.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/checkpoint/checkpoint.h"
#include "core/piece.h"

#define CHUNK 256 /* blocks that are fetched at a time */
#define PART ((int32_t)(sizeof((struct zr_ckpt_word *)0)->text / 8)) /* hashes in a word */

struct hashing {
	struct zr_session *s;
	XXH3_state_t *hash;
	char *chunk; /* of fp32, twice */
	uint64_t *of; /* [n_tensors] 0: it is split */
};

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
	spot.at += (uint64_t)(t->offset / ZR_BLOCK + at) * block;
	const void *data = copy ? zr_spot_get(s, spot, (uint64_t)n * block, h->chunk, &rc) : zr_entry_get(s, &e, at, n, h->chunk, h->chunk + CHUNK * ZR_BLOCK * 4, &rc);
	if (!rc)
		XXH3_64bits_update(h->hash, data, (uint64_t)elements * (block / ZR_BLOCK));
	return rc;
}

static int hash_tensor(const struct hashing *h, int32_t tensor)
{
	const struct zr_place *t = &h->s->setup->layout.tensor[tensor];
	const struct zr_groups *g = &h->s->setup->groups[t->unit];
	int master = g->state == ZR_GROUP_SELF, copy = g->param == ZR_GROUP_SELF && (!master || zr_has_datum(h->s, t->unit, ZR_D_LOWP));
	int rc = 0;
	XXH3_64bits_reset(h->hash);
	for (int64_t at = 0; !rc && at < t->blocks; at += CHUNK) {
		int64_t n = t->blocks - at < CHUNK ? t->blocks - at : CHUNK;
		rc = master ? add(h, tensor, 0, at, n) : 0;
		if (!rc && copy)
			rc = add(h, tensor, 1, at, n);
	}
	h->of[tensor] = master || copy ? XXH3_64bits_digest(h->hash) : 0;
	return rc;
}

/* Of all ranks, a part of the tensors at a time: the first that differs. */
static int tell(const struct hashing *h, struct zr_ckpt_word *words, struct zr_error *err)
{
	const struct zr_layout *l = &h->s->setup->layout;
	const struct zr_ckpt_word *bad;
	for (int32_t from = 0; from < l->n_tensors; from += PART) {
		int32_t n = l->n_tensors - from < PART ? l->n_tensors - from : PART;
		struct zr_ckpt_word mine = { 0 };
		memcpy(mine.text, h->of + from, (size_t)n * 8);
		int rc = zr_ckpt_share(h->s, &mine, words, &bad, err);
		for (int32_t i = 0; !rc && i < n; i++)
			for (int32_t r = 1; !rc && r < h->s->setup->process.world; r++)
				if (memcmp(words[r].text + i * 8, words[0].text + i * 8, 8))
					rc = zr_err(err, ZR_EIO, "step %lld: tensor %s (unit %s) of rank %d is not that of rank 0: ranks have drifted "
						    "apart, so this step is not saved; go on from an earlier checkpoint with --resume",
						    (long long)h->s->step, l->tensor[from + i].decl->name,
						    l->unit[l->tensor[from + i].unit].name, r);
		if (rc)
			return rc;
	}
	return 0;
}

int zr_replicas_compare(struct zr_session *s, struct zr_ckpt_word *words, const struct zr_ckpt_word **bad, struct zr_error *err)
{
	int32_t tensors = s->setup->layout.n_tensors, differ = 0;
	struct zr_ckpt_word mine = { 0 };
	struct zr_error why = { 0 };
	int no = 0;
	*bad = NULL;
	if (zr_alone(s))
		return 0;
	struct hashing h = { s, XXH3_createState(), malloc(2 * CHUNK * ZR_BLOCK * 4), calloc((size_t)tensors + 1, 8) };
	s->err = &why;
	if (!h.hash || !h.chunk || !h.of)
		no = zr_err(&why, ZR_ENOMEM, "out of memory for hashes of what all ranks have");
	for (int32_t i = 0; !no && i < tensors; i++)
		no = hash_tensor(&h, i);
	if (no)
		zr_ckpt_say(&mine, &why);
	else
		mine.hash = (int64_t)XXH3_64bits(h.of, (size_t)tensors * 8);
	int rc = zr_ckpt_share(s, &mine, words, bad, err);
	for (int32_t r = 0; !rc && !*bad && r < s->setup->process.world; r++)
		differ |= words[r].hash != words[0].hash;
	if (differ)
		rc = tell(&h, words, err);
	XXH3_freeState(h.hash);
	free(h.chunk);
	free(h.of);
	return rc;
}
