/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin.c - zeroth plugin list|info|check|new. `list` loads each file in a process of its own, so
 * that a plugin that crashes, hangs or prints disturbs no other.
 */
#include "cmd/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/check/command.h"
#include "cmd/cmd.h"
#include "cmd/new/new_plugin.h"
#include "core/base/child.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "core/plugin/plugin_file.h"
#include "train/run/crash.h"
#include "train/run/outlet.h"

#define PATIENCE 10 /* seconds that one plugin may take to load */

struct probing {
	struct zr_host h;
	char text[1024];
};

static int keep_text(const struct zr_host *h, int32_t code, const char *msg)
{
	struct probing *p = h->impl;
	snprintf(p->text, sizeof p->text, "%s", msg);
	return code;
}

static void say_nothing(const struct zr_host *h, int32_t level, const char *msg)
{
	(void)h, (void)level, (void)msg;
}

/* Adds to the description what this machine lacks for the plugin. */
static json_t *probed(const struct zr_plugin *p)
{
	struct probing t = { .h = { .size = sizeof t.h,
				    .abi_minor = ZR_ABI_MINOR,
				    .impl = &t,
				    .world = 1,
				    .local_world = 1,
				    .workers = 1,
				    .log = say_nothing,
				    .fail = keep_text } };
	json_t *j = zr_describe(p);

	if (ZR_HAS(p->desc, struct zr_desc, probe) && p->desc->probe && p->desc->probe(&t.h))
		zr_json_put(&j, "missing",
			    zr_json_string(*t.text ? t.text : "it does not say what",
					   "(not UTF-8)"));
	return j;
}

#define NO_MEMORY "{\"error\": \"out of memory\"}"

static json_t *unusable(const char *why)
{
	json_t *j = json_object();
	zr_json_put(&j, "error", zr_json_string(why, "(not UTF-8)"));
	return j;
}

/* In the child: the description or {"error": text} to fd. Never returns. */
static void describe_to(int fd, const char *role, const char *path)
{
	const struct zr_plugin *p;
	struct zr_error err = { 0 };
	int null = open("/dev/null", O_RDWR),
	    fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

	for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
		signal(fatal[i], SIG_DFL); /* sanitizers catch them */
	dup2(null, 1);
	dup2(null, 2);
	alarm(PATIENCE);
	json_t *j = zr_plugin_load(role, path, &p, &err) ? unusable(err.text) : probed(p);
	const char *text = zr_json_dump(j, JSON_COMPACT);
	if (!text)
		text = NO_MEMORY;
	_exit(zr_write_all_at(fd, text, strlen(text), ZR_HERE) ? 1 : 0);
}

/* What the child writes, or NULL, with errno ENOMEM if that was it. */
static json_t *json_from(FILE *f)
{
	char *text = NULL;
	size_t room = 0;
	json_error_t at;
	json_t *j = NULL;

	if (getdelim(&text, &room, 0, f) >= 0)
		j = zr_json_load(text, strlen(text), 0, &at);
	int no = errno;
	free(text);
	errno = no;
	return j;
}

static json_t *read_from(FILE *f, pid_t child)
{
	json_t *j = json_from(f);
	const char *why = j || errno != ENOMEM ? "ends the process that loads it" : "out of memory";
	char text[128];
	int status = 0;

	zr_child_wait(child, &status);
	if (j && WIFEXITED(status) && !WEXITSTATUS(status))
		return j;

	json_decref(j);
	snprintf(text, sizeof text, "%s", why);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(text, sizeof text, "does not load within %d s", PATIENCE);
	else if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "crashes when loaded: %s", strsignal(WTERMSIG(status)));
	return unusable(text);
}

static json_t *describe_apart(const char *role, const char *path)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return unusable(strerror(errno));

	FILE *f = fdopen(fd[0], "r");
	zr_outlet_push();
	pid_t child = f ? fork() : -1;
	if (!child)
		describe_to(fd[1], role, path);
	json_t *failed = child < 0 ? unusable(strerror(errno)) : NULL;
	close(fd[1]);
	json_t *j = failed;
	if (child >= 0)
		j = read_from(f, child);
	if (f)
		fclose(f);
	else
		close(fd[0]);
	return j;
}

