/* SPDX-License-Identifier: Apache-2.0
 *
 * frozen.c - see checkpoint.h: hashes of tensors that checkpoints leave out.
 */
#include <stdlib.h>
#include <xxhash.h>

#include "files/checkpoint/checkpoint.h"

struct hashing {
	struct zr_session *s;
	XXH3_state_t *state;
};

static int hash_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	struct hashing *h = arg;
	int64_t i = t - h->s->setup->layout.tensor;
	if (!h->s->setup->frozen[i])
		return 0;
	if (first == 0)
		XXH3_64bits_reset(h->state);
	XXH3_64bits_update(h->state, x, (size_t)n * sizeof *x);
	if (first + n == t->elements)
		h->s->frozen_hash[i] = XXH3_64bits_digest(h->state);
	return 0;
}

int zr_checkpoint_leave_out(struct zr_session *s, struct zr_error *err)
{
	struct hashing h = { s, XXH3_createState() };
	s->frozen_hash = calloc((size_t)s->setup->layout.n_tensors + 1, sizeof *s->frozen_hash);
	int rc = s->frozen_hash && h.state ? zr_session_masters(s, hash_values, &h, err) : zr_err(err, ZR_ENOMEM, "out of memory");
	XXH3_freeState(h.state);
	return rc;
}
