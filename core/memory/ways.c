/* SPDX-License-Identifier: Apache-2.0
 *
 * ways.c - which store has each region, and by which way gradients go.
 */
#include "core/memory/plan.h"

#include "core/program/route.h"
#include "core/setup.h"

/* Whether comm adds what ranks send. A rank sends once per update: then the fold over ranks is
 * one sum of them in rank order, and in fp32 that is the sum of zeroth/comm.h, bit for bit
 * (invariant I1). */
static int adds_in_comm(const struct zr_setup_facts *f)
{
	int once = f->train->reduction == ZR_REDUCE_LOCAL || f->batch.accumulation == 1;
	return f->process.world > 1 && !f->peers && once && f->types.comm_dtype == ZR_F32 &&
	       zr_sums_tree(f) == 1;
}

/* What adds in an order of its own in a section's comm, or NULL. needs: what must change before
 * it adds at all, or NULL. */
static int ask_sums(const struct zr_setup *s, const char *section, const char *needs,
		    const char **sums, struct zr_error *err)
{
	const struct zr_section *sec = zr_config_find(s->cfg, section);
	const struct zr_comm_v1 *v = zr_plugin_iface(sec->plugin, "zr.comm/1", err);
	*sums = NULL;
	if (v && v->sums)
		*sums = v->sums(sec->opts);
	if (!*sums || !needs)
		return 0;
	return zr_config_blame(s->cfg, section, ZR_EINVAL, err,
			       "sums: %s would add nothing: %s, or sums = ordered", *sums, needs);
}

/* Another order than that of the ranks is for who gave up, by reduction = local, that bits do
 * not depend on their number. */
int zr_sums_choose(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err)
{
	const char *none;
	int local = s->facts.train->reduction == ZR_REDUCE_LOCAL;
	if (s->facts.process.world == 1)
		return 0;

	const char *why = "each rank must send one fp32 sum per update: set [train] reduction = "
			  "local and communication_data_type = fp32";
	int rc = ask_sums(s, "comm", p->scatter && local ? NULL : why, &p->sums, err);
	if (rc || !s->roles.host_comm.inst)
		return rc;
	return ask_sums(s, "comm.host", "gradients go through [comm]: set its sums", &none, err);
}

/* By which way gradients go. */
static void choose_ways(const struct zr_setup_facts *f, struct zr_plan *p)
{
	int leaves = !f->device_info.host_ops && p->region[ZR_R_GRAD].store != ZR_STORE_DEVICE;
	p->direct = f->batch.slots == 1 && f->types.comm_dtype == ZR_F32 &&
		    !zr_sliced(&f->slices) && p->region[ZR_R_GRAD].store == ZR_STORE_DEVICE;
	p->scatter = f->mode != ZR_MODE_SAMPLE && adds_in_comm(f);
	p->stored_directly = leaves && !zr_comm_on_host(f) && f->types.comm_dtype == ZR_F32 &&
			     p->region[ZR_R_GRAD].tier != ZR_TIER_DISK && zr_sums_tree(f) == 1 &&
			     (f->process.world == 1 || p->scatter);
}

const char *zr_why_no_device_sums(const struct zr_setup_facts *f, const struct zr_plan *p)
{
	if (f->mode != ZR_MODE_TRAIN || f->batch.accumulation == 1)
		return "each rank has one micro-batch in a step";
	if (f->device_info.host_ops || f->peers)
		return "the device has no memory of its own";
	if (p->region[ZR_R_GRAD].store == ZR_STORE_DEVICE)
		return "sums are on the device";
	if (zr_sums_locally(f))
		return "with reduction = local it is so";

	for (int32_t u = 0; u < f->layout.n_units; u++)
		if (zr_unit_part(f, u))
			return "gradients come in parts (gradient_part_size)";
	return NULL;
}

/* Where contributions are on the host when they have come, auto leaves them there. */
static int choose_device_sums(const struct zr_setup_facts *f, const struct zr_plan *p)
{
	int place = f->train->accumulate_on;
	if (place == ZR_ACCUMULATE_TIER || zr_why_no_device_sums(f, p))
		return 0;
	if (place == ZR_ACCUMULATE_DEVICE)
		return 1;
	return !f->small_device && (f->process.world == 1 || !zr_comm_on_host(f));
}

/* That of the section [offload.X], if it is there. */
static int store_or(const struct zr_setup_facts *f, int store, int other)
{
	return zr_offloaded(f, store) ? store : other;
}

/* Whole matrices: on a device that does not reach the host, if all optimizers of them can be
 * there. */
static int store_whole(const struct zr_setup *s, int sums)
{
	int device = !s->facts.device_info.host_ops;
	for (const struct zr_optimizer *o = s->roles.optimizer;
	     o < s->roles.optimizer + s->roles.n_optimizers; o++)
		device &= !zr_is_whole(o) || (zr_optimizer_calls(o)->mem_ok & ZR_MEM_DEVICE);
	return device ? ZR_STORE_DEVICE : sums;
}

/* Sums lie where the optimizer runs, unless they have a section of their own. */
static void store_gradients(const struct zr_setup *s, struct zr_region *r, int sums)
{
	int store = store_or(&s->facts, ZR_STORE_GRADIENT, sums);
	r[ZR_R_PARTS].store = r[ZR_R_WAITING].store = r[ZR_R_GRAD].store = store;
	/* an update takes them at once */
	if (s->programs.recorded[ZR_PROG_LAST_MICRO].own_sums && zr_on_disk(&s->facts, store))
		r[ZR_R_GRAD].store = sums;
}

void zr_stores_choose(const struct zr_setup *s, struct zr_plan *p)
{
	const struct zr_setup_facts *f = &s->facts;
	struct zr_region *r = p->region;
	int host = f->device_info.unified ? ZR_STORE_DEVICE : ZR_STORE_HOST;
	int sums = zr_offloaded(f, ZR_STORE_OPTIMIZER) ? host : ZR_STORE_DEVICE;

	store_gradients(s, r, sums);
	p->device_sums = choose_device_sums(f, p);
	if (p->device_sums)
		r[ZR_R_WAITING].store = ZR_STORE_DEVICE;
	r[ZR_R_MASTER].store = store_or(f, ZR_STORE_OPTIMIZER, ZR_STORE_DEVICE);
	r[ZR_R_STATE].store = r[ZR_R_MASTER].store;
	r[ZR_R_PARAM_OFFLOADED].store = store_or(f, ZR_STORE_PARAM, ZR_STORE_DEVICE);
	r[ZR_R_ACT_OFFLOADED].store = store_or(f, ZR_STORE_ACTIVATION, ZR_STORE_DEVICE);
	r[ZR_R_CHUNK].store = sums;
	r[ZR_R_WHOLE].store = store_whole(s, sums);

	static const int on_host[] = { ZR_R_HOST, ZR_R_STAGING, ZR_R_GRAD_BOUNCE, ZR_R_HOST_COMM,
				       ZR_R_BOUNCE };
	for (size_t i = 0; i < sizeof on_host / sizeof *on_host; i++)
		r[on_host[i]].store = host;
	for (int i = 0; i < ZR_R_COUNT; i++)
		r[i].tier = zr_store_tier(f, r[i].store);
	choose_ways(f, p);
}