static int list_one(void *arg, const char *role, const char *id, const char *path, int shadowed)
{
	json_t *j = describe_apart(role, path), **list = arg;

	zr_json_put(&j, "role", zr_json_string(role, "(not UTF-8)"));
	zr_json_put(&j, "id", zr_json_string(id, "(not UTF-8)"));
	if (!json_object_get(j, "file"))
		zr_json_put(&j, "file", zr_json_string(path, "(not UTF-8)"));
	zr_json_put(&j, "shadowed", json_boolean(shadowed));
	zr_json_add(list, j);
	return *list ? 0 : ENOMEM;
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *text = json_string_value(json_object_get(j, key));
	if (text)
		return text;
	return "";
}

/* Every refusal begins with the file, which has a column of its own: skips this prefix. */
static const char *reason(const json_t *j)
{
	const char *text = text_of(j, "error"), *file = text_of(j, "file"),
		   *at = strstr(text, file);
	if (at && !strncmp(text, "plugin ", 7) && at[strlen(file)] == ':')
		return at + strlen(file) + 2;
	return text;
}

static void print_list(const json_t *list)
{
	size_t i;
	json_t *j;

	json_array_foreach(list, i, j)
	{
		char name[300];
		snprintf(name, sizeof name, "%s/%s", text_of(j, "role"), text_of(j, "id"));
		if (json_object_get(j, "error"))
			printf("%-22s unusable: %s\n", name, reason(j));
		else if (json_object_get(j, "missing"))
			printf("%-22s not on this machine: %s\n", name, text_of(j, "missing"));
		else
			printf("%-22s %-7s %s\n", name, text_of(j, "version"),
			       text_of(j, "summary"));
		printf("%-22s         %s%s\n", "", text_of(j, "file"),
		       json_is_true(json_object_get(j, "shadowed")) ?
			       " (never used: an earlier directory has it)" :
			       "");
	}
}

static int print_json(json_t *j, const char *what)
{
	struct zr_error err = { 0 };
	if (zr_json_print(j, JSON_INDENT(2), what, &err))
		return zr_cmd_failed(&err);
	return 0;
}

/* no: what zr_plugin_scan gave, an errno or a code. */
static int cannot_list(int no, struct zr_error *err)
{
	if (no < 0)
		return zr_err(err, no, "cannot list the plugins");
	return zr_err(err, no == ENOMEM ? ZR_ENOMEM : ZR_EIO, "cannot list the plugins: %s",
		      strerror(no));
}

int zr_plugins_list(json_t **out, struct zr_error *err)
{
	json_t *found = json_array();

	int no = zr_plugin_scan(list_one, &found);
	if (no) {
		json_decref(found);
		return cannot_list(no, err);
	}

	*out = found;
	return 0;
}

static int list(const struct zr_plugin_args *a)
{
	struct zr_error err = { 0 };
	json_t *found;

	if (zr_plugins_list(&found, &err))
		return zr_cmd_failed(&err);
	if (a->json)
		return print_json(found, "the list of plugins");

	print_list(found);
	json_decref(found);
	return 0;
}

/* Which roles have a plugin of this id, and every id there is. */
struct search {
	const char *id;
	char roles[256], role[64];
	int n_roles;
	char **ids;
	int n_ids;
};

static int look(void *arg, const char *role, const char *id, const char *path, int shadowed)
{
	struct search *s = arg;
	size_t len = strlen(s->roles);
	char **more = realloc(s->ids, (size_t)(s->n_ids + 1) * sizeof *more);

	(void)path;
	if (!more)
		return ENOMEM;

	s->ids = more;
	if (!(s->ids[s->n_ids] = strdup(id)))
		return ENOMEM;

	s->n_ids++;
	if (strcmp(id, s->id) || shadowed)
		return 0;

	snprintf(s->role, sizeof s->role, "%s", role);
	snprintf(s->roles + len, sizeof s->roles - len, "%s%s/%s", len ? " or " : "", role, id);
	s->n_roles++;
	return 0;
}

