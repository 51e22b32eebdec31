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

#endif
