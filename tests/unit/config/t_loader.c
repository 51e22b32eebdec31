/* SPDX-License-Identifier: Apache-2.0
 *
 * t_loader.c - the loader as core uses it; loader.sh has the texts of refusals. Plugins are
 * variants of badplugin.c, compiled with $CC into a directory of their own.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zeroth/scheduler.h>

#include "core/plugin/loader.h"

#include <cmocka.h> /* last: it defines fail() */

static char dir[64];

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *fmt, ...)
{
	char line[2048];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	assert_int_equal(system(line), 0);
}

static void build(const char *name, const char *macros)
{
	const char *cc = getenv("CC"), *src = getenv("ZR_SRCDIR");
	if (!src)
		src = ".";
	run("%s -std=gnu11 -w -shared -fPIC -I%s/include %s -o %s/%s %s/tests/doubles/badplugin.c",
	    cc && *cc ? cc : "cc", src, macros, dir, name, src);
}

static int setup(void **unused)
{
	(void)unused;
	umask(022);
	strcpy(dir, "/tmp/zeroth-test.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	run("mkdir -p %s/a/scheduler %s/b/scheduler", dir, dir);
	build("a/scheduler/good.so", "");
	build("b/scheduler/good.so", "");
	build("b/scheduler/alpha.so", "-DID='\"alpha\"'");
	build("b/scheduler/short.so", "-DID='\"short\"' -DVTBL_SIZE=4");
	build("b/scheduler/fp.so", "-DID='\"fp\"' -DFP_MODE");
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	run("rm -rf %s", dir);
	return 0;
}

static void search(const char *first, const char *second)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s:%s/%s", dir, first, dir, second);
	setenv("ZEROTH_PLUGIN_PATH", path, 1);
}

static void loading_twice_gives_the_same_plugin(void **unused)
{
	const struct zr_plugin *a = NULL, *b = NULL, *c = NULL;
	struct zr_error err = { 0 };
	char path[256];
	(void)unused;
	search("a", "b");
	snprintf(path, sizeof path, "%s/a/../a/scheduler/good.so", dir);
	assert_int_equal(zr_plugin_load("scheduler", "good", &a, &err), 0);
	assert_int_equal(zr_plugin_load("scheduler", "good", &b, &err), 0);
	assert_int_equal(zr_plugin_load("scheduler", path, &c, &err), 0);
	assert_ptr_equal(a, b);
	assert_ptr_equal(a, c);
	assert_string_equal(a->desc->id, "good");
	assert_int_equal(a->entry->abi_major, ZR_ABI_MAJOR);
}

static void the_first_directory_wins(void **unused)
{
	const struct zr_plugin *p = NULL;
	struct zr_error err = { 0 };
	(void)unused;
	search("b", "a");
	assert_int_equal(zr_plugin_load("scheduler", "good", &p, &err), 0);
	assert_non_null(strstr(p->path, "/b/scheduler/good.so"));
	search("a", "b");
	assert_int_equal(zr_plugin_load("scheduler", "good", &p, &err), 0);
	assert_non_null(strstr(p->path, "/a/scheduler/good.so"));
}

static void a_refusal_leaves_out_alone(void **unused)
{
	const struct zr_plugin *mark = (const struct zr_plugin *)dir, *p = mark;
	struct zr_error err = { 0 };
	(void)unused;
	search("a", "b");
	assert_int_equal(zr_plugin_load("optimizer", "good", &p, &err), ZR_EINVAL);
	assert_ptr_equal(p, mark);
	assert_int_equal(err.code, ZR_EINVAL);
}

static void interfaces_are_found_by_id_and_size(void **unused)
{
	const struct zr_plugin *p = NULL;
	struct zr_error err = { 0 };
	const struct zr_scheduler_v1 *v;
	char text[1024];
	(void)unused;
	search("b", "a");
	assert_int_equal(zr_plugin_load("scheduler", "good", &p, &err), 0);
	v = zr_plugin_iface(p, "zr.scheduler/1", &err);
	assert_non_null(v);
	assert_non_null(v->value);
	assert_null(zr_plugin_iface(p, "zr.scheduler/2", &err));
	snprintf(text, sizeof text,
		 "plugin %s: offers zr.scheduler/1, expected zr.scheduler/2; "
		 "rebuild it with this zeroth's headers",
		 p->path);
	assert_string_equal(err.text, text);
	err.code = 0;
	assert_int_equal(zr_plugin_load("scheduler", "short", &p, &err), 0);
	assert_null(zr_plugin_iface(p, "zr.scheduler/1", &err));
	snprintf(text, sizeof text,
		 "plugin %s: zr.scheduler/1 has 4 bytes, expected at least %zu; "
		 "rebuild it with this zeroth's headers",
		 p->path, sizeof *v);
	assert_string_equal(err.text, text);
}

