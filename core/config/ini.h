/* SPDX-License-Identifier: Apache-2.0
 *
 * ini.h - the lines of an INI file, with their numbers. Comments: a line or, after a blank, the
 * rest of a line that starts with ; or #. A value in double quotes is taken as it is, with \" and
 * \\ for these two. [main] thread.
 */
#ifndef ZR_CORE_INI_H
#define ZR_CORE_INI_H

#include "core/base/error.h"

typedef int zr_ini_fn(void *arg, const char *section, const char *key, const char *value, int line);

/* Calls fn for every [section] (key and value NULL) and every key = value, in order; the texts are
 * valid for the call. Stops when fn returns nonzero and returns that. Lines that are neither, that
 * are too long, or that hold control characters fail with "name:line: text"; `name` is the file as
 * messages call it. */
int zr_ini_read(const char *path, const char *name, zr_ini_fn *fn, void *arg, struct zr_error *err);

/* Writes a value so that it reads back as it is: in quotes where it must be. */
void zr_ini_write_value(FILE *out, const char *value);

#endif
