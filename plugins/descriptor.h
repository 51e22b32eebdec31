/* SPDX-License-Identifier: Apache-2.0
 *
 * descriptor.h - what the file of a plugin ends with: its descriptor and its entry. A plugin names
 * its role, itself, its table of functions, and the members of struct zr_desc that are its own:
 *
 *	PLUGIN(optimizer, "adam", &vtbl,
 *	       .version = "1",
 *	       .summary = "Adam with L2 weight decay.",
 *	       PLUGIN_OPTIONS(struct adam_opts, options),
 *	       .create = adam_create,
 *	       .destroy = adam_destroy);
 */
#ifndef ZR_DESCRIPTOR_H
#define ZR_DESCRIPTOR_H

#include <zeroth/plugin.h>

/* The members that describe options: a table whose values the host keeps in a `type`. */
#define PLUGIN_OPTIONS(type, table)                                                                \
	.opts = table, .n_opts = sizeof table / sizeof *table, .opt_stride = sizeof *table,        \
	.opts_size = sizeof(type)

/* `desc`, of a plugin with several interfaces. */
#define PLUGIN_DESC(of_role, name, interfaces, ...)                                                \
	static const struct zr_desc desc = { .size = sizeof desc,                                  \
					     .role = #of_role,                                     \
					     .id = name,                                           \
					     .license = "Apache-2.0",                              \
					     .ifaces = interfaces,                                 \
					     __VA_ARGS__ }

/* An interface of a role. A table of another role's functions does not compile. */
#define PLUGIN_IFACE(of_role, table)                                                               \
	{                                                                                          \
		"zr." #of_role "/1", _Generic(table, const struct zr_##of_role##_v1 * : (table))   \
	}

#define PLUGIN(...) PLUGIN_NEED(0, __VA_ARGS__)

/* With ZR_PLUGIN_NEED's least minor of a host. */
#define PLUGIN_NEED(minor, of_role, name, table, ...)                                              \
	static const struct zr_iface ifaces[] = { PLUGIN_IFACE(of_role, table), { NULL, NULL } };  \
	PLUGIN_DESC(of_role, name, ifaces, __VA_ARGS__);                                           \
	ZR_PLUGIN_NEED(minor, &desc)

#endif
