/* SPDX-License-Identifier: Apache-2.0
 *
 * others.c - plugins of this installation that stand beside the one that is tested: a device, whose
 * operations core lends, and a model, which an adapter needs.
 */
#include <string.h>
#include <zeroth/device.h>

#include "cmd/check/check.h"
#include "core/plugin/host.h"

static const char *const small[] = { "layers=2", "heads=2", "width=32", "context=16" };

/* One of them, as if it were tested; 0: there is none. */
static int find_other(struct zr_check *c, const char *role, const char *id,
		      const char *const *given, int n, struct zr_check *side)
{
	struct zr_error err = { 0 };
	char iface[32];
	*side = (struct zr_check){ .verdict = c->verdict, .pool = c->pool, .scratch = c->scratch,
				   .minor = ZR_ABI_MINOR, .given = given, .n_given = n,
				   .offer = c->offer,
				   .output = { c->output[0], c->output[1] } };
	if (zr_plugin_load(role, id, &side->plugin, &err))
		return 0;
	snprintf(iface, sizeof iface, "zr.%s/1", role);
	side->vtbl = zr_check_table(side, iface);
	return 1;
}

int zr_check_model(struct zr_check *c, const char *id, struct zr_check *side)
{
	return find_other(c, "model", id, small, 4, side);
}

static int open_other(struct zr_check *c, const char *role, const char *id,
		      const char *const *given, int n, struct zr_check *side, struct zr_try *it)
{
	char function[sizeof c->verdict->function];
	if (!find_other(c, role, id, given, n, side))
		return 0;
	snprintf(function, sizeof function, "%s", c->verdict->function);
	zr_try_open(side, it);
	zr_blame(c, function);
	return 1;
}

const struct zr_ops *zr_check_ops(struct zr_check *c)
{
	static struct zr_check side;
	static struct zr_try it;
	static const struct zr_ops *ops;
	if (!ops && open_other(c, "device", "cpu", NULL, 0, &side, &it))
		ops = ((const struct zr_device_v1 *)side.vtbl)->ops(it.inst);
	return ops;
}

const struct zr_ops *zr_check_scalar_ops(struct zr_check *c)
{
	static const char *const scalar[] = { "isa=scalar" };
	static struct zr_check side;
	static struct zr_try it;
	if (!it.inst && !open_other(c, "device", "cpu", scalar, 1, &side, &it))
		return NULL;
	return ((const struct zr_device_v1 *)side.vtbl)->ops(it.inst);
}

const void *zr_check_offer(struct zr_try *t, const char *iface, struct zr_inst **inst)
{
	static struct zr_check side;
	static struct zr_try it;
	const char *role = zr_host_role_of(iface);
	if (!role || strcmp(role, t->c->plugin->desc->role))
		return NULL;
	if (!strcmp(iface, "zr.boot/1")) {
		*inst = NULL;
		return zr_check_boot();
	}
	if (strcmp(iface, "zr.model/1"))
		return NULL;
	if (!it.inst && !open_other(t->c, "model", "gpt2", small, 4, &side, &it))
		return NULL;
	*inst = it.inst;
	return side.vtbl;
}
