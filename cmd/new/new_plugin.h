/* SPDX-License-Identifier: Apache-2.0
 *
 * new_plugin.h - zeroth plugin new.
 */
#ifndef ZR_CMD_NEW_NEW_PLUGIN_H
#define ZR_CMD_NEW_NEW_PLUGIN_H

#include <stddef.h>

struct zr_plugin_args;

int zr_cmd_plugin_new(const struct zr_plugin_args *a);

/* templates.c, which is made of the files in this folder; the last one has no name. */
struct zr_template {
	const char *name;
	const char *const *line; /* ends with NULL */
};
extern const struct zr_template zr_templates[];

#endif
