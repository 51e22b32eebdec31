/* SPDX-License-Identifier: Apache-2.0
 *
 * command.c - zeroth plugin check: runs each test in a process of its own, with a limit of time,
 * and prints what became of it.
 */
#include "cmd/check/command.h"

#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/check/check.h"
#include "cmd/cmd.h"
#include "cmd/plugin.h"
#include "core/base/child.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "core/plugin/plugin_file.h"
#include "train/run/crash.h"
#include "train/run/outlet.h"

struct request {
	const struct zr_plugin_args *a;
	const char *name; /* PATH or ID */
	const char *role; /* NULL: it is a path */
	char *path;
	char scratch[64];
};

/* ---- in the process of a test ---------------------------------------------------- */

static void find_given(struct zr_check *c)
{
	struct zr_table t = zr_table_of(c->plugin->desc);

	for (int i = 0; i < c->n_given; i++) {
		char key[128];
		snprintf(key, sizeof key, "%.*s", (int)strcspn(c->given[i], "="), c->given[i]);
		const char *near = zr_table_nearest(&t, key);
		if (!zr_table_find(&t, key))
			zr_check_fail(c, "it has no option %s%s%s%s", key,
				      near ? "; did you mean " : "", near ? near : "",
				      near ? "?" : "");
	}
}

static void load(struct zr_check *c, const struct request *r, const struct zr_test *t)
{
	struct zr_process_state before, after;
	struct zr_error err = { 0 };
	char iface[64];

	snprintf(c->verdict->function, sizeof c->verdict->function, "%s", "");
	zr_process_look(&before);
	if (zr_plugin_load(r->role, r->role ? r->name : r->path, &c->plugin, &err)) {
		zr_check_has_file(c);
		zr_check_fail(c, "%s", err.text);
	}

	const struct zr_desc *d = c->plugin->desc;
	snprintf(c->verdict->plugin, sizeof c->verdict->plugin, "%s/%s", d->role, d->id);
	snprintf(c->verdict->role, sizeof c->verdict->role, "%s", d->role);
	zr_process_look(&after);
	const char *what = zr_process_differs(&before, &after, ZR_NO_THREAD);
	if (what)
		zr_check_fail(c, "loading it changed %s; a plugin has no constructors", what);
	zr_check_quiet(c);
	snprintf(iface, sizeof iface, "zr.%s/1", strcmp(d->role, "adapter") ? d->role : "model");
	c->vtbl = zr_check_table(c, iface);
	find_given(c);
	zr_imports_watch(c);
	if (t && (t->role || t->run == zr_test_training) && !c->vtbl)
		zr_check_fail(c, "it offers no interface %s", iface);
}

static void run_test(const struct request *r, const struct zr_test *t, struct zr_verdict *v)
{
	struct zr_check c = { .verdict = v,
			      .path = r->path,
			      .given = r->a->given,
			      .n_given = r->a->n_given,
			      .scratch = r->scratch,
			      .timeout = r->a->timeout,
			      .minor = ZR_ABI_MINOR,
			      .offer = zr_check_offer };

	zr_check_catch_output(&c);
	zr_check_pool(&c, 3, &c.pool);
	zr_check_catch(&c);
	if (!t || !t->unloaded)
		load(&c, r, t);
	if (t)
		t->run(&c);
	zr_check_quiet(&c);
	zr_check_pass(&c);
}

/* ---- in the process that waits --------------------------------------------------- */

/* The test cannot begin. */
static void lacks(struct zr_verdict *v, const char *what)
{
	v->state = ZR_CHECK_UNTESTED;
	snprintf(v->text, sizeof v->text, "this machine gives the test no %s: %s", what,
		 strerror(errno));
}

