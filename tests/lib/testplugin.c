/* SPDX-License-Identifier: Apache-2.0
 *
 * testplugin.c - plugins for tests: loading by name, and options from their table's texts.
 */
#include "cards.h"
#include "testhost.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void broken(const char *what, const char *name)
{
	fprintf(stderr, "testhost: %s: %s\n", name, what);
	abort();
}

static const struct zr_desc *const *descs_of(const char *path)
{
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!so)
		broken(dlerror(), path);
	const struct zr_entry *entry = dlsym(so, "zr_plugin_entry_v1");
	if (!entry || entry->magic != ZR_MAGIC || entry->abi_major != ZR_ABI_MAJOR)
		broken("has no entry of this ABI", path);
	return entry->descs;
}

const struct zr_desc *const *test_plugin_all(const char *name)
{
	const char *dir = getenv("ZR_TEST_PLUGINS"), *slash = strchr(name, '/');
	char path[4096];
	if (!slash)
		broken("is not role/id", name);
	if (dir && *dir)
		snprintf(path, sizeof path, "%s/%s.so", dir, name);
	else
		snprintf(path, sizeof path, "./plugins/%.*s/.libs/%s.so", (int)(slash - name), name,
			 slash + 1);
	return descs_of(path);
}

const struct zr_desc *test_plugin_cards(void)
{
	return descs_of(strchr(cards_option(), '=') + 1)[0];
}

const struct zr_desc *test_plugin(const char *name)
{
	const struct zr_desc *const *all = test_plugin_all(name);
	if (!all[0])
		broken("holds no descriptor", name);
	return all[0];
}

const void *test_iface(const struct zr_desc *desc, const char *id)
{
	const struct zr_iface *f;
	for (f = desc->ifaces; f->id; f++)
		if (!strcmp(f->id, id))
			return f->vtbl;
	return NULL;
}

static const struct zr_opt *find(const struct zr_desc *desc, const char *name)
{
	uint32_t i;
	for (i = 0; i < desc->n_opts; i++) {
		const struct zr_opt *o =
			(const void *)((const char *)desc->opts + (size_t)i * desc->opt_stride);
		if (!strcmp(o->name, name))
			return o;
	}
	broken("no such option", name);
	return NULL;
}

static int set_auto(const struct zr_opt *o, void *at)
{
	switch (o->type) {
	case ZR_T_I64:
		*(int64_t *)at = ZR_AUTO_I64;
		return 0;
	case ZR_T_COUNT:
	case ZR_T_BYTES:
		*(uint64_t *)at = ZR_AUTO_COUNT;
		return 0;
	case ZR_T_ENUM:
		*(int32_t *)at = ZR_AUTO_ENUM;
		return 0;
	case ZR_T_F64:
	case ZR_T_F64S:
		*(double *)at = NAN;
		return 0;
	}
	return -1;
}

static int in_range(const struct zr_opt *o, double v)
{
	if (o->flags & ZR_O_MIN_OPEN ? !(v > o->min) : !(v >= o->min))
		return 0;
	return o->flags & ZR_O_MAX_OPEN ? v < o->max : v <= o->max;
}

static int set_number(const struct zr_opt *o, void *at, const char *text)
{
	static const char suffix[] = "KMGT";
	const char *s;
	char *end;
	double v = strtod(text, &end);
	if (end == text)
		return -1;
	if (o->type == ZR_T_BYTES && *end && (s = strchr(suffix, *end))) {
		v = ldexp(v, 10 * (int)(s - suffix + 1));
		end++;
	}
	if (*end || !isfinite(v) || !in_range(o, v))
		return -1;
	if (o->type != ZR_T_F64 && v != floor(v))
		return -1;
	if (o->type == ZR_T_F64)
		*(double *)at = v;
	else if (o->type == ZR_T_I64)
		*(int64_t *)at = (int64_t)v;
	else
		*(uint64_t *)at = (uint64_t)v;
	return 0;
}

static int set_list(const struct zr_opt *o, double *at, const char *text)
{
	uint32_t n = o->width / 8, i;
	char *end;
	for (i = 0; i < n; i++) {
		at[i] = strtod(text, &end);
		if (end == text || !isfinite(at[i]) || !in_range(o, at[i]))
			return -1;
		text = end + strspn(end, ", \t");
	}
	return *text ? -1 : 0;
}

static int set_word(const struct zr_opt *o, void *at, const char *text)
{
	static const char *const yes[] = { "yes", "true", "on", "1" }, *const no[] = { "no",
										       "false",
										       "off", "0" };
	int32_t i;
	if (o->type == ZR_T_ENUM) {
		for (i = 0; o->choices[i]; i++)
			if (!strcmp(o->choices[i], text)) {
				*(int32_t *)at = i;
				return 0;
			}
		return -1;
	}
	for (i = 0; i < 4; i++)
		if (!strcmp(yes[i], text) || !strcmp(no[i], text)) {
			*(uint8_t *)at = !strcmp(yes[i], text);
			return 0;
		}
	return -1;
}

static int set(const struct zr_opt *o, void *opts, const char *text)
{
	void *at = (char *)opts + o->offset;
	if ((o->flags & ZR_O_AUTO) && !strcmp(text, "auto"))
		return set_auto(o, at);
	switch (o->type) {
	case ZR_T_BOOL:
	case ZR_T_ENUM:
		return set_word(o, at, text);
	case ZR_T_I64:
	case ZR_T_F64:
	case ZR_T_BYTES:
	case ZR_T_COUNT:
		return set_number(o, at, text);
	case ZR_T_F64S:
		return set_list(o, at, text);
	case ZR_T_STR:
	case ZR_T_PATH:
	case ZR_T_GLOBS:
		*(const char **)at = text;
		return 0;
	}
	broken("unknown type of option", o->name);
	return -1;
}

void *test_options(const struct zr_desc *desc)
{
	uint32_t i;
	void *opts = calloc(1, desc->opts_size ? desc->opts_size : 1);
	if (!opts)
		abort();
	for (i = 0; i < desc->n_opts; i++) {
		const struct zr_opt *o =
			(const void *)((const char *)desc->opts + (size_t)i * desc->opt_stride);
		if (o->def && set(o, opts, o->def))
			broken("its own default is refused", o->name);
	}
	return opts;
}

int test_set(const struct zr_desc *desc, void *opts, const char *name, const char *text)
{
	return set(find(desc, name), opts, text);
}

int test_create(const struct zr_host *h, const struct zr_desc *desc, void *opts,
		struct zr_inst **out)
{
	struct zr_facts facts = {
		.size = sizeof facts, .world = h->world, .workers = h->workers, .lr = NAN
	};
	int rc = 0;
	if (desc->resolve)
		rc = desc->resolve(h, &facts, opts);
	if (!rc && desc->check)
		rc = desc->check(h, opts);
	if (rc)
		return rc;
	return desc->create(h, opts, out);
}
