/* SPDX-License-Identifier: Apache-2.0
 *
 * others.c - plugins of this installation that stand beside the one that is tested: a device, whose
 * operations core lends, and a model, which an adapter needs.
 */
#include <stdlib.h>
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

	*side = (struct zr_check){ .verdict = c->verdict,
				   .told = c->told,
				   .when = c->when,
				   .pool = c->pool,
				   .deals = c->deals,
				   .scratch = c->scratch,
				   .calls = c->calls,
				   .seed = c->seed,
				   .minor = ZR_ABI_MINOR,
				   .given = given,
				   .n_given = n,
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

/* An instance beside the plugin, open as long as the test. */
struct zr_other {
	struct zr_check side;
	struct zr_try it;
};

/* NULL: there is none. */
static struct zr_other *open_other(struct zr_check *c, int slot, const char *role, const char *id,
				   const char *const *given, int n)
{
	char function[sizeof c->verdict->function];

	if (c->other[slot])
		return c->other[slot];

	struct zr_other *o = calloc(1, sizeof *o);
	if (!o || !find_other(c, role, id, given, n, &o->side)) {
		free(o);
		return NULL;
	}

	snprintf(function, sizeof function, "%s", c->verdict->function);
	zr_try_open(&o->side, &o->it);
	zr_blame(c, function);
	return c->other[slot] = o;
}

static const struct zr_ops *ops_of(const struct zr_other *o)
{
	if (!o)
		return NULL;
	return ((const struct zr_device_v1 *)o->side.vtbl)->ops(o->it.inst);
}

const struct zr_ops *zr_check_ops(struct zr_check *c)
{
	return ops_of(open_other(c, ZR_OTHER_DEVICE, "device", "cpu", NULL, 0));
}

void zr_check_device_text(struct zr_check *c, struct zr_try *t, int rc)
{
	struct zr_other *o = c->other[ZR_OTHER_DEVICE];

	if (!o || !rc || t->code || o->it.code != rc)
		return;

	t->code = rc;
	snprintf(t->text, sizeof t->text, "%s", o->it.text);
	o->it.code = 0;
}

const struct zr_ops *zr_check_scalar_ops(struct zr_check *c)
{
	static const char *const scalar[] = { "isa=scalar" };
	return ops_of(open_other(c, ZR_OTHER_SCALAR, "device", "cpu", scalar, 1));
}

const void *zr_check_offer(struct zr_try *t, const char *iface, struct zr_inst **inst)
{
	const char *role = zr_host_role_of(iface);
	if (!role || strcmp(role, t->c->plugin->desc->role))
		return NULL;
	if (!strcmp(iface, "zr.boot/1")) {
		*inst = NULL;
		return zr_check_boot();
	}

	if (strcmp(iface, "zr.model/1"))
		return NULL;

	struct zr_other *o = open_other(t->c, ZR_OTHER_MODEL, "model", "gpt2", small, 4);
	if (!o)
		return NULL;

	*inst = o->it.inst;
	return o->side.vtbl;
}
