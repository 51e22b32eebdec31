/* SPDX-License-Identifier: Apache-2.0
 *
 * tier.c - see tier.h.
 */
#include "core/memory/tier.h"

#include <string.h>

#include "core/base/log.h"
#include "core/exec/exec.h"

static struct zr_instance *store_of(const struct zr_session *s, int32_t region)
{
	return &s->roles->offload[s->plan->region[region].store - ZR_STORE_OPTIMIZER];
}

/* Whether an instruction copies from or to an object. */
static int is_copied(const struct zr_session *s, int32_t region)
{
	for (int id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->programs->lowered[id];
		for (int32_t i = 0; i < p->n; i++) {
			const struct zr_operand *o = &p->operand[p->instr[i].first];
			if (p->instr[i].kind == ZR_I_COPY && (o[ZR_O_COPY_FROM].region == region ||
							      o[ZR_O_COPY_TO].region == region))
				return 1;
		}
	}
	return 0;
}

/* What the system does not let a device pin is used as it is. */
static int pin_object(struct zr_session *s, int32_t region, const char *key, struct zr_error *err)
{
	const struct zr_device_v1 *dev = s->roles->device.vtbl;
	struct zr_error why = { 0 };
	if (!ZR_HAS(dev, struct zr_device_v1, mem_unpin) || !dev->mem_pin || !is_copied(s, region))
		return 0;

	int rc = dev->mem_pin(s->roles->device.inst, s->region[region],
			      s->plan->region[region].bytes);
	s->pinned[region] = !rc;
	s->pageable[region] = rc == ZR_ENOMEM;
	if (!rc)
		return 0;

	zr_instance_failed(&s->roles->device, rc, "mem_pin", &why);
	if (rc != ZR_ENOMEM)
		return zr_err(err, rc, "%s", why.text);

	zr_logf(ZR_LOG_WARN, store_of(s, region)->section->name,
		"%s is not pinned, so that its copies will hold up the host: %s", key, why.text);
	return 0;
}

static int make_object(struct zr_session *s, int32_t region, struct zr_error *err)
{
	static const char *const key[ZR_R_COUNT] = {
		[ZR_R_PARAM_OFFLOADED] = "param",
		[ZR_R_MASTER] = "master",
		[ZR_R_GRAD] = "grad",
		[ZR_R_STATE] = "state",
		[ZR_R_ACT_OFFLOADED] = "activation",
		[ZR_R_PARTS] = "parts",
		[ZR_R_WAITING] = "partials",
	};
	struct zr_setup *p = s->setup;
	const struct zr_region *r = &p->plan.region[region];
	struct zr_instance *it = store_of(s, region);
	int direct = p->facts.tier[r->store - ZR_STORE_OPTIMIZER].direct;
	const struct zr_offload_v1 *v = it->vtbl;
	int rc = v->make(it->inst, key[region], r->bytes, &s->object[region]);
	if (zr_instance_failed(it, rc, "make", err))
		return rc;

	s->made[region] = 1;
	if (direct)
		s->region[region] = v->map(it->inst, s->object[region]);
	zr_account_add(&p->account, r->tier, r->what, (int64_t)r->bytes);
	if (direct)
		return pin_object(s, region, key[region], err);
	return 0;
}

int zr_tier_open(struct zr_session *s, struct zr_error *err)
{
	const struct zr_plan *p = s->plan;
	int rc = 0;
	for (int i = 0; !rc && i < ZR_R_COUNT; i++)
		if (p->region[i].store >= ZR_STORE_OPTIMIZER && p->region[i].bytes)
			rc = make_object(s, i, err);
	return rc;
}

void zr_tier_close(struct zr_session *s)
{
	struct zr_setup *p = s->setup;
	for (int i = 0; i < ZR_R_COUNT; i++) {
		const struct zr_region *r = &p->plan.region[i];
		if (!s->made[i])
			continue;
		const struct zr_offload_v1 *v = store_of(s, i)->vtbl;
		v->drain(store_of(s, i)->inst);
		if (s->pinned[i])
			((const struct zr_device_v1 *)p->roles.device.vtbl)
				->mem_unpin(p->roles.device.inst, s->region[i]);
		v->discard(store_of(s, i)->inst, s->object[i]);
		zr_account_add(&p->account, r->tier, r->what, -(int64_t)r->bytes);
	}
}

/* The device is called by one thread; what another computes on is in host memory. */
int zr_copy(struct zr_session *s, void *to, const void *from, uint64_t bytes, struct zr_error *err)
{
	struct zr_setup_roles *r = s->roles;
	if (zr_beside_at() >= 0) {
		memcpy(to, from, bytes);
		return 0;
	}

	int rc = zr_graph_apart(s, err);
	if (!rc)
		rc = ZR_ASK(&r->device, device, copy, err, NULL, to, from, bytes);
	if (rc)
		return rc;
	return ZR_ASK(&r->device, device, sync, err, NULL);
}

int zr_request(struct zr_session *s, struct zr_spot spot, void *memory, uint64_t bytes, int write,
	       uint64_t *ticket, struct zr_error *err)
{
	struct zr_instance *it = store_of(s, spot.region);
	const struct zr_offload_v1 *v = it->vtbl;
	uint64_t object = s->object[spot.region];
	*ticket = 0;
	int rc;
	if (write)
		rc = v->write(it->inst, object, spot.at, memory, bytes, ticket);
	else
		rc = v->read(it->inst, object, spot.at, memory, bytes, ticket);
	if (rc == ZR_EAGAIN)
		return rc;
	return zr_instance_failed(it, rc, write ? "write" : "read", err);
}

int zr_requested(struct zr_session *s, int32_t region, uint64_t ticket, struct zr_error *err)
{
	if (!ticket)
		return 0;
	return ZR_ASK(store_of(s, region), offload, wait, err, ticket);
}
