/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c - the services behind struct zr_host, one set per instance. impl points at the instance.
 */
#include "core/plugin/host.h"

#include <string.h>
#include <sys/mman.h>
#include <zeroth/zero.h>

#include "core/base/log.h"

/* In front of every allocation of a plugin; 64 bytes, so that what follows stays aligned. */
struct header {
	uint64_t bytes; /* of what follows */
	const char *what;
	char pad[48];
};

static const char *topic(const struct zr_instance *it)
{
	return it->section ? it->section->name : "zeroth";
}

static void host_log(const struct zr_host *h, int32_t level, const char *msg)
{
	zr_logf(level, topic(h->impl), "%s", msg);
}

static int host_fail(const struct zr_host *h, int32_t code, const char *msg)
{
	struct zr_instance *it = h->impl;
	it->failed.code = 0;
	return zr_err(&it->failed, code, "%s", msg);
}

static void *host_alloc(const struct zr_host *h, uint64_t bytes, const char *what)
{
	struct zr_instance *it = h->impl;
	uint64_t total = bytes + sizeof(struct header);
	if (total < bytes)
		return NULL;

	struct header *m =
		mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return NULL;

	*m = (struct header){ .bytes = bytes, .what = what };
	if (it->process->account)
		zr_account_add(it->process->account, ZR_TIER_HOST, what, (int64_t)bytes);
	return m + 1;
}

static void host_release(const struct zr_host *h, void *p)
{
	struct zr_instance *it = h->impl;
	if (!p)
		return;
	struct header *m = (struct header *)p - 1;
	if (it->process->account)
		zr_account_add(it->process->account, ZR_TIER_HOST, m->what, -(int64_t)m->bytes);
	munmap(m, m->bytes + sizeof *m);
}

static void host_parallel(const struct zr_host *h, int64_t n,
			  void (*fn)(void *arg, int64_t item, int32_t worker), void *arg)
{
	zr_pool_run(((struct zr_instance *)h->impl)->process->pool, n, fn, arg);
}

/* ---- interfaces of other roles ---------------------------------------------------- */

/* Which role may ask for what; an id that ends with ':' is followed by a name. */
static const struct service {
	const char *id, *role;
} services[] = {
	{ "zr.boot/1", "comm" },     { "zr.device/1", "comm" },        { "zr.data/1:", "data" },
	{ "zr.model/1", "adapter" }, { "zr.pretrained/1", "adapter" }, { NULL, NULL },
};

static int is_of(const struct service *s, const char *iface)
{
	const size_t len = strlen(s->id);
	if (s->id[len - 1] == ':')
		return !strncmp(s->id, iface, len);
	return !strcmp(s->id, iface);
}

static const struct service *find_service(const char *iface)
{
	const struct service *s = services;
	while (s->id && !is_of(s, iface))
		s++;
	return s;
}

const char *zr_host_role_of(const char *iface)
{
	return find_service(iface)->role;
}

/* Says once that a plugin asked for what its role does not get. */
static const void *refuse(struct zr_instance *it, const char *iface, const char *role)
{
	const int drawn_from = !strcmp(role, "data") && !strncmp(topic(it), "data.", 5);
	if (!it->refused++)
		zr_logf(ZR_LOG_WARN, topic(it), "plugin %s asked for %.64s, which %s plugins get%s",
			it->section ? it->section->plugin->desc->id : "?", iface, role,
			drawn_from ? ", but not those that are drawn from" : " alone");
	return NULL;
}

static struct zr_instance *source_of(const struct zr_process *p, const char *name)
{
	for (int i = 0; i < p->sources; i++)
		if (!strcmp(p->source[i].section->name + strlen("data."), name))
			return &p->source[i];
	return NULL;
}