static int role_of_id(struct search *s, struct zr_error *err)
{
	int rc = zr_plugin_scan(look, s);
	const char *near = NULL;

	if (rc)
		rc = cannot_list(rc, err);
	else if (s->n_roles > 1)
		rc = zr_err(err, ZR_EINVAL, "%s is ambiguous: %s", s->id, s->roles);
	else if (!s->n_roles && (near = zr_nearest(s->id, (const char *const *)s->ids, s->n_ids)))
		rc = zr_err(err, ZR_EINVAL, "no plugin '%s'; did you mean %s?", s->id, near);
	else if (!s->n_roles)
		rc = zr_err(err, ZR_EINVAL, "no plugin '%s'; see `zeroth plugin list`", s->id);
	for (int i = 0; i < s->n_ids; i++)
		free(s->ids[i]);
	free(s->ids);
	return rc;
}

/* Of [ROLE/]ID: its role, and *name becomes ID. *role NULL: it is a path. */
static int find_role(const char **name, const char **role, struct zr_error *err)
{
	static struct search s;
	const char *slash = strchr(*name, '/');

	*role = NULL;
	if (!slash) {
		s = (struct search){ .id = *name };
		*role = s.role;
		return role_of_id(&s, err);
	}

	const struct zr_role *named = zr_role_find(*name, (size_t)(slash - *name));
	if (!named || strpbrk(slash + 1, "/."))
		return 0;

	*role = named->name;
	*name = slash + 1;
	return 0;
}

static char *find_file(const char **name, const char **role, struct zr_error *err)
{
	return find_role(name, role, err) ? NULL : zr_plugin_file_find(*role, *name, err);
}

static int load(const char *name, const struct zr_plugin **p, struct zr_error *err)
{
	const char *role;

	zr_crash_loading(name);
	int rc = find_role(&name, &role, err);
	if (!rc)
		rc = zr_plugin_load(role, name, p, err);
	zr_crash_loading(NULL);
	return rc;
}

static int info(const struct zr_plugin_args *a)
{
	const struct zr_plugin *p;
	struct zr_error err = { 0 };

	if (!a->name && a->mdoc) {
		zr_describe_core_mdoc(stdout);
		return 0;
	}

	if (!a->name)
		return zr_cmd_wrong(&zr_plugin_usage, "[ROLE/]ID|PATH is missing");
	if (load(a->name, &p, &err))
		return zr_cmd_failed(&err);
	if (a->json)
		return print_json(zr_describe(p), "the plugin");
	if (a->mdoc)
		zr_describe_mdoc(p, stdout);
	else
		zr_describe_text(p, stdout);
	return 0;
}

static int check(const struct zr_plugin_args *a)
{
	return zr_cmd_plugin_check(a, find_file);
}

int zr_cmd_plugin(int argc, char **argv)
{
	static const struct {
		const char *verb;
		int (*run)(const struct zr_plugin_args *a);
	} verbs[] = {
		{ "list", list }, { "info", info }, { "check", check }, { "new", zr_cmd_plugin_new }
	};
	struct zr_plugin_args a = { .timeout = 30 };
	struct zr_cmd_operands operands;
	int rc;
	const struct zr_cmd_form *form = zr_cmd_verb(argc, argv, &zr_plugin_usage, &rc);
	if (!form)
		return rc;

	rc = zr_cmd_parse(argc - 1, argv + 1, &zr_plugin_usage, form, &a, &operands);
	if (rc >= 0)
		return rc;

	a.name = operands.at[operands.n > 1];
	a.role = operands.n > 1 ? operands.at[0] : NULL;
	size_t i = 0;
	while (strcmp(verbs[i].verb, form->verb))
		i++;
	return verbs[i].run(&a);
}
