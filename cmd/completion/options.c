/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - section.key=value by the option tables of core and of plugins, and files.
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "completion.h"
#include "core/config/config.h"
#include "core/config/ini.h"

void zr_candidate(const struct zr_candidates *c, const char *word, const char *doc)
{
	const size_t begun = strlen(c->begin);
	if (strncmp(word, c->begin, begun) || strpbrk(word, "\n\t") ||
	    (!word[begun] && begun && word[begun - 1] == '.'))
		return;
	fprintf(c->out, "%s%s%.*s\n", word, doc && *doc ? "\t" : "",
		doc ? (int)strcspn(doc, "\n\t") : 0, doc ? doc : "");
}

/* ---- files ----------------------------------------------------------------------- */

static int ends_in(const char *name, const char *end)
{
	const size_t n = strlen(name), len = strlen(end);
	return n > len && !strcmp(name + n - len, end);
}

static int is_run(const char *dir)
{
	char path[3 * PATH_MAX];
	snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
	return !access(path, F_OK);
}

void zr_complete_files(const struct zr_candidates *c, int kind, const char *path,
		       const char *prefix)
{
	char dir[PATH_MAX], whole[2 * PATH_MAX], word[3 * PATH_MAX];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct dirent **list;
	struct stat st;

	snprintf(dir, sizeof dir, "%.*s", (int)(name - path), path);
	int n = scandir(*dir ? dir : ".", &list, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *is = list[i]->d_name;
		snprintf(whole, sizeof whole, "%s%s", dir, is);
		const int is_dir = !stat(whole, &st) && S_ISDIR(st.st_mode);
		if ((*is != '.' || *name == '.') && strcmp(is, ".") && strcmp(is, "..") &&
		    (is_dir || kind == ZR_FILES_ANY ||
		     (kind == ZR_FILES_INI && ends_in(is, ".ini")))) {
			const int run = kind == ZR_FILES_RUNS && is_run(whole);
			snprintf(word, sizeof word, "%s%s%s", prefix, whole,
				 is_dir && !run ? "/" : "");
			zr_candidate(c, word, run ? "a run" : NULL);
		}

		free(list[i]);
	}

	if (n >= 0)
		free(list);
}

/* ---- plugins --------------------------------------------------------------------- */

struct listing {
	const struct zr_candidates *c;
	const char *role, *prefix;
};

static int list_plugin(void *arg, const char *role, const char *id, const char *path, int shadowed)
{
	const struct listing *l = arg;
	char word[512];

	(void)path;
	if (shadowed || (l->role && strcmp(l->role, role)))
		return 0;

	snprintf(word, sizeof word, "%s%s%s%s", l->prefix, l->role ? "" : role, l->role ? "" : "/",
		 id);
	zr_candidate(l->c, word, NULL);
	return 0;
}

/* role NULL: "role/id" of all. */
void zr_complete_plugins(const struct zr_candidates *c, const char *role, const char *prefix)
{
	struct listing l = { c, role, prefix };
	zr_plugin_scan(list_plugin, &l);
}

/* What a configuration names as the plugin of a section, and its own sections. */
struct naming {
	const char *section;
	char plugin[256];
	const struct zr_candidates *list; /* not NULL: its sections with a name of the user's */
};

static int read_ini(void *arg, const char *section, const char *key, const char *value, int line)
{
	struct naming *w = arg;
	char word[80];

	(void)line;
	if (key && w->section && !strcmp(section, w->section) && !strcmp(key, "plugin"))
		snprintf(w->plugin, sizeof w->plugin, "%s", value);
	if (!key && w->list && strchr(section, '.')) {
		snprintf(word, sizeof word, "%s.", section);
		zr_candidate(w->list, word, NULL);
	}

	return 0;
}

/* The lowest layer first, as the configuration has them. */
static void find_naming(struct naming *w, const char *const *words, int n)
{
	char path[PATH_MAX], start[80];
	struct zr_error err = { 0 };
	const char *dir;

	if (!w->list && !zr_data_dir(&dir, &err)) {
		snprintf(path, sizeof path, "%s/defaults.ini", dir);
		zr_ini_read(path, path, read_ini, w, &err);
	}

	for (int i = 0; i < n; i++)
		if (ends_in(words[i], ".ini"))
			zr_ini_read(words[i], words[i], read_ini, w, &err);
	snprintf(start, sizeof start, "%s.plugin=", w->section ? w->section : "");
	for (int i = 0; i < n; i++)
		if (w->section && !strncmp(words[i], start, strlen(start)))
			snprintf(w->plugin, sizeof w->plugin, "%s", words[i] + strlen(start));
}

