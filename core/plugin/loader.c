/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.c - dlopen and the handshake: everything in the entry and the descriptor is judged as data
 * before a function of the plugin is called.
 */
#include "core/plugin/loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pool.h"
#include "core/config/options.h"
#include "core/plugin/plugin_file.h"

#define SYMBOL  "zr_plugin_entry_v1"
#define REBUILD "; rebuild it with this zeroth's headers"
#define NEWER   "; install a newer zeroth"

const struct zr_plugin *zr_plugins; /* kept until the process ends, as the plugins are */
const struct zr_entry *(*zr_plugin_inside)(const char *role, const char *id);

/* A plugin linked with -ffast-math changes the thread's mode. A library that it is linked with may
 * install signal handlers, as UCX does below some builds of Open MPI: the host's are restored. */
static void *open_file(const char *path, struct zr_error *err)
{
	struct sigaction was[NSIG];
	zr_pool_rounding(NULL);
	for (int i = 1; i < NSIG; i++)
		sigaction(i, NULL, &was[i]);
	errno = 0;
	void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	int none = errno == ENOMEM; /* dlerror may not say so */
	int changed = zr_pool_rounding(NULL);
	for (int i = 1; i < NSIG; i++)
		sigaction(i, &was[i], NULL);

	if (!so && none)
		zr_err(err, ZR_ENOMEM, "%s (out of memory)", dlerror());
	else if (!so)
		zr_err(err, ZR_EINVAL, "%s", dlerror());
	else if (changed)
		zr_err(err, ZR_EINVAL,
		       "loading it changed the floating-point mode; link it "
		       "without -ffast-math");
	return changed ? NULL : so;
}

/* dlsym also looks in what the object was linked with; only its own symbol counts. */
static const struct zr_entry *find_entry(void *so, struct zr_error *err)
{
	const struct zr_entry *entry = dlsym(so, SYMBOL);
	struct link_map *own = NULL, *owner = NULL;
	Dl_info info;
	dlinfo(so, RTLD_DI_LINKMAP, &own);
	if (!entry) {
		zr_err(err, ZR_EINVAL,
		       "no symbol " SYMBOL "; end its source with ZR_PLUGIN(&descriptor)");
		return NULL;
	}
	if (dladdr1(entry, &info, (void **)&owner, RTLD_DL_LINKMAP) && own == owner)
		return entry;

	zr_err(err, ZR_EINVAL,
	       SYMBOL " belongs to %s, with which it was linked; link "
		      "plugins with no other",
	       owner ? owner->l_name : "another object");
	return NULL;
}

static int check_entry(const struct zr_entry *e, struct zr_error *err)
{
	if (e->magic != ZR_MAGIC)
		return zr_err(err, ZR_EINVAL,
			      "magic is 0x%08x, expected 0x%08x; it is not a plugin of zeroth",
			      e->magic, ZR_MAGIC);
	if (e->abi_major != ZR_ABI_MAJOR)
		return zr_err(err, ZR_EINVAL, "abi_major is %u, this zeroth has %d" REBUILD,
			      e->abi_major, ZR_ABI_MAJOR);
	if (e->need_minor > ZR_ABI_MINOR)
		return zr_err(err, ZR_EINVAL, "need_minor is %u, this zeroth has %d" NEWER,
			      e->need_minor, ZR_ABI_MINOR);
	if (!ZR_HAS(e, struct zr_entry, descs) || !e->descs || !e->descs[0])
		return zr_err(err, ZR_EINVAL,
			      "its entry of %u bytes has no descriptor, expected "
			      "at least %zu bytes",
			      e->size, offsetof(struct zr_entry, descs) + sizeof e->descs);
	if (e->flags & ~ZR_ENTRY_DRAFT_OPTIONAL)
		return zr_err(err, ZR_EINVAL,
			      "its entry's flags are 0x%x, this zeroth knows 0x%x" NEWER, e->flags,
			      ZR_ENTRY_DRAFT_OPTIONAL);
	return 0;
}

/* ---- drafts ---- */

