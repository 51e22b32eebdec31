/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.h - plugins described: as JSON, for people, and as a part of zeroth.ini(5).
 */
#ifndef ZR_CMD_PLUGIN_H
#define ZR_CMD_PLUGIN_H

#include <jansson.h>

#include "core/config/options.h"
#include "core/plugin/loader.h"

#define ZR_PLUGIN_PATTERNS 64 /* most patterns, or options, of `zeroth plugin check` */

/* What the verbs of `zeroth plugin` are asked. */
struct zr_plugin_args {
	const char *name; /* [ROLE/]ID or PATH; NULL: not given */
	const char *role; /* of `new` */
	int json, mdoc, list_tests;
	const char *include[ZR_PLUGIN_PATTERNS], *exclude[ZR_PLUGIN_PATTERNS];
	const char *given[ZR_PLUGIN_PATTERNS]; /* KEY=VALUE */
	int n_include, n_exclude, n_given;
	double timeout;  /* seconds */
	const char *dir; /* NULL: not given */
};

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
