/* SPDX-License-Identifier: Apache-2.0
 *
 * describe.c - see plugin.h. Everything shown comes from the descriptor and its option table.
 */
#include <string.h>

#include "cmd/plugin.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/config/config.h"

static const struct {
	uint32_t bit;
	const char *name, *words;
} flags[] = {
	{ ZR_O_REQUIRED, "required", "required" },
	{ ZR_O_AUTO, "auto", NULL },
	{ ZR_O_SCHED, "scheduled", "a scheduler may drive it" },
	{ ZR_O_GROUP, "group", "may differ between parameter groups" },
	{ ZR_O_NUMERIC, "numeric", NULL },
	{ ZR_O_DEPRECATED, "deprecated", "deprecated" },
};
#define N_FLAGS (sizeof flags / sizeof *flags)

static const char *type_name(int32_t type)
{
	static const char *const names[] = { "?",     "yes or no", "whole number", "number",
					     "text",  "choice",    "bytes",        "path",
					     "count", "list",      "patterns" };
	return type >= ZR_T_BOOL && type <= ZR_T_GLOBS ? names[type] : names[0];
}

/* What a plugin wrote need not be UTF-8. */
static void put_text(json_t **to, const char *key, const char *text)
{
	zr_json_put(to, key, zr_json_string(text, "(not UTF-8)"));
}

static json_t *describe_flags(const struct zr_opt *o)
{
	json_t *list = json_array();
	for (size_t i = 0; i < N_FLAGS; i++)
		if (o->flags & flags[i].bit)
			zr_json_add(&list, json_string(flags[i].name));
	return list;
}

static json_t *describe_choices(const struct zr_opt *o)
{
	json_t *list = json_array();
	for (int i = 0; o->choices[i]; i++)
		zr_json_add(&list, zr_json_string(o->choices[i], "(not UTF-8)"));
	return list;
}

static json_t *describe_option(const struct zr_opt *o)
{
	json_t *j = json_object();
	char range[96];

	zr_range_text(o, range, sizeof range);
	put_text(&j, "name", o->name);
	put_text(&j, "type", type_name(o->type));
	if (o->type == ZR_T_F64S)
		zr_json_put(&j, "length", json_integer(o->width / 8));
	if (o->def)
		put_text(&j, "default", o->def);
	else
		zr_json_put(&j, "default", json_null());
	put_text(&j, "range", range);
	put_text(&j, "unit", o->unit);
	put_text(&j, "doc", o->doc);
	zr_json_put(&j, "flags", describe_flags(o));
	if (o->type == ZR_T_ENUM)
		zr_json_put(&j, "choices", describe_choices(o));
	return j;
}

json_t *zr_describe(const struct zr_plugin *p)
{
	const struct zr_desc *d = p->desc;
	struct zr_table t = zr_table_of(d);
	const struct zr_opt *o;
	json_t *j = json_object(), *list = json_array();
	char abi[32];

	snprintf(abi, sizeof abi, "%u.%u", p->entry->abi_major, p->entry->abi_minor);
	put_text(&j, "role", d->role);
	put_text(&j, "id", d->id);
	put_text(&j, "version", d->version);
	put_text(&j, "license", d->license);
	put_text(&j, "summary", d->summary);
	put_text(&j, "file", p->path);
	put_text(&j, "abi", abi);
	zr_json_put(&j, "need_minor", json_integer(p->entry->need_minor));
	zr_json_put(&j, "draft", json_integer(p->entry->draft));
	put_text(&j, "build", p->entry->build ? p->entry->build : "");
	for (const struct zr_iface *f = d->ifaces; f->id; f++)
		zr_json_add(&list, zr_json_string(f->id, "(not UTF-8)"));
	zr_json_put(&j, "interfaces", list);
	list = json_array();
	for (uint32_t i = 0; (o = zr_table_next(&t, 0, &i));)
		zr_json_add(&list, describe_option(o));
	zr_json_put(&j, "options", list);
	return j;
}

