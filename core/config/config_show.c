/* SPDX-License-Identifier: Apache-2.0
 *
 * config_show.c - the whole config as INI text, which loads to the same values.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "core/config/config_impl.h"
#include "core/config/ini.h"

const char *zr_config_plugin_text(const struct zr_config *cfg, const struct zr_section *s)
{
	const struct zr_config_part *p = zr_part_find(cfg, s->name);
	return strchr(p->chosen->value, '/') ? s->plugin->path : p->chosen->value;
}

/* source: where the value comes from, as a comment behind it; NULL: there is no comment. */
static void write_pair(FILE *out, const char *key, const char *value, const char *source)
{
	fprintf(out, "%s =%s", key, *value ? " " : "");
	zr_ini_write_value(out, value);
	if (source)
		fprintf(out, " ; %s", source);
	putc('\n', out);
}

/* What is not there is no path; what cannot be looked at is one. */
static int is_there(const char *path)
{
	return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR);
}

/* What lies at a relative path, so that it is found from another directory, too. */
static const char *absolute(const char *path, char room[2 * PATH_MAX])
{
	if (!*path || *path == '/' || !is_there(path) || !getcwd(room, PATH_MAX))
		return path;
	size_t n = strlen(room);
	return snprintf(room + n, PATH_MAX, "/%s", path) < PATH_MAX ? room : path;
}

/* The options that the section gives. sources: each with what says so behind it. */
static void write_options(const struct zr_config_part *p, FILE *out, int sources)
{
	const struct zr_opt *o;
	for (uint32_t i = 0; (o = zr_table_next(&p->s.table, 0, &i));) {
		const char *text = zr_value_text(o, p->s.opts);
		char value[640], room[2 * PATH_MAX];
		if (!zr_section_gives(&p->s, o))
			continue;
		if (!text) {
			zr_value_format(o, p->s.opts, value, sizeof value);
			text = value;
		} else if (p->s.role && o->type == ZR_T_PATH) {
			text = absolute(text, room);
		}
		write_pair(out, o->name, text, sources ? *zr_part_source(p, o) : NULL);
	}
}

/* The keys that a section has beside its plugin's options. */
static void write_own_keys(const struct zr_config *cfg, const struct zr_config_part *p, FILE *out,
			   int sources)
{
	char room[2 * PATH_MAX];
	if (p->chosen)
		write_pair(out, "plugin", zr_config_plugin_text(cfg, &p->s),
			   sources ? p->chosen->place : NULL);
	if (p->s.path)
		write_pair(out, "path", absolute(p->s.path, room),
			   sources ? cfg->model_place : NULL);
	if (p->s.ignore_keys)
		write_pair(out, "ignore_keys", p->s.ignore_keys,
			   sources ? zr_config_source(cfg, p->s.name, "ignore_keys") : NULL);
	if (p->s.add_tokens)
		write_pair(out, "add_tokens", p->s.add_tokens,
			   sources ? zr_config_source(cfg, p->s.name, "add_tokens") : NULL);
	if (p->own)
		write_pair(out, p->own->key, p->own->value, sources ? p->own->place : NULL);
}

int zr_config_write_ini(const struct zr_config *cfg, FILE *out, int sources)
{
	for (int i = 0; i < cfg->n; i++) {
		const struct zr_config_part *p = &cfg->part[i];
		fprintf(out, "%s[%s]\n", i ? "\n" : "", p->s.name);
		write_own_keys(cfg, p, out, sources);
		write_options(p, out, sources);
	}
	return ferror(out) ? ZR_EIO : 0;
}
