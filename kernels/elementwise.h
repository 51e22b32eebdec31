/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise.h - what every device does alike with updates by a plugin's own function of one
 * element (<zeroth/elementwise.h>).
 */
#ifndef ZEROTH_KERNELS_ELEMENTWISE_H
#define ZEROTH_KERNELS_ELEMENTWISE_H

#include <checks.h>
#include <zeroth/elementwise.h>

/* Of the random words; their slot is the parameter. */
#define ZR_ELEMENTWISE_SITE 0xfffffffdu

static inline int zr_check_elementwise_states(const struct zr_host *h, const struct zr_opt_step *s,
					      const struct zr_elementwise *e)
{
	int rc = ZR_OK;
	for (uint32_t i = 0; i < e->n_state && !rc; i++)
		if (s->state[i].dtype)
			rc = zr_check_dtype(h, e->name, s->state[i].dtype);
	return rc;
}

static inline int zr_check_elementwise(const struct zr_host *h, const struct zr_opt_step *s,
				       const struct zr_elementwise *e)
{
	int rc = zr_check_dtype(h, e->name, s->lowp.data ? s->lowp.dtype : ZR_F32);
	if (!rc && !ZR_HAS(e, struct zr_elementwise, sums))
		rc = zr_fail(h, ZR_EINVAL,
			     "%s: its struct zr_elementwise of %u bytes lacks members", e->name,
			     e->size);
	if (!rc && (e->n_state > ZR_ELEMENTWISE_STATES || e->n_state != s->n_state ||
		    e->n_const > ZR_ELEMENTWISE_CONSTANTS || e->n_sum > ZR_ELEMENTWISE_SUMS))
		rc = zr_fail(h, ZR_EINVAL,
			     "%s: %u states where the optimizer has %u, %u constants, %u sums: at "
			     "most %d, %d and %d",
			     e->name, e->n_state, s->n_state, e->n_const, e->n_sum,
			     ZR_ELEMENTWISE_STATES, ZR_ELEMENTWISE_CONSTANTS, ZR_ELEMENTWISE_SUMS);
	if (!rc && e->n_sum && !e->sums && !s->partials)
		rc = zr_fail(h, ZR_ESTATE, "%s: no sums of the parameters came with the step",
			     e->name);
	if (rc)
		return rc;
	return zr_check_elementwise_states(h, s, e);
}

#endif
