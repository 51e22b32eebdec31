/* SPDX-License-Identifier: Apache-2.0
 *
 * session.c - addresses in a session, and whose failure it was.
 */
#include "core/session.h"

struct zr_session zr_session_bare(struct zr_setup *setup)
{
	return (struct zr_session){ .setup = setup,
				    .facts = &setup->facts,
				    .roles = &setup->roles,
				    .programs = &setup->programs,
				    .plan = &setup->plan };
}

char *zr_at(const struct zr_session *s, struct zr_spot spot)
{
	return s->region[spot.region] + spot.at;
}

void *zr_host_table(const struct zr_session *s, uint64_t at)
{
	return s->region[ZR_R_HOST] + at;
}

/* Operations are the device's, or those of the host's beside it. */
int zr_op_failed(struct zr_session *s, const struct zr_ops *ops, int rc, const char *op,
		 struct zr_error *err)
{
	struct zr_setup_roles *r = s->roles;
	const int host = ops == r->host_ops && ops != r->ops;
	return zr_instance_failed(host ? &r->host_device : &r->device, rc, op, err);
}

/* A model, an optimizer or a comm passes on the code of an operation, whose text its device has. */
int zr_user_failed(struct zr_session *s, struct zr_instance *it, int rc, const char *doing,
		   struct zr_error *err)
{
	struct zr_instance *device[] = { &s->roles->device, &s->roles->host_device };
	for (int i = 0; i < 2 && rc; i++)
		if (device[i]->inst && device[i]->failed.code == rc && it->failed.code != rc)
			it = device[i];
	return zr_instance_failed(it, rc, doing, err);
}
