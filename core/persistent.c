/* SPDX-License-Identifier: Apache-2.0
 *
 * persistent.c - see persistent.h. Where the host reaches device memory, the numbers lie in one
 * place. Elsewhere the model writes them in host memory, and each renewal ends with a copy to the
 * device.
 */
#include "core/persistent.h"

#include <stdlib.h>

#include "core/memory/tier.h"

float *zr_persistent_at(const struct zr_session *s)
{
	if (s->facts->device_info.host_access)
		return (float *)(void *)s->region[ZR_R_PERSISTENT];

	return zr_host_table(s, s->plan->host_persistent);
}

int zr_persistent_publish(struct zr_session *s, struct zr_error *err)
{
	const uint64_t bytes = (uint64_t)s->facts->layout.persistent * sizeof(float);
	if (!bytes || s->facts->device_info.host_access)
		return 0;

	return zr_copy(s, s->region[ZR_R_PERSISTENT], zr_persistent_at(s), bytes, err);
}

int zr_persistent_open(struct zr_session *s, struct zr_error *err)
{
	const struct zr_layout *l = &s->facts->layout;
	if (!l->persistent)
		return 0;

	s->persistent = calloc(s->facts->most_tensors, sizeof *s->persistent);
	s->renewed = calloc((size_t)l->n_tensors, sizeof *s->renewed);
	if (!s->persistent || !s->renewed)
		return zr_err(err, ZR_ENOMEM, "out of memory for the session's tables");

	for (int32_t i = 0; i < l->n_tensors; i++)
		if (l->tensor[i].persistent)
			s->renewed[i] = zr_persistent_at(s) + l->tensor[i].first_persistent;
	return 0;
}

int zr_persistent_renew(struct zr_session *s, double loss, struct zr_error *err)
{
	const struct zr_layout *l = &s->facts->layout;
	if (!l->persistent)
		return 0;

	const struct zr_renewal r = { .size = sizeof r,
				      .n_tensors = l->n_tensors,
				      .step = s->applied,
				      .loss = loss,
				      .persistent = s->renewed };
	int rc = ZR_ASK(zr_model_of(s->roles), model, renew, err, &r);
	if (rc)
		return rc;
	return zr_persistent_publish(s, err);
}