static void judge_end(struct zr_verdict *v, int status, int late, double timeout)
{
	char text[256], name[64];

	if (late && v->state == ZR_CHECK_RUNS)
		snprintf(text, sizeof text,
			 "it did not return within %g s; look for a loop or a "
			 "wait without end, or give --timeout",
			 timeout);
	else if (v->state != ZR_CHECK_RUNS)
		return;
	else if (zr_check_starved(status)) {
		errno = ENOMEM;
		lacks(v, "memory");
		return;
	} else if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "it was killed by %s; run the test in a debugger",
			 zr_signal_text(WTERMSIG(status), name, sizeof name));
	else
		snprintf(text, sizeof text,
			 "it ended the process with code %d; return a code "
			 "after zr_fail instead",
			 WEXITSTATUS(status));
	v->state = ZR_CHECK_FAILED;
	snprintf(v->text, sizeof v->text, "%s", text);
}

/* Whether a child ends in time. Where there is no descriptor for it, this looks now and then. */
static int ends_within(pid_t child, double timeout, int *status)
{
	const int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int rc;

	if (fd < 0) {
		double left = timeout;
		for (; !zr_child_ended(child, status); left -= 0.01) {
			if (left <= 0)
				return 0;

			poll(NULL, 0, 10);
		}

		return 1;
	}

	while ((rc = poll(&p, 1, (int)(timeout * 1000))) < 0 && errno == EINTR)
		;
	close(fd);
	if (rc)
		zr_child_wait(child, status);
	return rc != 0;
}

static void wait_for(pid_t child, struct zr_verdict *v, double timeout)
{
	int status = 0;
	const int late = !ends_within(child, timeout, &status);

	if (late) {
		kill(-child, SIGKILL);
		kill(child, SIGKILL);
		zr_child_wait(child, &status);
	}

	kill(-child, SIGKILL); /* what it left behind */
	judge_end(v, status, late, timeout);
}

static void empty_directory(const char *dir)
{
	char command[256];
	int status;

	pid_t child = fork();
	if (!child) {
		snprintf(command, sizeof command, "%s", dir);
		execlp("rm", "rm", "-rf", "--", command, (char *)NULL);
		_exit(1);
	}

	if (child > 0)
		zr_child_wait(child, &status);
}

/* t NULL: it is loaded and nothing else. */
static void run_apart(struct request *r, const struct zr_test *t, struct zr_verdict *v)
{
	memset(v, 0, sizeof *v);
	snprintf(r->scratch, sizeof r->scratch, "/tmp/zeroth-check-XXXXXX");
	if (!mkdtemp(r->scratch)) {
		lacks(v, "directory in /tmp");
		return;
	}

	zr_outlet_push();
	pid_t child = fork();
	if (!child) {
		setpgid(0, 0);
		run_test(r, t, v);
	}

	if (child < 0)
		lacks(v, "process");
	else
		wait_for(child, v, r->a->timeout);
	empty_directory(r->scratch);
}

static int matches(const char *const *pattern, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (!fnmatch(pattern[i], name, 0))
			return 1;
	return 0;
}

static int wanted(const struct request *r, const struct zr_test *t, const char *role)
{
	return (!t->role || !strcmp(t->role, role)) &&
	       (!r->a->n_include || matches(r->a->include, r->a->n_include, t->name)) &&
	       !matches(r->a->exclude, r->a->n_exclude, t->name);
}

/* ---- printing -------------------------------------------------------------------- */

static const char *const results[] = { "fail", "pass", "fail", "skip", "untested" };

static void print_tap(int number, const struct request *r, const struct zr_test *t,
		      const struct zr_verdict *v)
{
	const char *plugin = *v->plugin ? v->plugin : r->path;
	const int ok = v->state == ZR_CHECK_PASSED || v->state == ZR_CHECK_SKIPPED;

	printf("%s %d - %s: %s", ok ? "ok" : "not ok", number, t->name, t->says);
	if (v->state == ZR_CHECK_SKIPPED)
		printf(" # SKIP %s", v->text);
	putchar('\n');
	if (v->state == ZR_CHECK_FAILED)
		printf("# plugin %s%s%s%s: %s\n", plugin, *v->function ? ", " : "", v->function,
		       *v->function ? "()" : "", v->text);
	if (v->state == ZR_CHECK_UNTESTED)
		printf("# untested: %s\n", v->text);
}

