/* SPDX-License-Identifier: Apache-2.0
 *
 * wrapped.h - for plugins of tests that are another plugin but for something: the one that they wrap.
 */
#ifndef ZR_TESTS_WRAPPED_H
#define ZR_TESTS_WRAPPED_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <zeroth/plugin.h>

/* The description in $ZR_TEST_PLUGINS/FILE, for good; aborts without it. */
static inline const struct zr_desc *wrapped(const char *file)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", getenv("ZR_TEST_PLUGINS"), file);
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct zr_entry *entry = so ? dlsym(so, "zr_plugin_entry_v1") : NULL;
	if (!entry)
		abort();
	return entry->descs[0];
}

/* n lines "NAME first second" to $VARIABLE.RANK, if the variable is set. */
static inline void write_counts(const char *variable, int rank, int n, const char *const *name, const long *first, const long *second)
{
	char path[4096];
	const char *file = getenv(variable);
	snprintf(path, sizeof path, "%s.%d", file ? file : "", rank);
	FILE *f = file ? fopen(path, "w") : NULL;
	for (int i = 0; f && i < n; i++)
		fprintf(f, "%s %ld %ld\n", name[i], first[i], second[i]);
	if (f)
		fclose(f);
}

#endif