/* "number [0, 1), tokens", "one of log, linear", ... */
static void type_text(const struct zr_opt *o, char *out, size_t size)
{
	char range[96];
	int n = 0;

	zr_range_text(o, range, sizeof range);
	if (o->type == ZR_T_F64S)
		n = snprintf(out, size, "%u numbers", o->width / 8);
	else if (o->type != ZR_T_ENUM)
		n = snprintf(out, size, "%s",
			     o->type == ZR_T_COUNT ? "whole number" : type_name(o->type));
	else
		for (int i = 0; o->choices[i] && (size_t)n < size; i++)
			n += snprintf(out + n, size - (size_t)n, "%s%s", i ? ", " : "one of ",
				      o->choices[i]);
	if (*range && (size_t)n < size)
		n += snprintf(out + n, size - (size_t)n, " %s", range);
	if ((o->flags & ZR_O_AUTO) && (size_t)n < size)
		n += snprintf(out + n, size - (size_t)n, " or auto");
	if (*o->unit && (size_t)n < size)
		n += snprintf(out + n, size - (size_t)n, ", in %s", o->unit);
	for (size_t i = 0; i < N_FLAGS && (size_t)n < size; i++)
		if ((o->flags & flags[i].bit) && flags[i].words)
			n += snprintf(out + n, size - (size_t)n, "; %s", flags[i].words);
}

void zr_describe_text(const struct zr_plugin *p, FILE *out)
{
	const struct zr_desc *d = p->desc;
	const struct zr_entry *e = p->entry;
	const struct zr_opt *o;
	struct zr_table t = zr_table_of(d);

	fprintf(out, "%s/%s %s (%s): %s\n", d->role, d->id, d->version, d->license, d->summary);
	fprintf(out, "  file        %s\n", p->path);
	fprintf(out, "  abi         %u.%u, needs %u.%u", e->abi_major, e->abi_minor, e->abi_major,
		e->need_minor);
	if (e->draft)
		fprintf(out, ", draft %u", e->draft);
	fprintf(out, "%s%s\n  interfaces ", e->build ? "; built with " : "",
		e->build ? e->build : "");
	for (const struct zr_iface *f = d->ifaces; f->id; f++)
		fprintf(out, " %s", f->id);
	fprintf(out, "\n\n%s\n", t.n ? "Options, with their defaults:" : "It has no options.");
	for (uint32_t i = 0; (o = zr_table_next(&t, 0, &i));) {
		char type[640];
		type_text(o, type, sizeof type);
		fprintf(out, "\n  %s = %s\n      %s\n      %s\n", o->name, o->def ? o->def : "",
			type, o->doc);
	}
}

/* Text for mdoc: a new line after a sentence and before column 80, and none that starts like a
 * macro. */
static void put_mdoc(FILE *out, const char *text)
{
	const char *word;
	size_t column = 0, len;

	while ((word = zr_next_word(&text, &len))) {
		if (column && (word[-2] == '.' || column + 1 + len > 78)) {
			putc('\n', out);
			column = 0;
		} else if (column) {
			putc(' ', out);
			column++;
		}

		if (!column && (*word == '.' || *word == '\''))
			fputs("\\&", out);
		for (size_t i = 0; i < len; i++)
			if (word[i] == '\\')
				fputs("\\e", out);
			else
				putc(word[i], out);
		column += len;
	}

	putc('\n', out);
}

static void mdoc_option(const struct zr_opt *o, FILE *out)
{
	char type[644] = "(";

	type_text(o, type + 1, sizeof type - 2);
	strcat(type, ")");
	if (o->def && *o->def)
		fprintf(out, ".It Cm %s No = Ar %s\n", o->name, o->def);
	else
		fprintf(out, ".It Cm %s No =\n", o->name);
	put_mdoc(out, o->doc);
	put_mdoc(out, type);
}

static void mdoc_table(const struct zr_table *t, FILE *out)
{
	const struct zr_opt *o;

	if (!t->n) {
		fputs("It has no options.\n", out);
		return;
	}

	fputs(".Bl -tag -width Ds\n", out);
	for (uint32_t i = 0; (o = zr_table_next(t, 0, &i));)
		mdoc_option(o, out);
	fputs(".El\n", out);
}

void zr_describe_mdoc(const struct zr_plugin *p, FILE *out)
{
	struct zr_table t = zr_table_of(p->desc);
	fprintf(out, ".Ss \"[%s] plugin = %s\"\n", p->desc->role, p->desc->id);
	put_mdoc(out, p->desc->summary);
	mdoc_table(&t, out);
}

static void core_mdoc(const struct zr_core_table *c, FILE *out)
{
	fprintf(out, ".Ss \"[%s] of zeroth itself\"\n", c->section);
	put_mdoc(out, c->doc);
	mdoc_table(&c->table, out);
}

void zr_describe_core_mdoc(FILE *out)
{
	for (const struct zr_core_table *c = zr_core_tables; c->section; c++)
		core_mdoc(c, out);
	core_mdoc(&zr_model_table, out);
	core_mdoc(&zr_group_table, out);
	core_mdoc(&zr_eval_table, out);
}
