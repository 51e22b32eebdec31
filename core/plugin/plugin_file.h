/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_file.h - what can be known of a plugin's file before any of its code runs, and where files
 * are. [main] thread.
 */
#ifndef ZR_CORE_PLUGIN_FILE_H
#define ZR_CORE_PLUGIN_FILE_H

#include "core/base/error.h"

/* Refuses what must not be loaded: not a regular file, one that others can write or own (or whose
 * directory they can), not ELF, truncated. `path` is absolute and free of links; the text does not
 * have it. */
int zr_plugin_file_check(const char *path, struct zr_error *err);

/* Absolute path of an id or path, links followed; the caller frees. NULL after an error. */
char *zr_plugin_file_find(const char *role, const char *id_or_path, struct zr_error *err);

/* Value of an environment variable that names trusted directories; NULL if unset, empty or
 * set-user-id. */
const char *zr_trusted_env(const char *name);

#endif