static const struct {
	const char *role;
	uint32_t revision;
} drafts[ZR_DRAFTS] = {
	[ZR_OF_BOOT] = { "boot", ZR_DRAFT_BOOT },
	[ZR_OF_COMM] = { "comm", ZR_DRAFT_COMM },
	[ZR_OF_DEVICE] = { "device", ZR_DRAFT_DEVICE },
	[ZR_OF_MODEL] = { "model", ZR_DRAFT_MODEL },
	[ZR_OF_OFFLOAD] = { "offload", ZR_DRAFT_OFFLOAD },
	[ZR_OF_ACTIVATION] = { "activation", ZR_DRAFT_ACTIVATION },
	[ZR_OF_LOOK] = { "look", ZR_DRAFT_LOOK },
};

/* Before minor 5 a plugin had one revision for all. */
static int has_drafts(const struct zr_entry *e)
{
	return ZR_HAS(e, struct zr_entry, n_drafts) && e->drafts;
}

/* Revision of the headers of a role that a plugin includes; 0: it does not, or this zeroth has
 * none. */
static uint32_t draft_used(const struct zr_entry *e, uint32_t of)
{
	return of < e->n_drafts ? e->drafts[of] : 0;
}

int zr_draft_fits(const struct zr_entry *e, int of)
{
	if (!has_drafts(e))
		return e->draft == ZR_DRAFT_REVISION;
	return draft_used(e, (uint32_t)of) == drafts[of].revision;
}

static int is_draft_of(const struct zr_iface *f, int of)
{
	const struct zr_role *role = zr_role_of_iface(f->id);
	return role->name && role->draft && !strcmp(role->name, drafts[of].role);
}

/* What a plugin includes of one role's headers, and offers of its interfaces. */
static int check_draft(const struct zr_entry *e, const struct zr_desc *d, int of,
		       struct zr_error *err)
{
	const uint32_t used = draft_used(e, (uint32_t)of);
	if (zr_draft_fits(e, of))
		return 0;
	if (used && !(e->flags & ZR_ENTRY_DRAFT_OPTIONAL))
		return zr_err(err, ZR_EINVAL, "draft of %s is %u, this zeroth has %u" REBUILD,
			      drafts[of].role, used, drafts[of].revision);

	for (const struct zr_iface *f = d->ifaces; f->id; f++)
		if (is_draft_of(f, of))
			return zr_err(err, ZR_EINVAL,
				      "draft of %s is %u, %s of this zeroth has %u" REBUILD,
				      drafts[of].role, used, f->id, drafts[of].revision);
	return 0;
}

static int check_one_draft(const struct zr_entry *e, const struct zr_desc *d, struct zr_error *err)
{
	const int refuses = e->draft && !(e->flags & ZR_ENTRY_DRAFT_OPTIONAL);
	for (const struct zr_iface *f = d->ifaces; e->draft != ZR_DRAFT_REVISION && f->id; f++)
		if (refuses || zr_role_of_iface(f->id)->draft)
			return zr_err(err, ZR_EINVAL, "draft is %u, %s%sthis zeroth has %d" REBUILD,
				      e->draft, refuses ? "" : f->id, refuses ? "" : " of ",
				      ZR_DRAFT_REVISION);
	return 0;
}

/* Draft interfaces change with their revision; stable ones can do without what they lend of drafts,
 * if the plugin says so. */
static int check_drafts(const struct zr_entry *e, const struct zr_desc *d, struct zr_error *err)
{
	int rc = 0;
	if (!has_drafts(e))
		return check_one_draft(e, d, err);

	for (uint32_t of = ZR_DRAFTS; of < e->n_drafts; of++)
		if (e->drafts[of] && !(e->flags & ZR_ENTRY_DRAFT_OPTIONAL))
			return zr_err(err, ZR_EINVAL,
				      "it was built with draft headers that this zeroth does not "
				      "have" NEWER);
	for (int of = 0; !rc && of < ZR_DRAFTS; of++)
		rc = check_draft(e, d, of, err);
	return rc;
}

static int check_desc(const struct zr_entry *entry, const struct zr_desc *d, struct zr_error *err)
{
	const size_t least = offsetof(struct zr_desc, destroy) + sizeof d->destroy;
	if (d->size < least)
		return zr_err(err, ZR_EINVAL, "its descriptor has %u bytes, expected at least %zu",
			      d->size, least);
	if (!d->role || !d->id || !d->version || !d->license || !d->summary || !d->ifaces ||
	    !d->create || !d->destroy)
		return zr_err(err, ZR_EINVAL,
			      "its descriptor lacks one of role, id, version, "
			      "license, summary, ifaces, create, destroy");
	if (d->flags)
		return zr_err(err, ZR_EINVAL,
			      "its descriptor's flags are 0x%x, this zeroth knows none" NEWER,
			      d->flags);

	const struct zr_table t = zr_table_of(d);
	int rc = zr_table_check(&t, err);
	if (rc)
		return rc;
	return check_drafts(entry, d, err);
}

