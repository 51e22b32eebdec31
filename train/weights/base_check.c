/* SPDX-License-Identifier: Apache-2.0
 *
 * base_check.c - see base_check.h. What is hashed is what the session holds, as for a checkpoint:
 * no file is read a second time.
 */
#include "train/weights/base_check.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/dtype.h"
#include "core/base/log.h"
#include "files/checkpoint/dir.h"
#include "train/resume.h"
#include "train/rundir.h"
#include "train/share.h"
#include "train/weights/base.h"

struct check {
	const struct zr_layout *layout;
	const struct zr_manifest *m;
	XXH3_state_t *hash;
	const char *changed; /* name of the first tensor that is another; NULL: none yet */
};

/* The manifest of the newest checkpoint; 0: there is none that can be read. */
static int find_manifest(const char *run, char path[PATH_MAX], struct zr_manifest *m)
{
	struct zr_error unused = { 0 };
	char dir[PATH_MAX];
	int64_t n = 0;

	if (zr_checkpoints_at(run, dir, &unused))
		return 0;
	if (zr_dir_has(dir, "manifest.json", NULL)) {
		memcpy(path, dir, sizeof dir);
		return !zr_manifest_read(path, m, &unused);
	}

	int64_t *steps = zr_ckpt_steps(dir, 0, &n), step = n > 0 ? steps[n - 1] : -1;
	free(steps);
	return step >= 0 && !zr_ckpt_path(dir, step, 0, path, &unused) &&
	       !zr_manifest_read(path, m, &unused);
}

/* Whether tensor i of the session has a hash in the manifest. */
static int has_hash(const struct zr_layout *l, const struct zr_manifest *m, int64_t i)
{
	return i < m->layout.n_tensors && zr_manifest_frozen(m, (int32_t)i) == ZR_FROZEN_LEFT_OUT &&
	       m->layout.tensor[i].elements == l->tensor[i].elements &&
	       !strcmp(m->layout.tensor[i].decl->name, l->tensor[i].decl->name);
}

static int add_values(void *arg, const struct zr_place *t, int64_t first, int64_t n, const float *x)
{
	struct check *c = arg;
	const int64_t i = t - c->layout->tensor;

	if (c->changed || !has_hash(c->layout, c->m, i))
		return 0;
	if (!first)
		XXH3_64bits_reset(c->hash);
	XXH3_64bits_update(c->hash, x, (size_t)n * sizeof *x);
	if (first + n == t->elements && XXH3_64bits_digest(c->hash) != c->m->source[i])
		c->changed = t->decl->name;
	return 0;
}

static int kept_otherwise(const struct zr_setup *p, const struct zr_manifest *m)
{
	const char *store = zr_config_source(p->cfg, "model", "store");
	return strcmp(m->dtype, zr_dtype_find(p->facts.types.dtype, NULL)->name) ||
	       (store && !strcmp(store, "-o"));
}

/* Whether this rank has hashes to compare with. */
static int can_compare(const struct zr_setup *p, const struct zr_manifest *m)
{
	int any = 0;

	for (int32_t i = 0; i < p->facts.layout.n_tensors; i++)
		any |= has_hash(&p->facts.layout, m, i);
	if (!any || !kept_otherwise(p, m))
		return any;
	if (p->facts.process.rank == 0)
		zr_logf(ZR_LOG_WARN, "model",
			"whether %s is what it was is not looked at: the training had it in "
			"another type",
			p->roles.model.section->path);
	return 0;
}

/* All ranks compare, or none does. */
static int all_can(struct zr_session *s, int64_t mine, int *all, struct zr_error *err)
{
	const int32_t world = s->setup->facts.process.world;
	int64_t *each = calloc((size_t)world, sizeof *each);
	int rc;
	if (each)
		rc = zr_gather_bytes(s, &mine, each, sizeof mine, err);
	else
		rc = zr_no_memory(err);

	*all = !rc;
	for (int32_t r = 0; r < world && *all; r++)
		*all = each[r] != 0;
	free(each);
	return rc;
}

static int compare(struct zr_session *s, const struct zr_manifest *m, const char *path,
		   struct zr_error *err)
{
	struct check c = { .layout = &s->setup->facts.layout, .m = m, .hash = XXH3_createState() };
	int rc;
	if (c.hash)
		rc = zr_session_masters(s, add_values, &c, err);
	else
		rc = zr_no_memory(err);

	XXH3_freeState(c.hash);
	if (!rc && c.changed)
		rc = zr_base_changed(path, c.changed, s->setup->roles.model.section->path, err);
	return rc;
}

int zr_base_check(struct zr_session *s, const char *run, struct zr_error *err)
{
	char path[PATH_MAX];
	struct zr_manifest m;
	int all, found = find_manifest(run, path, &m);

	int rc = all_can(s, found && can_compare(s->setup, &m), &all, err);
	if (!rc && all)
		rc = compare(s, &m, path, err);
	if (found)
		zr_manifest_free(&m);
	return rc;
}