static void something(void)
{
}

/* Every role: a table that is whole, then one function of it less at a time. */
static void a_function_that_must_be_there_is_missed_by_name(void **unused)
{
	struct zr_iface f[2] = { { 0 } };
	struct zr_desc d = { .ifaces = f };
	const struct zr_plugin p = { .desc = &d, .path = "/bad.so" };
	int roles = 0, required = 0;
	(void)unused;
	for (const struct zr_role *r = zr_roles; r->name; r++, roles++) {
		_Alignas(8) char table[256] = { 0 };
		zr_plugin_fn **call = (zr_plugin_fn **)(table + r->first);
		uint32_t n = 0;
		while (r->call[n])
			call[n++] = something;
		*(uint32_t *)table = r->first + n * (uint32_t)sizeof *call;
		f[0] = (struct zr_iface){ r->iface, table };
		assert_non_null(zr_plugin_iface(&p, r->iface, &(struct zr_error){ 0 }));

		for (uint32_t i = 0; i < n; i++) {
			struct zr_error err = { 0 };
			char text[256];
			call[i] = NULL;
			const void *taken = zr_plugin_iface(&p, r->iface, &err);
			call[i] = something;

			const int optional = *r->call[i] == '?';
			const int alone = !r->call[i + 1] || *r->call[i + 1] != '+';
			if (optional) {
				if (alone)
					assert_ptr_equal(taken, table);
				continue;
			}

			assert_null(taken);
			assert_int_equal(err.code, ZR_EINVAL);
			snprintf(text, sizeof text,
				 "plugin /bad.so: %s: function %s is NULL, and "
				 "it is not optional; mend the plugin",
				 r->iface, r->call[i] + (*r->call[i] == '+'));
			assert_string_equal(err.text, text);
			required++;
		}
	}
	assert_int_equal(roles, 13);
	assert_int_equal(required, 51);
}

struct seen {
	int n, stop_at;
	char text[512];
};

static int see(void *arg, const char *role, const char *id, const char *path, int shadowed)
{
	struct seen *s = arg;
	size_t len = strlen(s->text);
	if (strncmp(path, dir, strlen(dir)))
		return 0; /* installed ones */
	snprintf(s->text + len, sizeof s->text - len, "%s/%s%s ", role, id,
		 shadowed ? "(shadowed)" : "");
	return ++s->n == s->stop_at ? 17 : 0;
}

static void a_scan_shows_every_file_and_the_shadowed(void **unused)
{
	struct seen s = { 0 };
	(void)unused;
	search("a", "b");
	assert_int_equal(zr_plugin_scan(see, &s), 0);
	assert_string_equal(s.text, "scheduler/alpha scheduler/fp scheduler/good "
				    "scheduler/good(shadowed) scheduler/short ");
}

static void a_scan_stops_when_told(void **unused)
{
	struct seen s = { .stop_at = 2 };
	(void)unused;
	search("a", "b");
	assert_int_equal(zr_plugin_scan(see, &s), 17);
	assert_int_equal(s.n, 2);
}

/* I1: arithmetic after loading is what it was before. */
static void I1_the_floating_point_mode_survives_a_plugin(void **unused)
{
	const struct zr_plugin *p;
	struct zr_error err = { 0 };
	volatile float tiny = 1e-38f;
	(void)unused;
#ifndef __x86_64__
	return; /* the variant knows x86 only */
#endif
	search("b", "a");
	assert_int_equal(zr_plugin_load("scheduler", "fp", &p, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "-ffast-math"));
	tiny /= 16;
	assert_true(tiny > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loading_twice_gives_the_same_plugin),
		cmocka_unit_test(the_first_directory_wins),
		cmocka_unit_test(a_refusal_leaves_out_alone),
		cmocka_unit_test(interfaces_are_found_by_id_and_size),
		cmocka_unit_test(a_function_that_must_be_there_is_missed_by_name),
		cmocka_unit_test(a_scan_shows_every_file_and_the_shadowed),
		cmocka_unit_test(a_scan_stops_when_told),
		cmocka_unit_test(I1_the_floating_point_mode_survives_a_plugin),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
