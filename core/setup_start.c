/* SPDX-License-Identifier: Apache-2.0
 *
 * setup_start.c - a section with the facts that its `auto` follows from, and its instance.
 */
#include <math.h>
#include <sched.h>
#include <string.h>

#include "core/program/route.h"
#include "core/setup.h"

int32_t zr_setup_workers(const struct zr_setup_facts *f)
{
	cpu_set_t set;
	int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set),
	    share = cores / zr_machine_ranks(f);
	return f->process.pool ? zr_pool_size(f->process.pool) : share > 1 ? share : 1;
}

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
	return (struct zr_facts){
		.size = sizeof(struct zr_facts),
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
