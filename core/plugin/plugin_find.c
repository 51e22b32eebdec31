/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_find.c - from an id to a file: the directories, in order, and everything in them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/config/config.h"
#include "core/plugin/plugin_file.h"
#include "core/plugin/prefix.h"

#define MAX_DIRS 32

const char *zr_trusted_env(const char *name)
{
	if (getauxval(AT_SECURE))
		return NULL;

	const char *v = getenv(name);
	return v && *v ? v : NULL;
}

struct dirs {
	char text[4096]; /* of ZEROTH_PLUGIN_PATH, cut at its colons */
	const char *dir[MAX_DIRS];
	int n;
};

static int list_dirs(struct dirs *d, struct zr_error *err)
{
	const char *env = zr_trusted_env("ZEROTH_PLUGIN_PATH");
	char *at = d->text, *part;
	d->n = 0;
	if (env && strlen(env) >= sizeof d->text)
		return zr_err(err, ZR_EINVAL, "ZEROTH_PLUGIN_PATH is longer than %zu bytes",
			      sizeof d->text - 1);

	strcpy(d->text, env ? env : "");
	while ((part = strsep(&at, ":"))) {
		if (!*part)
			continue;
		if (*part != '/')
			return zr_err(err, ZR_EINVAL,
				      "ZEROTH_PLUGIN_PATH: '%s' is not an absolute path", part);
		if (d->n == MAX_DIRS - 1)
			return zr_err(err, ZR_EINVAL,
				      "ZEROTH_PLUGIN_PATH names more than %d directories",
				      MAX_DIRS - 1);

		d->dir[d->n++] = part;
	}

	d->dir[d->n++] = zr_installed_plugins();
	return 0;
}

/* One candidate of a scan. */
struct found {
	char id[NAME_MAX + 1];
	int dir;
};

struct list {
	struct found *v;
	int n, no; /* no: errno of a directory that could not be listed */
};

static int by_id(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int c = strcmp(x->id, y->id);
	if (c)
		return c;
	return x->dir - y->dir;
}

static void add_dir(struct list *l, const char *dir, const char *role, int number)
{
	char path[PATH_MAX];
	struct dirent *e;
	snprintf(path, sizeof path, "%s/%s", dir, role);
	DIR *d = opendir(path);
	while (d && (errno = 0, e = readdir(d))) {
		size_t len = strlen(e->d_name);
		if (len < 4 || strcmp(e->d_name + len - 3, ".so"))
			continue;
		struct found *more = realloc(l->v, ((size_t)l->n + 1) * sizeof *more);
		if (!more)
			break;
		l->v = more;
		snprintf(l->v[l->n].id, sizeof l->v->id, "%.*s", (int)len - 3, e->d_name);
		l->v[l->n++].dir = number;
	}

	if (errno && errno != ENOENT)
		zr_logf(ZR_LOG_WARN, NULL, "%s: its plugins cannot be listed: %s", path,
			strerror(l->no = errno));
	if (d)
		closedir(d);
}

/* Everything of a role, by id, earlier directories first. */
static struct list list_role(const struct dirs *d, const char *role)
{
	struct list l = { 0 };
	for (int i = 0; i < d->n; i++)
		add_dir(&l, d->dir[i], role, i);
	if (l.n)
		qsort(l.v, (size_t)l.n, sizeof *l.v, by_id);
	return l;
}

int zr_plugin_scan(zr_scan_fn *fn, void *arg)
{
	struct dirs d;
	struct zr_error err = { 0 };
	int rc = list_dirs(&d, &err);
	if (rc)
		zr_logf(ZR_LOG_ERROR, NULL, "%s", err.text);
	for (const struct zr_role *r = zr_roles; !rc && r->name; r++) {
		struct list l = list_role(&d, r->name);
		/* what is missed may be what is looked for */
		if (l.no == EIO || l.no == ENOMEM)
			rc = l.no;
		for (int i = 0; !rc && i < l.n; i++) {
			char path[PATH_MAX];
			snprintf(path, sizeof path, "%s/%s/%s.so", d.dir[l.v[i].dir], r->name,
				 l.v[i].id);
			rc = fn(arg, r->name, l.v[i].id, path,
				i && !strcmp(l.v[i].id, l.v[i - 1].id));
		}

		free(l.v);
	}
	return rc;
}

static char *unknown(const struct dirs *d, const char *role, const char *id, struct zr_error *err)
{
	struct list l = list_role(d, role);
	const char **names = calloc((size_t)l.n + 1, sizeof *names), *near = NULL;
	char where[512] = "", ids[512] = "";
	for (int i = 0; names && i < l.n; i++) {
		names[i] = l.v[i].id;
		if (!i || strcmp(names[i], names[i - 1]))
			zr_text_add(ids, sizeof ids, ", ", names[i]);
	}

	if (names)
		near = zr_nearest(id, names, l.n);
	for (int i = 0; i < d->n; i++)
		zr_text_add(where, sizeof where, ":", d->dir[i]);

	if (near)
		zr_err(err, ZR_EINVAL,
		       "no %s plugin '%s'; did you mean %s? `zeroth plugin info "
		       "%s/%s` lists its options",
		       role, id, near, role, near);
	else
		zr_err(err, ZR_EINVAL, "no %s plugin '%s' in %s%s%s", role, id, where,
		       *ids ? ", which has " : "; see `zeroth plugin list`", ids);
	free(names);
	free(l.v);
	return NULL;
}

char *zr_plugin_file_find(const char *role, const char *id, struct zr_error *err)
{
	struct dirs d;
	char path[PATH_MAX], *real;
	if (strchr(id, '/')) {
		real = realpath(id, NULL);
		if (!real)
			zr_err(err, zr_file_code(errno), "plugin %s: %s", id, strerror(errno));
		return real;
	}

	if (list_dirs(&d, err))
		return NULL;
	if (!*id || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(id))
		return unknown(&d, role, id, err);

	for (int i = 0; i < d.n; i++) {
		snprintf(path, sizeof path, "%s/%s/%s.so", d.dir[i], role, id);
		/* as the user who will open it: a set-user-ID process has another one as well */
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW | AT_EACCESS) &&
		    errno == ENOENT)
			continue;
		real = realpath(path, NULL);
		/* it is there and broken: going on to the next directory would be a silent
		 * fallback */
		if (!real)
			zr_err(err, zr_file_code(errno), "plugin %s: %s", path, strerror(errno));
		return real;
	}
	return unknown(&d, role, id, err);
}
