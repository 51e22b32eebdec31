/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.h - finds, checks and loads plugin files. A bare id resolves to <dir>/<role>/<id>.so in
 * the directories of ZEROTH_PLUGIN_PATH (absolute, colon separated; ignored when set-user-id) and
 * then in the installed directory; anything with a slash is a path. dlopen gets an absolute path
 * and RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE. Every refusal names field, both values, file and
 * remedy. [main] thread. Loaded plugins are kept until the process ends; loading twice gives the
 * same pointer.
 */
#ifndef ZR_CORE_LOADER_H
#define ZR_CORE_LOADER_H

#include <zeroth/plugin.h>

#include "core/base/error.h"
#include "core/plugin/role.h"

struct zr_plugin {
	const struct zr_desc *desc;
	const struct zr_entry *entry;
	const char *path; /* absolute */
	const struct zr_plugin *next;
};
extern const struct zr_plugin *zr_plugins; /* all that are loaded */

/* If not NULL: the entry that has a plugin inside the program, which comes before files; NULL:
 * none. */
extern const struct zr_entry *(*zr_plugin_inside)(const char *role, const char *id);

int zr_plugin_load(const char *role, const char *id_or_path, const struct zr_plugin **out,
		   struct zr_error *err);

/* The vtable of interface `id` ("zr.optimizer/1"), or NULL with a text that names what it offers.
 * One that ends before its required functions is refused, as is one that lacks a function. */
const void *zr_plugin_iface(const struct zr_plugin *p, const char *id, struct zr_error *err);

/* Whether a plugin was built with the draft headers of a role as this zeroth has them: ZR_OF_*. */
enum {
	ZR_OF_BOOT,
	ZR_OF_COMM,
	ZR_OF_DEVICE,
	ZR_OF_MODEL,
	ZR_OF_OFFLOAD,
	ZR_OF_ACTIVATION,
	ZR_OF_LOOK,
};
int zr_draft_fits(const struct zr_entry *e, int of);

/* Every file that a bare id could resolve to, role by role, name by name, without loading any.
 * shadowed: an earlier directory has the same role and id. Stops when fn returns nonzero. */
typedef int zr_scan_fn(void *arg, const char *role, const char *id, const char *path, int shadowed);
int zr_plugin_scan(zr_scan_fn *fn, void *arg);

#endif
