/* SPDX-License-Identifier: Apache-2.0
 *
 * command.h - zeroth plugin check.
 */
#ifndef ZR_CMD_CHECK_COMMAND_H
#define ZR_CMD_CHECK_COMMAND_H

#include "core/base/error.h"

/* The file that *name means, as `plugin info` takes it, to be freed; NULL: none, err says why.
 * *role becomes that of an id, whose name *name then is; NULL: *name is a path. */
typedef char *zr_plugin_find_fn(const char **name, const char **role, struct zr_error *err);

struct zr_plugin_args;

int zr_cmd_plugin_check(const struct zr_plugin_args *a, zr_plugin_find_fn *find);

#endif
