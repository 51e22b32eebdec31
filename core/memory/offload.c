/* SPDX-License-Identifier: Apache-2.0
 *
 * offload.c - the sections [offload.X]: their stores, and which of them could never act.
 */

#include "core/setup.h"

static int start_offload(struct zr_setup *s, int i, struct zr_error *err)
{
	const char *section = zr_role_of_iface("zr.offload/1")->section[i];
	struct zr_instance *it = &s->roles.offload[i];
	struct zr_tier_info *tier = &s->facts.tier[i];
	if (it->section || !zr_config_find(s->cfg, section))
		return 0;

	int rc = zr_setup_start(s, it, section, "zr.offload/1", err);
	if (rc)
		return rc;

	tier->size = sizeof *tier;
	rc = ZR_ASK(it, offload, info, err, tier);
	if (rc)
		return rc;

	const struct zr_offload_v1 *v = it->vtbl;
	if (tier->direct && !v->map)
		return zr_err(err, ZR_EINVAL,
			      "plugin %s: zr.offload/1: direct = 1 and no function "
			      "map; mend the plugin",
			      it->section->plugin->path);
	if (tier->direct && s->facts.device_info.unified)
		return zr_config_blame(s->cfg, section, ZR_EINVAL, err,
				       "plugin: device and host are one memory here, so this moves "
				       "nothing: give the device a memory of its own ([device] "
				       "memory = ...), choose a plugin for disk or take the "
				       "section out");
	return 0;
}

/* Sections that could never act are refused, with the stage that gives them something to do. */
int zr_offloads_check(const struct zr_setup *s, struct zr_error *err)
{
	const struct zr_setup_facts *f = &s->facts;
	int split = 0, whole = 0, on_disk = zr_on_disk(f, ZR_STORE_GRADIENT);
	for (int32_t u = 0; u < f->layout.n_units; u++) {
		split |= f->groups[u].param != ZR_GROUP_SELF;
		whole |= f->groups[u].state == ZR_GROUP_SELF;
	}
	const char *stage = s->roles.zero.section->plugin->desc->id;
	if (zr_offloaded(f, ZR_STORE_PARAM) && !split)
		return zr_err(err, ZR_EINVAL,
			      "[offload.param] needs a stage that splits "
			      "parameters, and %s keeps all of them whole: choose a [zero] plugin "
			      "of ZeRO stage 3 (or leave less of it persistent)",
			      stage);
	if (on_disk && whole)
		return zr_err(err, ZR_EINVAL,
			      "[offload.gradient] on disk needs a stage that "
			      "splits the optimizer's state, and %s keeps it whole: choose a "
			      "[zero] plugin of ZeRO stage 1, 2 or 3",
			      stage);
	if (zr_offloaded(f, ZR_STORE_PARAM) && !zr_offloaded(f, ZR_STORE_OPTIMIZER) &&
	    f->types.dtype == ZR_F32)
		return zr_err(err, ZR_EINVAL,
			      "[offload.param] frees nothing in fp32 while the "
			      "master copy stays on the device: add [offload.optimizer]");
	if (!f->device_info.host_ops && !zr_offloaded(f, ZR_STORE_OPTIMIZER) &&
	    (zr_offloaded(f, ZR_STORE_PARAM) || zr_offloaded(f, ZR_STORE_GRADIENT)))
		return zr_err(err, ZR_EINVAL,
			      "[offload.%s]: an optimizer on device %s cannot "
			      "reach it: add [offload.optimizer], so that it runs on the host",
			      zr_offloaded(f, ZR_STORE_PARAM) ? "param" : "gradient",
			      f->device_info.name);
	return 0;
}

int zr_offloads_start(struct zr_setup *s, struct zr_error *err)
{
	int rc = 0;
	for (int i = 0; !rc && i < ZR_OFFLOADS; i++)
		rc = start_offload(s, i, err);
	return rc;
}
