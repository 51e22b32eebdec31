/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_json.c - see plan_json.h.
 */
#include "train/forecast/plan_json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "train/fit.h"
#include "train/forecast/print.h"
#include "train/rundir.h"

int zr_plan_uses(const struct zr_setup_programs *p, int32_t phase)
{
	int n = 0;
	for (int32_t i = 0; i < p->train_uses.n; i++)
		n += p->train_uses.use[i].phase == phase;
	return n;
}

int32_t zr_plan_tensors(const struct zr_setup *s, int32_t group, int64_t *elements)
{
	int32_t n = 0;

	*elements = 0;
	for (int32_t i = 0; i < s->facts.layout.n_tensors; i++)
		if ((s->facts.frozen[i] ? ZR_PLAN_FROZEN : s->roles.group_of[i]) == group) {
			*elements += s->facts.layout.tensor[i].elements;
			n++;
		}
	return n;
}

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* Regions of one name are one for people. */
static json_t *tier_json(const struct zr_plan *p, int tier)
{
	json_t *region = json_object();
	for (const struct zr_region *r = p->region; r < p->region + ZR_R_COUNT; r++) {
		const uint64_t before =
			(uint64_t)json_integer_value(json_object_get(region, r->what));
		if (r->tier == tier && r->bytes)
			zr_json_put(&region, r->what, count(before + r->bytes));
	}
	if (tier == ZR_TIER_HOST && p->kept)
		zr_json_put(&region, ZR_PLAN_KEPT, count(p->kept));
	return region;
}

static json_t *groups_json(const struct zr_setup *s)
{
	json_t *list = json_array();

	for (int32_t g = 0; g < s->roles.n_param_groups; g++) {
		const struct zr_section *sec = s->roles.param_group[g].section;
		int64_t elements;
		int32_t n = zr_plan_tensors(s, g, &elements);
		zr_json_add(&list, json_pack("{s:s, s:s, s:i, s:I}", "section", sec->name, "plugin",
					     sec->plugin->desc->id, "tensors", n, "parameters",
					     (json_int_t)elements));
	}

	return list;
}

json_t *zr_plan_json(const struct zr_setup *s, uint64_t have, int fits)
{
	json_t *planned = json_object(), *total = json_object(), *held = json_object(),
	       *shared = json_object();

	for (int tier = ZR_TIER_DEVICE; tier <= ZR_TIER_DISK; tier++) {
		zr_json_put(&planned, zr_tier_name(tier), tier_json(&s->plan, tier));
		zr_json_put(&shared, zr_tier_name(tier), count(zr_plan_shared(&s->plan, tier)));
		zr_json_put(&total, zr_tier_name(tier), count(zr_plan_tier(&s->plan, tier)));
	}

	for (int i = 0; i < s->account.n; i++)
		zr_json_put(&held, s->account.line[i].what, count(s->account.line[i].held));
	int64_t frozen;
	zr_plan_tensors(s, ZR_PLAN_FROZEN, &frozen);
	json_t *j = json_object();
	zr_json_put(&j, "parameters", count((uint64_t)s->facts.layout.parameters));
	zr_json_put(&j, "frozen", count((uint64_t)frozen));
	zr_json_put(&j, "activation", json_string(s->roles.activation.section->plugin->desc->id));
	zr_json_put(&j, "recomputed_layers",
		    json_integer(zr_plan_uses(&s->programs, ZR_RECOMPUTE)));
	zr_json_put(&j, "groups", groups_json(s));
	zr_json_put(&j, "planned", planned);
	zr_json_put(&j, "shared", shared);
	zr_json_put(&j, "total", total);
	zr_json_put(&j, "held_by_plugins", held);
	zr_json_put(&j, "needed", count(zr_plan_need(s)));
	zr_json_put(&j, "available", count(have));
	zr_json_put(&j, "fits", json_boolean(fits));
	return j;
}

int zr_plan_write(const struct zr_setup *s, json_t *plan, const struct zr_forecast *f,
		  const char *by, struct zr_error *err)
{
	char path[PATH_MAX];
	json_t *j = json_incref(plan);

	if (f->seconds > 0)
		zr_json_put(&j, "forecast", zr_forecast_json(&s->facts, f, by, 0));
	char *text = zr_json_text(j, JSON_INDENT(2));
	zr_rundir_file(s->cfg, "plan.json", path, sizeof path);
	/* not durable: `zeroth plan` can make it again, and the first step need not wait */
	int no = text ? zr_file_new(AT_FDCWD, path, text, strlen(text), 0) : ENOMEM;
	free(text);
	json_decref(j);
	if (no)
		return zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(no));
	return 0;
}
