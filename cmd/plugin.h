/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - plugins described: as JSON, for people, and as a part of zeroth.ini(5).
 */
#ifndef ZR_CMD_PLUGIN_H
#define ZR_CMD_PLUGIN_H

#include <jansson.h>

#include "core/config/loader.h"
#include "core/config/options.h"

/* A new reference, or NULL: out of memory. No text of it is borrowed. */
json_t *zr_describe(const struct zr_plugin *p);
void zr_describe_text(const struct zr_plugin *p, FILE *out);
void zr_describe_mdoc(const struct zr_plugin *p, FILE *out);
void zr_describe_core_mdoc(FILE *out); /* the sections of core */

#endif
