/* SPDX-License-Identifier: Apache-2.0
 *
 * instance.c - an instance of the plugin, with a host of its own, which holds the plugin to the
 * thread tags of plugin.h.
 */
#include "cmd/check/check.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int in_item;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_main(struct zr_check *c, const char *service)
{
	if (in_item)
		zr_check_fail(c,
			      "it called host->%s in an item of parallel(), where only log and "
			      "fail may be called",
			      service);
	if (c->tag == ZR_STEP)
		zr_check_fail(c,
			      "it called host->%s, which is [main], in a function that is "
			      "[step]; do it in create",
			      service);
	if (c->tag == ZR_PURE)
		zr_check_fail(c, "it called host->%s in a function that is [pure]", service);
}

static void host_log(const struct zr_host *h, int32_t level, const char *msg)
{
	struct zr_try *t = h->impl;

	if (!msg || strchr(msg, '\n'))
		zr_check_fail(t->c, "host->log got %s; a message is one line without its end",
			      msg ? "a newline" : "NULL");
	if (level < ZR_LOG_ERROR || level > ZR_LOG_DEBUG)
		zr_check_fail(t->c, "host->log got level %d, expected ZR_LOG_*", level);
}

static int host_fail(const struct zr_host *h, int32_t code, const char *msg)
{
	struct zr_try *t = h->impl;

	if (code >= 0)
		zr_check_fail(t->c,
			      "host->fail got code %d, expected one of ZR_E*, which are "
			      "negative",
			      code);
	if (!msg || !*msg)
		zr_check_fail(t->c, "host->fail got no text; say what is wrong and what mends it");
	pthread_mutex_lock(&lock);
	t->code = code;
	snprintf(t->text, sizeof t->text, "%s", msg);
	pthread_mutex_unlock(&lock);
	return code;
}

static void *host_alloc(const struct zr_host *h, uint64_t bytes, const char *what)
{
	struct zr_try *t = h->impl;

	on_main(t->c, "alloc");
	if (!what || !*what)
		zr_check_fail(t->c, "host->alloc got no account; name what the memory is for");
	void *p = zr_imports_alloc(bytes);
	t->held += p != NULL;
	return p;
}

static void host_release(const struct zr_host *h, void *p)
{
	struct zr_try *t = h->impl;
	on_main(t->c, "release");
	t->held -= p != NULL;
	zr_imports_free(p);
}

struct items {
	void (*fn)(void *arg, int64_t item, int32_t worker);
	void *arg;
};

static void run_item(void *arg, int64_t item, int32_t worker)
{
	struct items *i = arg;
	in_item = 1;
	i->fn(i->arg, item, worker);
	in_item = 0;
}

/* As threads may share the items, but in one order that is always the same. */
static void deal(int64_t n, int workers, struct items *i)
{
	for (int64_t k = n; k-- > 0;)
		run_item(i, k, (int32_t)((k * 5 + n) % workers));
}

static void host_parallel(const struct zr_host *h, int64_t n,
			  void (*fn)(void *arg, int64_t item, int32_t worker), void *arg)
{
	struct zr_try *t = h->impl;
	struct items i = { fn, arg };

	if (in_item)
		zr_check_fail(t->c, "it called host->parallel in an item of parallel(); calls do "
				    "not nest");
	if (t->c->deals)
		deal(n, zr_pool_size(t->c->pool), &i);
	else
		zr_pool_run(t->c->pool, n, run_item, &i);
}

static const void *host_get(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	struct zr_try *t = h->impl;
	on_main(t->c, "get");
	return t->no_run ? NULL : t->c->offer(t, iface, inst);
}

void zr_try_host(struct zr_check *c, struct zr_try *t)
{
	const int32_t world = t->world ? t->world : 1, node = t->per_node ? t->per_node : world;
	struct zr_host h = {
		.size = sizeof h,
		.abi_minor = c->minor,
		.impl = t,
		.rank = t->rank,
		.world = world,
		.local_rank = t->rank % node,
		.local_world = node,
		.workers = zr_pool_size(c->pool),
		.run_dir = t->no_run ? NULL : c->scratch,
		.log = host_log,
		.fail = host_fail,
		.alloc = host_alloc,
		.release = host_release,
		.parallel = host_parallel,
		.get = host_get,
	};

	t->c = c;
	t->h = zr_lend(c, "struct zr_host", &h, sizeof h,
		       offsetof(struct zr_host, get) + sizeof h.get);
}

/* ---- options --------------------------------------------------------------------- */

static void set_text(struct zr_check *c, struct zr_try *t, const struct zr_opt *o, const char *text)
{
	struct zr_error err = { 0 };
	if (zr_value_parse(o, text, t->opts, &err) || zr_value_check(o, t->opts, &err))
		zr_check_fail(c, "option %s = %s: %s", o->name, text, err.text);
}

/* 300 lines of text. */
static const char *some_file(struct zr_check *c)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/text", c->scratch);
	if (!access(path, R_OK)) /* somebody may have it open */
		return path;

	FILE *f = fopen(path, "w");
	for (int i = 0; f && i < 300; i++)
		fprintf(f, "line %d of a text that is long enough\n", i);
	if (!f || fclose(f))
		zr_check_lacks(c, "file");
	return path;
}

const char *zr_try_value(struct zr_check *c, const struct zr_opt *o)
{
	static char room[16][64];
	static int used;
	char *text = room[used++ % 16];
	double v = isfinite(o->min) && o->min > ZR_LO ? o->min : 1;

	if (o->flags & ZR_O_MIN_OPEN)
		v = o->max < v + 1 ? (v + o->max) / 2 : v + 1;
	if (o->type == ZR_T_ENUM)
		return o->choices[0];
	if (o->type == ZR_T_BOOL)
		return "no";
	if (o->type == ZR_T_PATH)
		return some_file(c);
	if (o->type == ZR_T_STR || o->type == ZR_T_GLOBS)
		return "x";

	snprintf(text, 64, "%.17g", v);
	return text;
}

