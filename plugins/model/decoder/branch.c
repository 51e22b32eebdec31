/* SPDX-License-Identifier: Apache-2.0
 *
 * branch.c - the gradients at both ends of a branch of a block.
 */
#include "decoder.h"

int branches_differ(const struct pass *p)
{
	return p->dropout > 0 || p->o->residual_gain > 0 || has(p, AFTER1_W);
}

const void *branch_gradient_at(const struct pass *p, const struct block_work *w)
{
	if (branches_differ(p))
		return w->dbranch;

	return p->o->parallel ? w->dout : p->c->grad;
}

int branch_gradient(const struct pass *p, int n, enum block_tensor after, const void *x,
		    const float *stats, const struct block_work *w, const void **dy)
{
	const void *dout = p->o->parallel ? w->dout : p->c->grad;
	int rc;

	*dy = branch_gradient_at(p, w);
	if (!branches_differ(p))
		return ZR_OK;

	rc = residual(p, n, NULL, dout, w->dbranch);
	if (rc || !has(p, after))
		return rc;

	return norm_bwd_in_place(p, p->g->at[after], w->dbranch, x, stats, w->ops);
}

int input_gradient(const struct pass *p, enum block_tensor before, const void *x,
		   const float *stats, const struct block_work *w)
{
	if (!has(p, before))
		return add(p, p->c->grad, 1, w->dln, p->c->grad);
	return norm_bwd(p, p->g->at[before], w->dln, x, stats, w->ops);
}