static struct zr_instance *instance_of(const struct zr_process *p, const char *iface)
{
	if (!strcmp(iface, "zr.boot/1"))
		return p->boot;
	if (!strcmp(iface, "zr.device/1"))
		return p->device;
	if (!strncmp(iface, "zr.data/1:", 10))
		return source_of(p, iface + 10);
	return p->model;
}

static const void *host_get(const struct zr_host *h, const char *iface, struct zr_inst **inst)
{
	struct zr_instance *mine = h->impl;
	const char *role = zr_host_role_of(iface);
	if (!role)
		return NULL;
	if (!mine->section || !mine->section->role || strcmp(mine->section->role, role) ||
	    !strncmp(topic(mine), "data.", 5))
		return refuse(mine, iface, role);

	struct zr_instance *it = instance_of(mine->process, iface);
	if (!it || !it->inst)
		return NULL;

	it->taken = 1;
	*inst = it->inst;
	if (strcmp(iface, "zr.pretrained/1"))
		return it->vtbl;
	return zr_plugin_iface(it->section->plugin, iface, &(struct zr_error){ 0 });
}

void zr_host_init(struct zr_instance *it, struct zr_process *process,
		  const struct zr_section *section)
{
	*it = (struct zr_instance){ .section = section, .process = process };
	it->host = (struct zr_host){
		.size = sizeof it->host,
		.abi_minor = ZR_ABI_MINOR,
		.impl = it,
		.rank = process->rank,
		.world = process->world,
		.local_rank = process->local_rank,
		.local_world = process->local_world,
		.workers = process->pool ? zr_pool_size(process->pool) : 1,
		.run_dir = process->run_dir,
		.log = host_log,
		.fail = host_fail,
		.alloc = host_alloc,
		.release = host_release,
		.parallel = host_parallel,
		.get = host_get,
	};
}

/* Whose text a failure has: a plugin passes on the code of one that it called. */
static struct zr_instance *who_failed(struct zr_instance *it, int code)
{
	const struct zr_process *p = it->process;
	if (it->failed.code == code)
		return it;

	for (int i = 0; i < p->sources; i++)
		if (p->source[i].failed.code == code)
			return &p->source[i];
	if (p->model && p->model->failed.code == code)
		return p->model;
	if (p->boot && p->boot->failed.code == code)
		return p->boot;
	return it;
}

int zr_instance_failed(struct zr_instance *it, int code, const char *doing, struct zr_error *err)
{
	/* NULL: there is none to call */
	if (it->process && zr_pool_rounding(it->process->pool) && !it->warned++)
		zr_logf(ZR_LOG_WARN, topic(it),
			"%s of plugin %s, or what it called, changed how "
			"the processor rounds or treats denormals, and did not put it back: zeroth "
			"did",
			doing, it->section->plugin->desc->id);
	if (!code)
		return 0;

	it = who_failed(it, code);
	if (!it->failed.code)
		snprintf(it->failed.text, sizeof it->failed.text,
			 "%s failed with code %d and no text", doing, code);
	if (it->process->cfg && (code == ZR_EINVAL || code == ZR_ENOTSUP))
		return zr_config_blame(it->process->cfg, topic(it), code, err, "%s",
				       it->failed.text);
	return zr_err(err, code, "[%s] %s", topic(it), it->failed.text);
}

int zr_instance_create(struct zr_instance *it, struct zr_process *process,
		       const struct zr_section *section, const char *iface, struct zr_error *err)
{
	zr_host_init(it, process, section);
	it->vtbl = zr_plugin_iface(section->plugin, iface, err);
	if (!it->vtbl)
		return err->code;

	int rc = section->plugin->desc->create(&it->host, section->opts, &it->inst);
	if (rc >= 0)
		return zr_instance_failed(it, 0, "create", err);

	it->inst = NULL;
	return zr_instance_failed(it, rc, "create", err);
}

void zr_instance_destroy(struct zr_instance *it)
{
	if (it->inst)
		it->section->plugin->desc->destroy(it->inst);
	it->inst = NULL;
}
