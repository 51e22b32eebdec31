/* SPDX-License-Identifier: Apache-2.0
 *
 * new_plugin.c - zeroth plugin new: a complete plugin to begin with, from the templates beside this
 * file.
 */
#include "cmd/new/new_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/plugin.h"
#include "core/base/file.h"
#include "core/config/config.h"

#define NAME_MOST 63

/* A file that is written, and the templates that it comes from, one after the other. */
enum { FROM = 3 };
static const struct part {
	const char *to;
	struct {
		const char *name, *but;
	} from[FROM]; /* but for this role, which brings its own */
} parts[] = {
	{ "@ID@.c", { { "@ROLE@.c", NULL } } },
	{ "Makefile", { { "Makefile", NULL } } },
	{ "@ID@.ini", { { "plugin.ini", NULL }, { "gpt2.ini", "model" }, { "text.ini", "data" } } },
	{ "README.md", { { "README.md", NULL } } },
};
enum { PARTS = sizeof parts / sizeof *parts };

struct plan {
	const char *role, *id, *dir;
	char path[PARTS][PATH_MAX];
};

/* Copies text with what stands for names replaced. */
static void fill(const struct plan *p, const char *text, FILE *out)
{
	const struct zr_role *role = zr_role_find(p->role, strlen(p->role));
	const char *section = role->has_no_plain ? role->section[0] : role->name;
	const int named = role->is_named && role->need == ZR_ROLE_OPTIONAL;

	const struct {
		const char *mark, *name, *more;
	} marks[] = {
		{ "@ID@", p->id, "" },
		{ "@ROLE@", p->role, "" },
		/* several monitors may be active, so each has a name */
		{ "@SECTION@", section, named ? ".mine" : "" },
	};
	while (*text) {
		size_t i = 0;
		for (; i < 3 && strncmp(text, marks[i].mark, strlen(marks[i].mark)); i++)
			;
		if (i < 3)
			fprintf(out, "%s%s", marks[i].name, marks[i].more);
		else
			fputc(*text, out);
		text += i < 3 ? strlen(marks[i].mark) : 1;
	}
}

static int filled(const struct plan *p, const char *text, char *to, size_t room)
{
	FILE *f = fmemopen(to, room, "w");
	if (!f)
		return -1;

	fill(p, text, f);
	return fclose(f);
}

/* Writes what the template of this name has. */
static int write_template(const struct plan *p, const char *name, FILE *out, struct zr_error *err)
{
	char file[128];
	const struct zr_template *t = zr_templates;

	if (filled(p, name, file, sizeof file))
		return zr_no_memory(err);

	while (t->name && strcmp(t->name, file))
		t++;
	if (!t->name)
		return zr_err(err, ZR_EINTERNAL, "there is no template %s", file);

	for (const char *const *line = t->line; *line; line++) {
		fill(p, *line, out);
		fputc('\n', out);
	}

	return 0;
}

static int write_part(const struct plan *p, int i, struct zr_error *err)
{
	int fd = open(p->path[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), rc = 0;

	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out)
		return zr_err(err, ZR_EIO, "%s: %s", p->path[i], strerror(errno));

	for (int k = 0; k < FROM && parts[i].from[k].name && !rc; k++) {
		const char *but = parts[i].from[k].but;
		if (but && !strcmp(p->role, but))
			continue;

		rc = write_template(p, parts[i].from[k].name, out, err);
	}

	if (fclose(out) && !rc)
		rc = zr_err(err, ZR_EIO, "%s: %s", p->path[i], strerror(errno));
	if (rc)
		unlink(p->path[i]);
	return rc;
}

/* Its template is ROLE.c. */
static int has_template(const char *role)
{
	char file[64];

	snprintf(file, sizeof file, "%s.c", role);
	for (const struct zr_template *t = zr_templates; t->name; t++)
		if (!strcmp(t->name, file))
			return 1;
	return 0;
}

static int known_role(const char *role, struct zr_error *err)
{
	char list[160] = "";

	if (zr_role_find(role, strlen(role)) && has_template(role))
		return 0;
	if (!strcmp(role, "device"))
		return zr_err(err, ZR_EINVAL,
			      "there is no template of a device: it has all "
			      "operations of zeroth/device.h, which no short source can show; "
			      "begin with a copy of plugins/device/cpu of Zeroth's sources");

	for (const struct zr_role *r = zr_roles; r->name; r++) {
		size_t n = strlen(list);
		if (has_template(r->name))
			snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", r->name);
	}

	return zr_err(err, ZR_EINVAL, "there is no template for role '%s', but for %s", role, list);
}

static int check_name(const char *id, struct zr_error *err)
{
	if (*id < 'a' || *id > 'z' || strlen(id) > NAME_MOST ||
	    strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(id))
		return zr_err(err, ZR_EINVAL,
			      "'%s' is no name of a plugin: it has 1 to %d of a-z, "
			      "0-9, _ and -, a letter first",
			      id, NAME_MOST);
	return 0;
}

static int write_all(struct plan *p, struct zr_error *err)
{
	char name[128];
	int rc = 0;

	for (int i = 0; i < PARTS; i++) {
		if (filled(p, parts[i].to, name, sizeof name))
			return zr_no_memory(err);

		snprintf(p->path[i], sizeof p->path[i], "%s/%s", p->dir, name);
		if (!faccessat(AT_FDCWD, p->path[i], F_OK, AT_SYMLINK_NOFOLLOW))
			return zr_err(err, ZR_EINVAL,
				      "%s is there already, and nothing is written "
				      "over; choose another name or --dir",
				      p->path[i]);
	}

	const int made = !mkdir(p->dir, 0777);
	if (!made && errno != EEXIST)
		return zr_err(err, ZR_EIO, "%s: %s", p->dir, strerror(errno));

	for (int i = 0; i < PARTS && !rc; i++)
		if ((rc = write_part(p, i, err)))
			while (i-- > 0) /* so that it can be called again */
				unlink(p->path[i]);
	if (rc && made)
		rmdir(p->dir);
	return rc;
}

int zr_cmd_plugin_new(const struct zr_plugin_args *a)
{
	struct plan p = { .role = a->role, .id = a->name, .dir = a->dir ? a->dir : a->name };
	struct zr_error err = { 0 };

	if (known_role(p.role, &err) || check_name(p.id, &err) || write_all(&p, &err))
		return zr_cmd_failed(&err);

	printf("%s: %s.c, Makefile, %s.ini and README.md; next: make -C %s check\n", p.dir, p.id,
	       p.id, p.dir);
	return 0;
}