const char *zr_try_given(const struct zr_check *c, const char *key)
{
	const char *value = NULL;
	size_t n = strlen(key);

	for (int i = 0; i < c->n_given; i++)
		if (!strncmp(c->given[i], key, n) && c->given[i][n] == '=')
			value = c->given[i] + n + 1;
	return value;
}

void zr_try_options(struct zr_check *c, struct zr_try *t)
{
	const struct zr_desc *d = c->plugin->desc;
	struct zr_table table = zr_table_of(d);
	const struct zr_opt *o;

	t->c = c;
	t->opts = zr_area_new(c, "the options", d->opts_size ? d->opts_size : 1, 8);
	for (uint32_t i = 0; (o = zr_table_next(&table, 0, &i));) {
		const char *text = zr_try_given(c, o->name);
		if (!text)
			text = o->def ? o->def : zr_try_value(c, o);
		set_text(c, t, o, text);
	}
}

int zr_try_set(struct zr_try *t, const char *key, const char *text)
{
	struct zr_table table = zr_table_of(t->c->plugin->desc);
	const struct zr_opt *o = zr_table_find(&table, key);
	struct zr_error err = { 0 };
	zr_area_protect(t->c, t->opts, 0);
	return o && !zr_value_parse(o, text, t->opts, &err) && !zr_value_check(o, t->opts, &err);
}

int zr_try_resolve(struct zr_try *t)
{
	struct zr_check *c = t->c;
	const struct zr_desc *d = c->plugin->desc;
	const struct zr_facts facts = {
		.size = sizeof facts,
		.world = t->h->world,
		.workers = t->h->workers,
		.vocabulary = 256,
		.sequence_length = 32,
		.steps = 100,
		.lr = 1e-3,
		.memory = 1u << 30,
		.parameters = 1 << 20,
		.largest_unit = 1 << 18,
		.typical_unit = 1 << 18,
		.gather_legs = 1,
	};
	int rc = 0;

	t->code = 0;
	zr_area_protect(c, t->opts, 0);
	if (d->resolve) {
		const void *f =
			zr_lend(c, "struct zr_facts", &facts, sizeof facts,
				offsetof(struct zr_facts, evaluates) + sizeof facts.evaluates);
		rc = ZR_CALL(c, ZR_PURE, "resolve", d->resolve(t->h, f, t->opts));
		zr_area_free(c, f);
	}

	zr_area_protect(c, t->opts, 1);
	if (!rc && d->check)
		rc = ZR_CALL(c, ZR_PURE, "check", d->check(t->h, t->opts));
	return rc;
}

int zr_try_create(struct zr_try *t)
{
	struct zr_check *c = t->c;

	t->code = 0;
	t->inst = NULL;
	int rc = ZR_CALL(c, ZR_MAIN, "create", c->plugin->desc->create(t->h, t->opts, &t->inst));
	if (!rc && !t->inst)
		zr_check_fail(c, "it returned ZR_OK and no instance; set *out");
	return rc;
}

int zr_may_fail(struct zr_try *t, int rc)
{
	if (rc > 0)
		zr_check_fail(t->c, "it returned %d, expected ZR_OK or a negative ZR_E* code", rc);
	if (rc && !t->code)
		zr_check_fail(t->c, "it returned %d and no text; end with return zr_fail(h, ...)",
			      rc);
	return rc != 0;
}

void zr_must(struct zr_try *t, int rc)
{
	if (zr_may_fail(t, rc))
		zr_check_fail(t->c, "it failed with code %d: %s", rc, t->text);
}

void zr_try_options_suit(struct zr_try *t, int rc)
{
	char why[1200];

	if (!zr_may_fail(t, rc))
		return;
	if (rc == ZR_EINVAL && !t->c->n_given)
		snprintf(why, sizeof why, "%s (options are given with -o KEY=VALUE)", t->text);
	else if (rc == ZR_ENOTSUP || rc == ZR_ESTATE)
		snprintf(why, sizeof why, "%s", t->text);
	else
		zr_must(t, rc);
	zr_check_skip(t->c, why);
}

void zr_try_open(struct zr_check *c, struct zr_try *t)
{
	t->c = c;
	if (!t->h)
		zr_try_host(c, t);
	if (!t->opts)
		zr_try_options(c, t);
	zr_try_options_suit(t, zr_try_resolve(t));
	zr_try_options_suit(t, zr_try_create(t));
}

void zr_try_close(struct zr_try *t)
{
	struct zr_check *c = t->c;
	ZR_CALL_VOID(c, ZR_MAIN, "destroy", c->plugin->desc->destroy(t->inst));
	t->inst = NULL;
	if (t->held)
		zr_check_fail(c, "%" PRId64 " blocks of host->alloc were not released", t->held);
}

const void *zr_check_table(const struct zr_check *c, const char *id)
{
	const struct zr_iface *f = c->plugin->desc->ifaces;
	while (f->id && strcmp(f->id, id))
		f++;
	return f->vtbl;
}

void zr_fill_random(float *x, int64_t n, uint64_t seed, float scale)
{
	uint64_t s = seed * 0x9e3779b97f4a7c15u + 1;

	for (int64_t i = 0; i < n; i++) {
		s ^= s << 13;
		s ^= s >> 7;
		s ^= s << 17;
		x[i] = scale * ((float)(s >> 40) / (float)(1 << 23) - 1);
	}
}
