/* SPDX-License-Identifier: Apache-2.0
 *
 * values.c - parameters that a program reads and writes, and their digest.
 */
#include <stdlib.h>

#include "embed/engine.h"
#include "train/share.h"
#include "train/weights.h"

struct visit {
	struct rank *r;
	const struct zr_layout *layout;
	struct zr_error *err;
};

/* What the program's function answered. */
static int answered(int rc, int64_t tensor, struct zr_error *err)
{
	if (!rc)
		return 0;
	return zr_err(err, rc < 0 ? rc : ZR_EINTERNAL,
		      "values of tensor %lld: the "
		      "function failed with code %d",
		      (long long)tensor, rc);
}

static int get_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	const struct visit *v = arg;
	const struct zeroth *e = v->r->engine;
	const int64_t i = t - v->layout->tensor;
	return answered(e->get(e->arg, i, first, n, x), i, v->err);
}

static int put_values(void *arg, int32_t i, int64_t first, int64_t n, float *x,
		      struct zr_error *err)
{
	struct zeroth *e = ((struct visit *)arg)->r->engine;
	pthread_mutex_lock(&e->put_lock);
	int rc = e->put(e->arg, i, first, n, x);
	pthread_mutex_unlock(&e->put_lock);
	return answered(rc, i, err);
}

int rank_visit(struct rank *r, enum command how, struct zr_error *err)
{
	struct visit v = { r, &r->t.setup->facts.layout, err };

	int rc = rank_begin(r, err);
	if (rc)
		return rc;
	if (how == CMD_PUT)
		return zr_session_fill(r->t.session, put_values, &v, err);
	if (how == CMD_CHANGE)
		return zr_session_change(r->t.session, put_values, &v, err);

	rc = zr_session_masters(r->t.session, r->number ? NULL : get_values, &v, err);
	if (rc)
		return zr_err(err, rc, "reading parameters failed with code %d", rc);
	return 0;
}

int rank_sum(struct rank *r, struct zr_error *err)
{
	const struct zeroth *e = r->engine;
	const size_t n = (size_t)e->n_sums, world = (size_t)r->t.setup->facts.process.world;
	double *mine = e->sums[r->number];

	double *all = calloc(world * n, sizeof *all);
	if (!all)
		return zr_no_memory(err);

	int rc = zr_gather_bytes(r->t.session, mine, all, n * sizeof *all, err);
	for (size_t i = 0; !rc && i < n; i++) {
		mine[i] = 0;
		for (size_t k = 0; k < world; k++)
			mine[i] += all[k * n + i];
	}

	free(all);
	return rc;
}

int rank_digest(struct rank *r, struct zr_error *err)
{
	uint64_t d;

	int rc = rank_begin(r, err);
	if (!rc)
		rc = zr_weights_digest(r->t.session, &d, err);
	if (!rc && !r->number)
		r->engine->digest = d;
	return rc;
}
