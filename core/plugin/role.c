/* SPDX-License-Identifier: Apache-2.0
 *
 * role.c - the table of roles. tests/system/contract.sh compares the functions with the headers.
 */
#include "core/plugin/role.h"

#include <string.h>

#include <zeroth/activation.h>
#include <zeroth/adapter.h>
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/data.h>
#include <zeroth/device.h>
#include <zeroth/model.h>
#include <zeroth/monitor.h>
#include <zeroth/offload.h>
#include <zeroth/optimizer.h>
#include <zeroth/precision.h>
#include <zeroth/scheduler.h>
#include <zeroth/zero.h>

#define STABLE 0
#define DRAFT  1

#define ALONE     .is_named = 0
#define NAMED     .is_named = 1
#define ALSO(...) .section = { __VA_ARGS__ }
#define ONLY(...) .has_no_plain = 1, .section = { __VA_ARGS__ }

#define ROLE(role, stability, needed, sections, first_call, ...)                                   \
	{ .name = #role,                                                                           \
	  .iface = "zr." #role "/1",                                                               \
	  .draft = stability,                                                                      \
	  .need = ZR_ROLE_##needed,                                                                \
	  sections,                                                                                \
	  .first = offsetof(struct zr_##role##_v1, first_call),                                    \
	  .call = { __VA_ARGS__ } },
const struct zr_role zr_roles[] = {
#include "core/plugin/roles.def"
	{ 0 },
};
#undef ROLE

#define ROLE(role, stability, needed, sections, first_call, ...)                                   \
	_Static_assert(offsetof(struct zr_##role##_v1, first_call) +                               \
				       sizeof((const char *[]){ __VA_ARGS__ }) <=                  \
			       sizeof(struct zr_##role##_v1),                                      \
		       "roles.def has more functions of " #role " than its header");
#include "core/plugin/roles.def"

const struct zr_role *zr_role_find(const char *text, size_t n)
{
	for (const struct zr_role *r = zr_roles; r->name; r++)
		if (strlen(r->name) == n && !strncmp(r->name, text, n))
			return r;
	return NULL;
}

const struct zr_role *zr_role_of_iface(const char *iface)
{
	const struct zr_role *r = zr_roles;
	while (r->name && strcmp(r->iface, iface))
		r++;
	return r;
}

static int may_be_null(const char *call)
{
	return *call == '?';
}

static int goes_with_the_one_before(const char *call)
{
	return *call == '+';
}

const char *zr_role_call(const struct zr_role *role, int i)
{
	const char *call = role->call[i];
	return call + (may_be_null(call) || goes_with_the_one_before(call));
}

zr_plugin_fn *zr_role_call_in(const struct zr_role *role, const void *table, int i)
{
	const uint32_t size = *(const uint32_t *)table;
	const uint32_t at = role->first + (uint32_t)i * sizeof(zr_plugin_fn *);
	if (at + sizeof(zr_plugin_fn *) > size)
		return NULL;
	return *(zr_plugin_fn *const *)((const char *)table + at);
}

uint32_t zr_role_least(const struct zr_role *role)
{
	uint32_t least = sizeof(uint32_t);
	for (uint32_t i = 0; role->call[i]; i++) {
		const char *call = role->call[i];
		if (!may_be_null(call) && !goes_with_the_one_before(call))
			least = role->first + (i + 1) * (uint32_t)sizeof(zr_plugin_fn *);
	}
	return least;
}

const char *zr_role_lacks(const struct zr_role *role, const void *table)
{
	for (int i = 0; role->call[i]; i++) {
		const char *call = role->call[i];
		if (may_be_null(call) || zr_role_call_in(role, table, i))
			continue;
		if (goes_with_the_one_before(call) && !zr_role_call_in(role, table, i - 1))
			continue;
		return zr_role_call(role, i);
	}
	return NULL;
}