/* ---- sections, keys, values ------------------------------------------------------- */

static void list_section(const struct zr_candidates *c, const char *section, const char *doc)
{
	char word[80];
	snprintf(word, sizeof word, "%s.", section);
	zr_candidate(c, word, doc);
}

static void list_sections(const struct zr_candidates *c, const char *const *words, int n)
{
	struct naming w = { .list = c };

	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		list_section(c, t->section, t->doc);
	for (const struct zr_role *r = zr_roles; r->name; r++) {
		if (!r->has_no_plain)
			list_section(c, r->name, NULL);
		for (int i = 0; r->section[i]; i++)
			list_section(c, r->section[i], NULL);
	}

	find_naming(&w, words, n);
}

static void list_keys(const struct zr_candidates *c, const char *section, const struct zr_table *t)
{
	char word[160];
	uint32_t i = 0;

	for (const struct zr_opt *o; (o = zr_table_next(t, 0, &i));) {
		snprintf(word, sizeof word, "%s.%s=", section, o->name);
		zr_candidate(c, word, o->doc);
	}
}

static void list_values(const struct zr_candidates *c, const char *section, const struct zr_opt *o)
{
	char prefix[160], word[320];

	snprintf(prefix, sizeof prefix, "%s.%s=", section, o->name);
	for (int i = 0; o->type == ZR_T_ENUM && o->choices[i]; i++) {
		snprintf(word, sizeof word, "%s%s", prefix, o->choices[i]);
		zr_candidate(c, word, NULL);
	}

	for (int i = 0; o->type == ZR_T_BOOL && i < 2; i++) {
		snprintf(word, sizeof word, "%s%s", prefix, i ? "no" : "yes");
		zr_candidate(c, word, NULL);
	}

	snprintf(word, sizeof word, "%sauto", prefix);
	if (o->flags & ZR_O_AUTO)
		zr_candidate(c, word, NULL);
	if (o->type == ZR_T_PATH && !strncmp(c->begin, prefix, strlen(prefix)))
		zr_complete_files(c, ZR_FILES_ANY, c->begin + strlen(prefix), prefix);
}

/* The tables of options that a section has: core's, and that of its plugin. */
static int tables_of(const char *section, const char *role, const char *const *words, int n,
		     struct zr_table out[3])
{
	struct naming w = { .section = section };
	const struct zr_plugin *p;
	struct zr_error err = { 0 };
	int found = 0;

	for (const struct zr_core_table *t = zr_core_tables; t->section; t++)
		if (!strcmp(t->section, section))
			out[found++] = t->table;
	if (!role)
		return found;
	if (!strcmp(section, "model"))
		out[found++] = zr_model_table.table;
	if (!strncmp(section, "optimizer.", 10))
		out[found++] = zr_group_table.table;
	if (!strncmp(section, "eval.", 5))
		out[found++] = zr_eval_table.table;
	find_naming(&w, words, n);
	if (!*w.plugin && strchr(section, '.')) { /* that of the section without a name */
		w.section = role;
		find_naming(&w, words, n);
	}

	if (*w.plugin && !zr_plugin_load(role, w.plugin, &p, &err))
		out[found++] = zr_table_of(p->desc);
	return found;
}

void zr_complete_option(const struct zr_candidates *c, const char *const *words, int n)
{
	const char *equals = strchr(c->begin, '='), *dot = NULL;
	const size_t key_end = equals ? (size_t)(equals - c->begin) : strlen(c->begin);
	struct zr_table table[4];
	char section[64], key[64], word[160];

	for (size_t i = 0; i < key_end; i++)
		dot = c->begin[i] == '.' ? c->begin + i : dot;
	if (!equals)
		list_sections(c, words, n);
	if (!dot || dot - c->begin >= (int)sizeof section)
		return;

	snprintf(section, sizeof section, "%.*s", (int)(dot - c->begin), c->begin);
	snprintf(key, sizeof key, "%.*s", (int)(c->begin + key_end - dot - 1), dot + 1);
	const struct zr_role *of = zr_section_role(section);
	const char *role = of ? of->name : NULL;
	snprintf(word, sizeof word, "%s.plugin=", section);
	if (role && !equals)
		zr_candidate(c, word, "which plugin it is");
	if (role && equals && !strcmp(key, "plugin"))
		zr_complete_plugins(c, role, word);
	const int n_tables = tables_of(section, role, words, n, table);
	for (int i = 0; i < n_tables; i++) {
		const struct zr_opt *o = equals ? zr_table_find(&table[i], key) : NULL;
		if (!equals)
			list_keys(c, section, &table[i]);
		else if (o)
			list_values(c, section, o);
	}
}
