/* SPDX-License-Identifier: Apache-2.0
 *
 * wrapped.h - for plugins of tests that are another plugin but for something: the one that they
 * wrap.
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

/* What a plugin has that wraps one other of a role: descriptions and tables, its own and the real
 * ones. It defines create, which sets host, and a constructor that calls wrap and then replaces
 * what it does itself. */
#define WRAP(role, file, name)                                                                     \
	static struct zr_desc desc;                                                                \
	static struct zr_##role##_v1 vtbl;                                                         \
	static const struct zr_desc *real;                                                         \
	static const struct zr_##role##_v1 *real_vtbl;                                             \
	static const struct zr_host *host;                                                         \
	static int create(const struct zr_host *h, const void *opts, struct zr_inst **out);        \
	static void wrap(void)                                                                     \
	{                                                                                          \
		static const struct zr_iface ifaces[2] = { { "zr." #role "/1", &vtbl } };          \
		real = wrapped(file);                                                              \
		real_vtbl = real->ifaces[0].vtbl;                                                  \
		vtbl = *real_vtbl;                                                                 \
		desc = *real;                                                                      \
		desc.id = name;                                                                    \
		desc.ifaces = ifaces;                                                              \
		desc.create = create;                                                              \
	}

/* As WRAP, where instances are made as the real plugin makes them. */
#define WRAP_MADE(role, file, name)                                                                \
	WRAP(role, file, name)                                                                     \
	static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)         \
	{                                                                                          \
		host = h;                                                                          \
		return real->create(h, opts, out);                                                 \
	}

/* n lines "NAME first second" to $VARIABLE.RANK, if the variable is set. */
static inline void write_counts(const char *variable, int rank, int n, const char *const *name,
				const long *first, const long *second)
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
