/* SPDX-License-Identifier: Apache-2.0
 *
 * general.c - tests of every plugin: what loading does, the descriptor, options and instances.
 */
#include "cmd/check/check.h"

#include <inttypes.h>
#include <string.h>

/* The command loads the file before each test: what this one shows was recorded then. */
void zr_test_load(struct zr_check *c)
{
	struct zr_error err = { 0 };
	const struct zr_plugin *again;

	if (zr_plugin_load(c->plugin->desc->role, c->path, &again, &err))
		zr_check_fail(c, "it loads once, but not twice: %s", err.text);
	if (again != c->plugin)
		zr_check_fail(c, "loading it again gave another plugin");
}

/* ---- descriptor ------------------------------------------------------------------ */

static void has_text(struct zr_check *c, const char *what, const char *text)
{
	if (!*text)
		zr_check_fail(c, "%s of its descriptor is empty; fill it in", what);
	if (strpbrk(text, "\n\t"))
		zr_check_fail(c, "%s of its descriptor is more than one line", what);
}

void zr_test_descriptor(struct zr_check *c)
{
	const struct zr_desc *d = c->plugin->desc;
	const char *lack;

	has_text(c, "version", d->version);
	has_text(c, "license", d->license);
	has_text(c, "summary", d->summary);
	if (!*d->id || strspn(d->id, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(d->id))
		zr_check_fail(c, "its id \"%s\" has other characters than a-z, 0-9, _ and -",
			      d->id);
	if (!zr_role_find(d->role, strlen(d->role)))
		zr_check_fail(c, "its role \"%s\" is unknown; see `zeroth plugin list`", d->role);
	if (d->flags)
		zr_check_fail(c, "flags of its descriptor are 0x%x, expected 0", d->flags);
	for (const struct zr_iface *f = d->ifaces; f->id; f++) {
		const struct zr_role *role = zr_role_of_iface(f->id);
		if (!f->vtbl)
			zr_check_fail(c, "its interface %s has no table", f->id);
		if (f->vtbl && (lack = zr_role_lacks(role, f->vtbl)))
			zr_check_fail(c,
				      "%s: function %s is NULL, and it is not optional; write "
				      "it",
				      f->id, lack);
	}

	if (!c->vtbl)
		zr_check_fail(c, "it offers no interface zr.%s/1, which its role has", d->role);
}

/* ---- options --------------------------------------------------------------------- */

#define KNOWN_FLAGS                                                                                \
	(ZR_O_REQUIRED | ZR_O_MIN_OPEN | ZR_O_MAX_OPEN | ZR_O_AUTO | ZR_O_SCHED | ZR_O_GROUP |     \
	 ZR_O_NUMERIC | ZR_O_DEPRECATED | ZR_O_STAYS_AUTO)

static void look_at_option(struct zr_check *c, const struct zr_opt *o)
{
	const char *name = o->name;
	const int number = o->type == ZR_T_I64 || o->type == ZR_T_F64 || o->type == ZR_T_F64S ||
			   o->type == ZR_T_BYTES || o->type == ZR_T_COUNT;

	if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
		zr_check_fail(c, "option \"%s\": its name has other characters than a-z, 0-9 and _",
			      name);
	if (!strcmp(name, "plugin") || !strcmp(name, "match"))
		zr_check_fail(c, "option %s: zeroth itself has a key of this name; choose another",
			      name);
	if (!*o->doc)
		zr_check_fail(c, "option %s has no doc; say in a sentence what it does", name);
	if (o->doc[strlen(o->doc) - 1] != '.' || strpbrk(o->doc, "\n\t"))
		zr_check_fail(c,
			      "option %s: its doc is no sentence of one line that ends with a "
			      "full stop",
			      name);
	if (o->flags & ~KNOWN_FLAGS)
		zr_check_fail(c, "option %s has unknown flags 0x%x", name, o->flags & ~KNOWN_FLAGS);
	if (o->offset % (o->width < 8 ? o->width : 8))
		zr_check_fail(c,
			      "option %s lies at offset %u, which is not aligned; write the "
			      "table with ZR_OPT",
			      name, o->offset);
	if (number && !(o->min <= o->max))
		zr_check_fail(c, "option %s: its least value %g is above its greatest %g", name,
			      o->min, o->max);
	if ((o->flags & ZR_O_STAYS_AUTO) && !(o->flags & ZR_O_AUTO))
		zr_check_fail(c, "option %s has ZR_O_STAYS_AUTO without ZR_O_AUTO", name);
	if ((o->flags & ZR_O_SCHED) && o->type != ZR_T_F64)
		zr_check_fail(c, "option %s has ZR_O_SCHED and is no ZR_T_F64", name);
}

static void look_at_default(struct zr_check *c, const struct zr_opt *o)
{
	_Alignas(8) char value[8 * ZR_LIST_MAX];
	struct zr_opt at = *o;
	struct zr_error err = { 0 };
	at.offset = 0;
	if (!o->def)
		return;
	if (o->flags & ZR_O_REQUIRED)
		zr_check_fail(c, "option %s has ZR_O_REQUIRED and a default; drop one", o->name);
	if (zr_value_parse(&at, o->def, value, &err) || zr_value_check(&at, value, &err))
		zr_check_fail(c, "option %s: its default '%s': %s", o->name, o->def, err.text);
}

void zr_test_options(struct zr_check *c)
{
	const struct zr_desc *d = c->plugin->desc;
	struct zr_table t = zr_table_of(d);
	const struct zr_opt *o, *p;

	for (uint32_t i = 0; (o = zr_table_next(&t, 0, &i));) {
		look_at_option(c, o);
		look_at_default(c, o);
		for (uint32_t k = i; (p = zr_table_next(&t, 0, &k));) {
			if (!strcmp(o->name, p->name))
				zr_check_fail(c, "option %s is in the table twice", o->name);
			if (o->offset < p->offset + p->width && p->offset < o->offset + o->width)
				zr_check_fail(c,
					      "options %s and %s share bytes of the struct; "
					      "write the table with ZR_OPT",
					      o->name, p->name);
		}
	}

	struct zr_try it = { .c = c };
	zr_try_host(c, &it);
	zr_try_options(c, &it);
	zr_try_options_suit(&it, zr_try_resolve(&it));
	for (uint32_t i = 0; (o = zr_table_next(&t, ZR_O_AUTO, &i));) {
		struct zr_error err = { 0 };
		if (zr_value_is_auto(o, it.opts) && !(o->flags & ZR_O_STAYS_AUTO))
			zr_check_fail(c,
				      "resolve leaves option %s auto; give it a value, or the "
				      "flag ZR_O_STAYS_AUTO",
				      o->name);
		if (zr_value_check(o, it.opts, &err))
			zr_check_fail(c, "resolve sets option %s: %s", o->name, err.text);
	}
}

static void try_value(struct zr_try *t, const struct zr_opt *o, double v)
{
	char old[8 * ZR_LIST_MAX], text[64];

	memcpy(old, (char *)t->opts + o->offset, o->width);
	snprintf(text, sizeof text, "%.17g", v);
	if (zr_try_set(t, o->name, text))
		zr_may_fail(t, zr_try_resolve(t));
	zr_area_protect(t->c, t->opts, 0);
	memcpy((char *)t->opts + o->offset, old, o->width);
}

void zr_test_boundaries(struct zr_check *c)
{
	struct zr_table table = zr_table_of(c->plugin->desc);
	struct zr_try t = { .c = c };
	const struct zr_opt *o;

	zr_try_host(c, &t);
	zr_try_options(c, &t);
	zr_try_options_suit(&t, zr_try_resolve(&t));
	for (uint32_t i = 0; (o = zr_table_next(&table, 0, &i));) {
		if (o->type == ZR_T_ENUM)
			for (int k = 0; o->choices[k]; k++)
				if (zr_try_set(&t, o->name, o->choices[k]))
					zr_may_fail(&t, zr_try_resolve(&t));
		if (o->type != ZR_T_I64 && o->type != ZR_T_F64 && o->type != ZR_T_COUNT &&
		    o->type != ZR_T_BYTES)
			continue;
		try_value(&t, o, o->min > ZR_LO ? o->min : -1e300);
		try_value(&t, o, o->max < ZR_HI ? o->max : 1e18);
		try_value(&t, o, 0);
		try_value(&t, o, 1);
	}

	zr_check_pass(c);
}

/* ---- instances ------------------------------------------------------------------- */

/* A host that offers nothing: create may fail, with a text. */
void zr_test_alone(struct zr_check *c)
{
	struct zr_try t = { .c = c, .no_run = 1 };
	zr_try_host(c, &t);
	zr_try_options(c, &t);
	if (!zr_may_fail(&t, zr_try_resolve(&t)) && !zr_may_fail(&t, zr_try_create(&t)))
		zr_try_close(&t);
}

static void once(struct zr_check *c, struct zr_try *t)
{
	zr_must(t, zr_try_create(t));
	zr_try_close(t);
	(void)c;
}

void zr_test_lifecycle(struct zr_check *c)
{
	struct zr_process_state before, after;
	struct zr_try a = { .c = c }, b = { .c = c };

	zr_try_open(c, &a);
	zr_try_close(&a);
	int64_t held = zr_imports_held();
	zr_process_look(&before);
	for (int i = 0; i < 50; i++)
		once(c, &a);
	zr_must(&a, zr_try_create(&a)); /* two at once, and the first goes first */
	zr_try_open(c, &b);
	zr_try_close(&a);
	zr_must(&a, zr_try_create(&a));
	zr_try_close(&b);
	zr_try_close(&a);
	zr_process_look(&after);
	const char *what = zr_process_differs(&before, &after, ZR_NO_THREAD);
	if (what)
		zr_check_fail(c, "creating and destroying 53 instances changed %s", what);
	if (zr_imports_held() > held)
		zr_check_fail(c,
			      "it leaks: after 53 instances %" PRId64 " blocks of malloc were "
			      "not freed; free in destroy what create took",
			      zr_imports_held() - held);
}

/* Each allocation that create() makes fails once. */
void zr_test_no_memory(struct zr_check *c)
{
	struct zr_try t = { .c = c };

	zr_try_open(c, &t);
	zr_try_close(&t);
	int64_t held = zr_imports_held(), at = zr_imports_made();
	once(c, &t);
	int64_t n = zr_imports_made() - at;
	for (int64_t nth = 1; nth <= n && nth <= 300; nth++) {
		zr_imports_refuse(nth);
		int rc = zr_try_create(&t);
		zr_imports_refuse(0);
		zr_may_fail(&t, rc);
		if (!rc)
			zr_try_close(&t);
		if (t.held)
			zr_check_fail(c,
				      "when allocation %" PRId64 " of %" PRId64 " fails, %" PRId64
				      " blocks of host->alloc are not released",
				      nth, n, t.held);
		if (zr_imports_held() > held)
			zr_check_fail(c,
				      "when allocation %" PRId64 " of %" PRId64 " fails, %" PRId64
				      " blocks of malloc are not freed; destroy is not "
				      "called after a create that failed",
				      nth, n, zr_imports_held() - held);
	}
}

/* Hosts of another age: their structs end earlier, or have more behind their end. */
void zr_test_hosts(struct zr_check *c)
{
	struct zr_try shorter = { .c = c }, longer = { .c = c };

	c->minor = c->plugin->entry->need_minor;
	zr_try_open(c, &shorter);
	zr_try_close(&shorter);
	c->minor = ZR_ABI_MINOR;
	c->grown = 64;
	zr_try_open(c, &longer);
	zr_try_close(&longer);
}
