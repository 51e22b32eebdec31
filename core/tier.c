/* SPDX-License-Identifier: Apache-2.0
 *
 * tier.c - see tier.h.
 */
#include "core/tier.h"

static struct zr_offload *store_of(const struct zr_session *s, int32_t region)
{
	return &s->setup->offload[s->setup->plan.region[region].store - ZR_STORE_OPTIMIZER];
}

static int failed(const struct zr_session *s, int32_t region, int rc, const char *doing)
{
	return rc ? zr_instance_failed(&store_of(s, region)->it, rc, doing, s->err) : 0;
}

/* Memory that requests will use: prepared once where the store can. */
static int register_memory(struct zr_session *s, struct zr_offload *o, struct zr_error *err)
{
	const struct zr_offload_v1 *v = o->it.vtbl;
	const struct zr_plan *plan = &s->setup->plan;
	void *const arena[] = { s->setup->device_info.host_access ? s->arena[ZR_STORE_DEVICE] : NULL, s->arena[ZR_STORE_HOST] };
	if (!o->it.section || o->info.direct || !ZR_HAS(v, struct zr_offload_v1, buffers) || !v->buffers)
		return 0;
	for (int i = 0; i < 2; i++) {
		int rc = arena[i] ? v->buffers(o->it.inst, arena[i], plan->arena[i]) : 0;
		if (rc)
			return zr_instance_failed(&o->it, rc, "buffers", err);
	}
	return 0;
}

static int make_object(struct zr_session *s, int32_t region, struct zr_error *err)
{
	static const char *const key[ZR_R_COUNT] = {
		[ZR_R_PARAM_FAR] = "param", [ZR_R_MASTER] = "master", [ZR_R_GRAD] = "grad", [ZR_R_STATE] = "state",
		[ZR_R_ACT_FAR] = "activation",
	};
	struct zr_setup *p = s->setup;
	const struct zr_region *r = &p->plan.region[region];
	struct zr_offload *o = store_of(s, region);
	const struct zr_offload_v1 *v = o->it.vtbl;
	int rc = v->make(o->it.inst, key[region] ? key[region] : "data", r->bytes, &s->object[region]);
	if (rc)
		return zr_instance_failed(&o->it, rc, "make", err);
	s->made[region] = 1;
	if (o->info.direct)
		s->region[region] = v->map(o->it.inst, s->object[region]);
	zr_account_plan(&p->account, r->tier, r->what, r->bytes);
	zr_account_take(&p->account, r->tier, r->what, r->bytes);
	return 0;
}

int zr_tier_open(struct zr_session *s, struct zr_error *err)
{
	struct zr_setup *p = s->setup;
	int rc = 0;
	for (int i = 0; !rc && i < ZR_OFFLOADS; i++)
		rc = register_memory(s, &p->offload[i], err);
	for (int i = 0; !rc && i < ZR_R_COUNT; i++)
		if (p->plan.region[i].store >= ZR_STORE_OPTIMIZER && p->plan.region[i].bytes)
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
		const struct zr_offload_v1 *v = store_of(s, i)->it.vtbl;
		v->drain(store_of(s, i)->it.inst);
		v->discard(store_of(s, i)->it.inst, s->object[i]);
		zr_account_give(&p->account, r->tier, r->what, r->bytes);
	}
}

int zr_copy(struct zr_session *s, void *to, const void *from, uint64_t bytes)
{
	struct zr_setup *p = s->setup;
	const struct zr_device_v1 *dev = p->device.vtbl;
	int rc = dev->copy(p->device.inst, NULL, to, from, bytes);
	if (!rc)
		rc = dev->sync(p->device.inst, NULL);
	return rc ? zr_instance_failed(&p->device, rc, "copy", s->err) : 0;
}

/* Between memories: beside the computing where the device can. */
int zr_copy_start(struct zr_session *s, void *to, const void *from, uint64_t bytes, uint64_t *ticket)
{
	struct zr_setup *p = s->setup;
	const struct zr_device_v1 *dev = p->device.vtbl;
	*ticket = 0;
	if (!ZR_HAS(dev, struct zr_device_v1, copy_wait) || !dev->copy_start || !dev->copy_wait)
		return zr_copy(s, to, from, bytes);
	int rc = dev->copy_start(p->device.inst, to, from, bytes, ticket);
	return rc ? zr_instance_failed(&p->device, rc, "copy_start", s->err) : 0;
}

int zr_copied(struct zr_session *s, uint64_t ticket)
{
	struct zr_setup *p = s->setup;
	int rc = ticket ? ((const struct zr_device_v1 *)p->device.vtbl)->copy_wait(p->device.inst, ticket) : 0;
	return rc ? zr_instance_failed(&p->device, rc, "copy_wait", s->err) : 0;
}

int zr_read(struct zr_session *s, struct zr_spot from, void *to, uint64_t bytes, uint64_t *ticket)
{
	*ticket = 0;
	if (zr_addressed(s, from.region))
		return zr_copy_start(s, to, zr_at(s, from), bytes, ticket);
	const struct zr_offload *o = store_of(s, from.region);
	const struct zr_offload_v1 *v = o->it.vtbl;
	return failed(s, from.region, v->read(o->it.inst, s->object[from.region], from.at, to, bytes, ticket), "read");
}

int zr_write(struct zr_session *s, struct zr_spot to, const void *from, uint64_t bytes, uint64_t *ticket)
{
	*ticket = 0;
	if (zr_addressed(s, to.region))
		return zr_copy_start(s, zr_at(s, to), from, bytes, ticket);
	const struct zr_offload *o = store_of(s, to.region);
	const struct zr_offload_v1 *v = o->it.vtbl;
	return failed(s, to.region, v->write(o->it.inst, s->object[to.region], to.at, from, bytes, ticket), "write");
}

int zr_moved(struct zr_session *s, int32_t region, uint64_t ticket)
{
	if (!ticket)
		return 0;
	if (zr_addressed(s, region))
		return zr_copied(s, ticket);
	const struct zr_offload *o = store_of(s, region);
	const struct zr_offload_v1 *v = o->it.vtbl;
	return failed(s, region, v->wait(o->it.inst, ticket), "wait");
}

int zr_get(struct zr_session *s, struct zr_spot from, void *to, uint64_t bytes)
{
	uint64_t ticket;
	if (zr_addressed(s, from.region))
		return zr_copy(s, to, zr_at(s, from), bytes);
	int rc = zr_read(s, from, to, bytes, &ticket);
	return rc ? rc : zr_moved(s, from.region, ticket);
}

int zr_put(struct zr_session *s, struct zr_spot to, const void *from, uint64_t bytes)
{
	uint64_t ticket;
	if (zr_addressed(s, to.region))
		return zr_copy(s, zr_at(s, to), from, bytes);
	int rc = zr_write(s, to, from, bytes, &ticket);
	return rc ? rc : zr_moved(s, to.region, ticket);
}
