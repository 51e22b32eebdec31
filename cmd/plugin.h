/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - plugins described: as JSON, for people, and as a part of zeroth.ini(5).
 */
#ifndef ZR_CMD_PLUGIN_H
#define ZR_CMD_PLUGIN_H

#include <jansson.h>

#include "core/config/options.h"
#include "core/plugin/loader.h"

extern const char zr_plugin_usage[]; /* of all of `zeroth plugin` */

/* A new reference, or NULL: out of memory. No text of it is borrowed. */
json_t *zr_describe(const struct zr_plugin *p);
void zr_describe_text(const struct zr_plugin *p, FILE *out);
void zr_describe_mdoc(const struct zr_plugin *p, FILE *out);
void zr_describe_core_mdoc(FILE *out); /* the sections of core */

/* Every plugin that a configuration can name, each loaded in a process of its own: an array of
 * zr_describe, with role, id, file and shadowed; `error` or `missing` say why one cannot be used.
 * *out is owned by the caller. */
int zr_plugins_list(json_t **out, struct zr_error *err);

#endif
