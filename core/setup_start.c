/* SPDX-License-Identifier: Apache-2.0
 *
 * setup_start.c - a section with the facts that its `auto` follows from, and its instance.
 */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "core/base/log.h"
#include "core/pretrained/pretrained.h"
#include "core/program/route.h"
#include "core/setup.h"

int32_t zr_setup_workers(const struct zr_setup_facts *f)
{
	cpu_set_t set;
	int cores = 1;
	if (f->process.pool)
		return zr_pool_size(f->process.pool);
	if (!sched_getaffinity(0, sizeof set, &set))
		cores = CPU_COUNT(&set);

	const int share = cores / zr_machine_ranks(f);
	if (share < 1)
		return 1;
	return share;
}

int zr_setup_pool(struct zr_setup_facts *f, int64_t threads, struct zr_error *err)
{
	if (threads < 1)
		threads = 1;

	int rc = zr_pool_new((int)threads, &f->process.pool);
	if (!rc)
		return 0;
	return zr_err(err, ZR_ENOMEM,
		      "[device] cannot start %lld threads: %s: too little memory, or too many "
		      "threads",
		      (long long)threads, strerror(-rc));
}

/* ---- processors near the device -------------------------------------------------- */

/* Of those that it may use; 0: there are none, or all of them are near. */
static int find_near(struct zr_setup *s, const cpu_set_t *may, cpu_set_t *near)
{
	const struct zr_device_v1 *v = s->roles.device.vtbl;
	int32_t processor[CPU_SETSIZE];
	if (!ZR_HAS(v, struct zr_device_v1, processors) || !v->processors)
		return 0;

	CPU_ZERO(near);
	int32_t n = v->processors(s->roles.device.inst, processor, CPU_SETSIZE);
	for (int32_t k = 0; k < n && k < CPU_SETSIZE; k++)
		if (processor[k] >= 0 && processor[k] < CPU_SETSIZE && CPU_ISSET(processor[k], may))
			CPU_SET(processor[k], near);
	return CPU_COUNT(near) && !CPU_EQUAL(near, may);
}

/* As "0-31,64-95"; what does not fit is left out. */
static void list_processors(const cpu_set_t *set, char *out, size_t room)
{
	size_t n = 0;
	*out = 0;
	for (int k = 0; k < CPU_SETSIZE && n < room; k++) {
		if (!CPU_ISSET(k, set))
			continue;

		const int first = k;
		while (k + 1 < CPU_SETSIZE && CPU_ISSET(k + 1, set))
			k++;
		n += (size_t)snprintf(out + n, room - n, "%s%d", n ? "," : "", first);
		if (k > first && n < room)
			n += (size_t)snprintf(out + n, room - n, "-%d", k);
	}
}

/* The pool begins anew: its threads stay where they are made, no more of them than processors. */
int zr_setup_go_near(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;
	int threads = zr_pool_size(f->process.pool);
	cpu_set_t may, near;
	if (f->flags & ZR_SETUP_ALONE)
		return 0;
	if (sched_getaffinity(0, sizeof may, &may))
		return 0;
	if (!find_near(s, &may, &near))
		return 0;

	if (sched_setaffinity(0, sizeof near, &near)) {
		zr_logf(ZR_LOG_WARN, "device",
			"threads cannot be kept on processors near the device: %s",
			strerror(errno));
		return 0;
	}

	if (threads > CPU_COUNT(&near))
		threads = CPU_COUNT(&near);
	list_processors(&near, f->near, sizeof f->near);
	zr_pool_free(f->process.pool);
	f->process.pool = NULL;
	return zr_setup_pool(f, threads, err);
}

/* ---- sections -------------------------------------------------------------------- */

/* The learning rate of all parameter groups, NaN where they differ. */
static double common_lr(const struct zr_setup_roles *r)
{
	double lr = r->n_param_groups ? r->param_group[0].lr : NAN;
	for (int32_t g = 1; g < r->n_param_groups; g++)
		if (r->param_group[g].lr != lr)
			return NAN;
	return lr;
}

static struct zr_facts facts_of(const struct zr_setup *s)
{
	const struct zr_setup_facts *f = &s->facts;
	const struct zr_section *model = zr_config_find(s->cfg, "model");
	const struct zr_model_json *json = zr_config_model_json(s->cfg);
	return (struct zr_facts){
		.size = sizeof(struct zr_facts),
		.added_tokens = model ? model->add_tokens : NULL,
		.added_ids = json ? json->added.id : NULL,
		.world = f->process.world,
		.workers = zr_setup_workers(f),
		.vocabulary = s->roles.n_sources ? s->roles.source->info.vocabulary : 0,
		.sequence_length = f->batch.length,
		.steps = f->train->epochs > 0 && !f->batch.train ? 0 : (int64_t)f->train->steps,
		.lr = common_lr(&s->roles),
		.memory = f->memory / (uint64_t)zr_machine_ranks(f),
		.parameters = f->layout.blocks * ZR_BLOCK,
		.gather_legs = zr_route_of_split(f).n,
		.largest_unit = f->largest_unit,
		.typical_unit = f->typical_unit
	};
}

int zr_setup_resolve(struct zr_setup *s, const char *section, struct zr_error *err)
{
	struct zr_facts facts = facts_of(s);
	facts.evaluates = !strncmp(section, "eval.", 5);
	if (!zr_config_find(s->cfg, section))
		return zr_err(err, ZR_EINVAL, "no [%s] section and no default for it", section);
	return zr_config_resolve(s->cfg, section, &facts, err);
}

int zr_setup_start(struct zr_setup *s, struct zr_instance *it, const char *section,
		   const char *iface, struct zr_error *err)
{
	const struct zr_section *sec = zr_config_find(s->cfg, section);
	int rc = zr_setup_resolve(s, section, err);
	if (rc)
		return rc;
	return zr_instance_create(it, &s->facts.process, sec, iface, err);
}
