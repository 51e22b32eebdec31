/* SPDX-License-Identifier: Apache-2.0
 *
 * spelling.c - see import.h: a key that is unknown here, looked up in the tables of other programs.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/config/config.h"
#include "core/config/options.h"
#include "core/plugin/plugin_file.h"

static const struct zr_import_kind *const kinds[] = { &zr_deepspeed, &zr_trainer, &zr_axolotl,
						      &zr_accelerate };
#define KINDS (sizeof kinds / sizeof *kinds)

static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot ? dot + 1 : path;
}

/* Whether "section.key" is a path, as in zero_optimization.stage; or the line that a row leads to.
 */
static int joins(const char *path, const char *section, const char *key)
{
	const size_t n = strlen(section);
	return !strncmp(path, section, n) && path[n] == '.' && !strcmp(path + n + 1, key);
}

/* How well a path of a row fits [section] key, 0: not at all. Words that many blocks have fit in
 * theirs only. */
static int fit(const struct zr_import_key *k, const char *path, const char *section,
	       const char *key)
{
	static const char *const common[] = {
		"enabled", "type", "device", "params", "path", "name"
	};
	const size_t n = strlen(section);

	if (strcmp(last_part(path), key) || (k->to && joins(k->to, section, key)))
		return 0;
	if (joins(path, section, key))
		return 4;
	if (k->to && !strncmp(k->to, section, n) && k->to[n] == '.' && !strchr(k->to + n + 1, '.'))
		return 3;

	for (size_t i = 0; i < sizeof common / sizeof *common; i++)
		if (!strcmp(common[i], key))
			return 0;
	return k->to ? 2 : 1;
}

static const struct zr_import_key *find(const char *section, const char *key,
					const struct zr_import_kind **kind, const char **path)
{
	const struct zr_import_key *best = NULL;
	int most = 0;

	for (size_t i = 0; i < KINDS; i++)
		for (const struct zr_import_key *k = kinds[i]->keys; k->paths; k++)
			for (const char *const *p = k->paths; *p; p++) {
				const int fits = fit(k, *p, section, key);
				if (fits <= most)
					continue;

				most = fits;
				best = k;
				*path = *p;
				*kind = kinds[i];
			}
	return best;
}

/* A block of another program: the section that its first key with a line leads to. */
static int block(const char *section, char *hint, size_t room)
{
	const size_t n = strlen(section);

	for (size_t i = 0; i < KINDS; i++)
		for (const struct zr_import_key *k = kinds[i]->keys; k->paths; k++)
			if (k->to && strchr(k->to, '.') && !strncmp(*k->paths, section, n) &&
			    (*k->paths)[n] == '.') {
				snprintf(hint, room, "; %s of %s is [%.*s] here", section,
					 kinds[i]->name, (int)(strrchr(k->to, '.') - k->to), k->to);
				return 1;
			}
	return 0;
}

/* The section of core that has a key of this name, behind a hint that is not one of a likely name;
 * without any hint, and such a section, the keys of this one. */
static int of_core(const char *section, const char *key, char *hint, size_t room)
{
	const struct zr_core_table *own = NULL, *has = NULL;
	const struct zr_opt *o;
	size_t n = strlen(hint);

	for (const struct zr_core_table *t = zr_core_tables; t->section; t++) {
		own = strcmp(t->section, section) ? own : t;
		has = has || !zr_table_find(&t->table, key) ? has : t;
	}

	if ((*hint && strncmp(hint, "; `", 3)) || (!has && (*hint || !own)))
		return 0;

	n += (size_t)snprintf(hint + n, room - n, "; [%s] has ", has ? has->section : section);
	if (has)
		snprintf(hint + n, room - n, "%s", key);
	for (uint32_t i = 0, first = 1; !has && n < room && (o = zr_table_next(&own->table, 0, &i));
	     first = 0)
		n += (size_t)snprintf(hint + n, room - n, "%s%s", first ? "" : ", ", o->name);
	return 1;
}

/* A plugin that a build may go without, and does. */
static int left_out(const char *role, const char *id, char *hint, size_t room)
{
	static const struct {
		const char *role, *id, *needs;
	} optional[] = { { "device", "cuda", "CUDA: ./configure --with-cuda" },
			 { "comm", "nccl", "NCCL: ./configure --with-cuda --with-nccl" },
			 { "comm", "mpi", "MPI: ./configure --with-mpi" },
			 { "boot", "mpi", "MPI: ./configure --with-mpi" } };
	for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
		if (strcmp(optional[i].role, role) || strcmp(optional[i].id, id))
			continue;

		struct zr_error unused = { 0 };
		char *file = zr_plugin_file_find(role, id, &unused);
		if (!file)
			snprintf(hint, room, "; this build goes without %s", optional[i].needs);
		free(file);
		return !file;
	}

	return 0;
}

/* A plugin of earlier versions that is an option of another one now. */
static int became_option(const char *role, const char *id, char *hint, size_t room)
{
	static const struct {
		const char *former, *now;
	} optimizers[] = { { "adamw8", "adamw" }, { "lion8", "lion" } };

	if (strcmp(role, "optimizer"))
		return 0;

	for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
		if (strcmp(optimizers[i].former, id))
			continue;
		snprintf(hint, room, "; write plugin = %s and states = 8bit", optimizers[i].now);
		return 1;
	}

	return 0;
}

/* A key of earlier versions, of the section or of one named after it. */
static int former_key(const char *section, const char *key, char *hint, size_t room)
{
	static const struct {
		const char *section, *key, *now;
	} gone[] = {
		{ "optimizer", "moments", "did you mean states?" },
		{ "device", "separate",
		  "leave it out: `memory = SIZE` alone plays a card that only operations and "
		  "copies reach" },
		{ "device", "late_copies", "leave it out: it served tests alone, and is gone" },
	};

	for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
		if (strcmp(gone[i].key, key) ||
		    strncmp(gone[i].section, section, strlen(gone[i].section)))
			continue;

		snprintf(hint, room, "; %s", gone[i].now);
		return 1;
	}

	return 0;
}

int zr_import_spelling(const char *section, const char *key, const char *value, char *hint,
		       size_t room)
{
	const struct zr_import_kind *kind = NULL;
	const char *path = NULL;
	const struct zr_import_key *k = key ? find(section, key, &kind, &path) : NULL;
	char line[160];

	if (key && former_key(section, key, hint, room))
		return 1;
	if (key && !strcmp(key, "plugin") &&
	    (left_out(section, value, hint, room) || became_option(section, value, hint, room)))
		return 1;
	if (!k)
		return key ? of_core(section, key, hint, room) : block(section, hint, room);

	switch (zr_import_one(kind, k, path, value, line, sizeof line)) {
	case ZR_FATE_MAPPED:
	case ZR_FATE_PARTLY:
		snprintf(hint, room, "; %s of %s is %s here", path, kind->name, line);
		return 1;
	case ZR_FATE_REFUSED:
		snprintf(hint, room, "; %s of %s: %s", path, kind->name, line);
		return 1;
	default:
		snprintf(hint, room, "; %s of %s has no effect here: %s", path, kind->name, line);
		return 1;
	}
}
