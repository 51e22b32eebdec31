/* SPDX-License-Identifier: Apache-2.0
 *
 * config_diff.c - zeroth config diff A B: the values of two configurations, or runs, that differ.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/base/list.h"
#include "core/setup.h"
#include "train/adapter.h"
#include "train/rundir.h"
#include "train/weights/declare.h"

static const struct zr_cmd_option options[] = { { 0 } };

const struct zr_cmd_usage zr_config_diff_usage = {
	.command = "config diff",
	.form = { { NULL, "A B", NULL } },
	.about = "Prints each value that differs between two configurations, with the file and "
		 "line of\n"
		 "both. A and B are INI files, whose `auto` is resolved first, or directories of "
		 "runs.\n"
		 "Exits with 0 if no value differs, with 1 if one does.\n",
	.option = options,
};

struct value {
	char *section, *key, *text, *source; /* owned */
};

struct side {
	const char *name;
	struct value *value;
	int32_t n, room;
};

static int add_value(struct side *to, const char *section, const char *key, const char *text,
		     const char *source)
{
	if (zr_list_room(&to->value, to->n + 1, &to->room, sizeof *to->value))
		return ZR_ENOMEM;

	struct value *v = &to->value[to->n++];
	*v = (struct value){ strdup(section), strdup(key), strdup(text),
			     strdup(source ? source : "default") };
	return v->section && v->key && v->text && v->source ? 0 : ZR_ENOMEM;
}

static int add_section(struct side *to, const struct zr_config *cfg, const struct zr_section *s)
{
	const struct zr_opt *o;
	char text[640];
	int rc = 0;

#define OWN(key, text) add_value(to, s->name, key, text, zr_config_source(cfg, s->name, key))
	if (s->plugin)
		rc = OWN("plugin", zr_config_plugin_text(cfg, s));
	if (!rc && s->path)
		rc = OWN("path", s->path);
	if (!rc && s->store)
		rc = OWN("store", zr_model_table.table.opts[1].choices[s->store]);
	if (!rc && s->ignore_keys)
		rc = OWN("ignore_keys", s->ignore_keys);
	if (!rc && s->add_tokens)
		rc = OWN("add_tokens", s->add_tokens);
	if (!rc && s->match)
		rc = OWN("match", s->match);
	if (!rc && s->sequences != ZR_AUTO_COUNT) {
		snprintf(text, sizeof text, "%llu", (unsigned long long)s->sequences);
		rc = OWN("sequences", text);
	}

	for (uint32_t i = 0; !rc && (o = zr_table_next(&s->table, 0, &i));) {
		const char *own = zr_value_text(o, s->opts);
		if (!zr_section_gives(s, o))
			continue;
		if (!own)
			zr_value_format(o, s->opts, text, sizeof text);
		rc = OWN(o->name, own ? own : text);
	}
#undef OWN
	return rc;
}

/* The values of an INI, or of the one that a run wrote, in which nothing is `auto`. */
static int read_side(struct side *to, struct zr_error *err)
{
	struct zr_config *cfg = NULL;
	struct zr_setup *s = NULL;
	char path[PATH_MAX];
	const int run = zr_dir_has(to->name, "config.ini", path);

	int rc;
	if (run)
		rc = zr_run_config(path, NULL, 0, &cfg, err);
	else
		rc = zr_config_load(to->name, NULL, 0, &cfg, err);
	if (!rc && !run)
		rc = zr_setup_open(cfg, ZR_MODE_TRAIN, ZR_SETUP_ALONE, 1, &s, err);
	rc = rc || run ? rc : zr_adapter_settle(s, err);
	for (int i = 0; !rc && i < zr_config_count(cfg); i++)
		if (add_section(to, cfg, zr_config_at(cfg, i)))
			rc = zr_no_memory(err);
	zr_setup_close(s);
	zr_config_free(cfg);
	return rc;
}

static const struct value *find(const struct side *in, const struct value *like)
{
	for (int i = 0; i < in->n; i++)
		if (!strcmp(in->value[i].section, like->section) &&
		    !strcmp(in->value[i].key, like->key))
			return &in->value[i];
	return NULL;
}

static void print(const struct value *a, const struct value *b)
{
	const struct value *any = a ? a : b;

	printf("[%s] %s\n", any->section, any->key);
	if (a)
		printf("- %s ; %s\n", a->text, a->source);
	if (b)
		printf("+ %s ; %s\n", b->text, b->source);
}

/* Prints what differs, in the order of a, then what only b has. Returns whether anything does. */
static int compare(const struct side *a, const struct side *b)
{
	int any = 0;

	for (int i = 0; i < a->n; i++) {
		const struct value *other = find(b, &a->value[i]);
		if (other && !strcmp(other->text, a->value[i].text))
			continue;

		print(&a->value[i], other);
		any = 1;
	}

	for (int i = 0; i < b->n; i++)
		if (!find(a, &b->value[i])) {
			print(NULL, &b->value[i]);
			any = 1;
		}
	return any;
}

static void free_side(struct side *s)
{
	for (int i = 0; i < s->n; i++) {
		free(s->value[i].section);
		free(s->value[i].key);
		free(s->value[i].text);
		free(s->value[i].source);
	}

	free(s->value);
}

int zr_cmd_config_diff(int argc, char **argv)
{
	struct side a = { 0 }, b = { 0 };
	struct zr_error err = { 0 };
	struct zr_cmd_operands operands;
	int differ = 0;

	int rc = zr_cmd_parse(argc, argv, &zr_config_diff_usage, NULL, NULL, &operands);
	if (rc >= 0)
		return rc;

	a.name = operands.at[0];
	b.name = operands.at[1];
	rc = read_side(&a, &err);
	if (!rc)
		rc = read_side(&b, &err);
	if (!rc)
		differ = compare(&a, &b);
	free_side(&a);
	free_side(&b);
	return rc ? zr_cmd_failed(&err) : differ;
}