static json_t *as_json(const struct zr_test *t, const struct zr_verdict *v)
{
	json_t *j = json_object();

	zr_json_put(&j, "test", json_string(t->name));
	zr_json_put(&j, "says", json_string(t->says));
	zr_json_put(&j, "result", json_string(results[v->state]));
	if (v->state != ZR_CHECK_PASSED) {
		zr_json_put(&j, "function", zr_json_string(v->function, "(not UTF-8)"));
		zr_json_put(&j, "text", zr_json_string(v->text, "(not UTF-8)"));
	}

	return j;
}

/* ---- the command ----------------------------------------------------------------- */

static int run_all(struct request *r, struct zr_verdict *v)
{
	static const struct zr_test loads = { "load", NULL, NULL, "it can be loaded", 0 };
	json_t *tests = json_array(), *all = json_object();
	struct zr_verdict first;
	struct zr_error err = { 0 };
	int n = 0, failed = 0, untested = 0;

	zr_check_starved(0);
	run_apart(r, NULL, v);
	first = *v;
	const int is_loaded = first.state == ZR_CHECK_PASSED;
	const int unloaded = first.state == ZR_CHECK_FAILED && !*first.plugin;
	for (const struct zr_test *t = zr_tests; t->name; t++) {
		if (!wanted(r, t, first.role) || (!is_loaded && !t->unloaded))
			continue;

		run_apart(r, t, v);
		failed += v->state == ZR_CHECK_FAILED;
		untested += v->state == ZR_CHECK_UNTESTED;
		n++;
		snprintf(v->plugin, sizeof v->plugin, "%s", first.plugin);
		if (!r->a->json)
			print_tap(n, r, t, v);
		zr_json_add(&tests, as_json(t, v));
	}

	if (!is_loaded) {
		failed += first.state == ZR_CHECK_FAILED;
		untested += first.state == ZR_CHECK_UNTESTED;
		n++;
		if (!r->a->json)
			print_tap(n, r, &loads, &first);
		zr_json_add(&tests, as_json(&loads, &first));
	}

	if (!r->a->json)
		printf("1..%d\n", n);
	zr_json_put(&all, "plugin", zr_json_string(first.plugin, "(not UTF-8)"));
	zr_json_put(&all, "file", zr_json_string(r->path, "(not UTF-8)"));
	zr_json_put(&all, "tests", tests);
	if (r->a->json && zr_json_print(all, JSON_INDENT(2), "the tests", &err))
		return zr_cmd_failed(&err);
	if (!r->a->json)
		json_decref(all);
	if (unloaded)
		return 2;
	if (failed)
		return 1;
	return untested ? 4 : 0;
}

static int list(void)
{
	for (const struct zr_test *t = zr_tests; t->name; t++)
		printf("%-12s %-22s %s\n", t->role ? t->role : "all", t->name, t->says);
	return 0;
}

int zr_cmd_plugin_check(const struct zr_plugin_args *a, zr_plugin_find_fn *find)
{
	struct request r = { .a = a, .name = a->name };
	struct zr_error err = { 0 };
	int rc;

	if (a->list_tests && a->name)
		return zr_cmd_wrong(&zr_plugin_usage, "--tests shows those of all plugins");
	if (a->list_tests)
		return list();
	if (!a->name)
		return zr_cmd_wrong(&zr_plugin_usage, "[ROLE/]ID|PATH is missing");

	for (int i = 0; i < a->n_given; i++)
		if (!strchr(a->given[i], '='))
			return zr_cmd_refuse(&zr_plugin_usage, "-o %s: expected KEY=VALUE",
					     a->given[i]);

	r.path = find(&r.name, &r.role, &err);
	if (!r.path)
		return zr_cmd_failed(&err);

	struct zr_verdict *v =
		mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (v == MAP_FAILED)
		rc = zr_cmd_failed(&(struct zr_error){ ZR_ENOMEM, "out of memory" });
	else
		rc = run_all(&r, v);
	free(r.path);
	return rc;
}
