/* SPDX-License-Identifier: Apache-2.0
 *
 * take.c - see others.h: the values of another program's checkpoint into a session.
 */
#include <stdlib.h>
#include <string.h>

#include "files/checkpoint/checkpoint.h"
#include "files/pretrained/tensors.h"
#include "cmd/others/others.h"

struct taking {
	struct zr_others *o;
	struct zr_session *s;
	struct zr_manifest here;
	float *x; /* an entry */
};

/* A zr_values_fn: the weights. */
static int read_weights(void *arg, int32_t i, int64_t first, int64_t n, float *x,
			struct zr_error *err)
{
	const struct taking *t = arg;
	const struct zr_layout *l = &t->s->setup->facts.layout;
	const struct zr_other_tensor *from =
		zr_other_find(t->o, t->s->setup, l->tensor[i].decl->name);
	const struct zr_other_datum *d = zr_other_datum(from, ZR_OTHER_MASTER);

	if (d)
		return zr_other_read(t->o, from, d, first, n, x, err);
	return zr_tensor_files_read(t->o->weights, i, first, n, x, err);
}

static int take_entry(const struct taking *t, const struct zr_ckpt_entry *e, struct zr_error *err)
{
	const struct zr_ckpt_optimizer *of = &t->here.optimizer[t->here.optimizer_of[e->tensor]];
	const struct zr_other_tensor *from =
		zr_other_find(t->o, t->s->setup, t->here.layout.tensor[e->tensor].decl->name);
	const struct zr_other_datum *d = zr_other_datum(from, of->state[e->state].name);

	memset(t->x, 0, (size_t)(e->blocks * ZR_BLOCK) * sizeof *t->x);
	int rc = zr_other_read(t->o, from, d, e->first * ZR_BLOCK, e->elements, t->x, err);
	if (rc)
		return rc;
	return zr_entry_put(t->s, e, 0, e->blocks, t->x, err);
}

static int take_states(struct taking *t, struct zr_error *err)
{
	int64_t n;
	struct zr_ckpt_entry *e = zr_entries(&t->here, t->s->setup->facts.process.rank, &n);
	int rc = 0;

	t->x = malloc((size_t)t->here.entry_blocks * ZR_BLOCK * sizeof *t->x);
	if (!e || !t->x)
		rc = zr_no_memory(err);
	for (int64_t i = 0; !rc && i < n; i++)
		if (e[i].tensor >= 0 && e[i].state >= 0)
			rc = take_entry(t, &e[i], err);
	free(t->x);
	free(e);
	return rc;
}

int zr_others_take(struct zr_others *o, struct zr_session *s, struct zr_error *err)
{
	struct taking t = { .o = o, .s = s };

	int rc = zr_session_begin(s, read_weights, &t, err);
	if (rc || o->weights_only)
		return rc;

	rc = zr_describe_session(s, &t.here, err);
	if (rc)
		return rc;

	rc = take_states(&t, err);
	zr_manifest_free(&t.here);
	s->step = o->step;
	s->applied = o->applied;
	if (o->scaled)
		s->scale = o->scale;
	return rc;
}