/* The descriptor for role and id; role NULL: the first. */
static const struct zr_desc *choose(const struct zr_entry *entry, const char *role, const char *id,
				    struct zr_error *err)
{
	const struct zr_desc *same_role = NULL;
	for (int i = 0; entry->descs[i]; i++) {
		const struct zr_desc *d = entry->descs[i];
		if (check_desc(entry, d, err))
			return NULL;
		if (role && strcmp(d->role, role))
			continue;
		if (!strcmp(d->id, id))
			return d;
		if (!same_role)
			same_role = d;
	}

	if (!same_role)
		zr_err(err, ZR_EINVAL, "role is %s, expected %s; name it in a section of its role",
		       entry->descs[0]->role, role);
	else
		zr_err(err, ZR_EINVAL,
		       "id is %s, the file's name says %s; rename the file to %s.so", same_role->id,
		       id, same_role->id);
	return NULL;
}

static void id_of(const char *id_or_path, char *out, size_t size)
{
	const char *slash = strrchr(id_or_path, '/'), *name = slash ? slash + 1 : id_or_path;
	size_t len = strlen(name);
	if (name != id_or_path && len > 3 && !strcmp(name + len - 3, ".so"))
		len -= 3;
	snprintf(out, size, "%.*s", (int)len, name);
}

static const struct zr_plugin *keep(const struct zr_entry *entry, const struct zr_desc *desc,
				    char *path)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	const struct zr_plugin *p = zr_plugins;
	while (p && p->desc != desc)
		p = p->next;
	struct zr_plugin *made = NULL;
	if (!p)
		made = malloc(sizeof *made);
	if (made) {
		*made = (struct zr_plugin){ desc, entry, path, zr_plugins };
		zr_plugins = p = made;
	} else {
		free(path);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

int zr_plugin_load(const char *role, const char *id_or_path, const struct zr_plugin **out,
		   struct zr_error *err)
{
	const struct zr_entry *entry = NULL;
	const struct zr_desc *desc = NULL;
	struct zr_error why = { 0 };
	char id[256], *path;
	if (zr_plugin_inside)
		entry = zr_plugin_inside(role, id_or_path);
	if (entry)
		path = strdup(id_or_path);
	else
		path = zr_plugin_file_find(role, id_or_path, err);
	if (!path)
		return ZR_EINVAL;

	id_of(id_or_path, id, sizeof id);
	if (!entry && !zr_plugin_file_check(path, &why)) {
		void *so = open_file(path, &why);
		if (so)
			entry = find_entry(so, &why);
	}
	if (entry && !check_entry(entry, &why))
		desc = choose(entry, role, id, &why);
	if (!desc) {
		zr_err(err, why.code, "plugin %s: %s", path, why.text);
		free(path);
		return ZR_EINVAL;
	}

	*out = keep(entry, desc, path);
	if (!*out)
		return zr_no_memory(err);
	return 0;
}

const void *zr_plugin_iface(const struct zr_plugin *p, const char *id, struct zr_error *err)
{
	const struct zr_iface *f = p->desc->ifaces;
	const struct zr_role *role = zr_role_of_iface(id);
	const char *lack;
	while (f->id && strcmp(f->id, id))
		f++;
	uint32_t bytes = f->id && f->vtbl ? *(const uint32_t *)f->vtbl : 0;
	if (!f->id)
		zr_err(err, ZR_EINVAL, "plugin %s: offers %s, expected %s" REBUILD, p->path,
		       p->desc->ifaces->id ? p->desc->ifaces->id : "no interface", id);
	else if (bytes < zr_role_least(role))
		zr_err(err, ZR_EINVAL, "plugin %s: %s has %u bytes, expected at least %u" REBUILD,
		       p->path, id, bytes, zr_role_least(role));
	else if ((lack = zr_role_lacks(role, f->vtbl)))
		zr_err(err, ZR_EINVAL,
		       "plugin %s: %s: function %s is NULL, and it is not "
		       "optional; mend the plugin",
		       p->path, id, lack);
	else
		return f->vtbl;
	return NULL;
}
