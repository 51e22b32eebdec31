/* SPDX-License-Identifier: Apache-2.0
 *
 * import.c - see import.h: which program a file is of, and a row of its table for each setting.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/import/import.h"
#include "core/config/options.h"
#include "core/plugin/loader.h"

static const struct zr_import_kind *const kinds[] = { &zr_deepspeed, &zr_trainer, &zr_axolotl,
						      &zr_accelerate };
#define KINDS (sizeof kinds / sizeof *kinds)

/* A path as rows have it: "datasets[].path" for "datasets[3].path". */
static void without_numbers(const char *path, char *to, size_t room)
{
	size_t n = 0;

	for (; *path && n + 1 < room; path++) {
		to[n++] = *path;
		if (*path == '[')
			path += strspn(path + 1, "0123456789");
	}

	to[n] = 0;
}

/* Whether a row is of a block, "fsdp_config.*", and the path is below it, be it a list. */
static int is_below(const char *row, const char *path)
{
	const size_t n = strlen(row);
	if (n < 3 || strcmp(row + n - 2, ".*") || strncmp(row, path, n - 2))
		return 0;
	return path[n - 2] == '.' || path[n - 2] == '[';
}

static int has_path(const struct zr_import_key *k, const char *path)
{
	for (const char *const *p = k->paths; *p; p++)
		if (!strcmp(*p, path))
			return 1;
	return 0;
}

/* The row of a path: its own, or that of a block of which nothing is told apart. */
static const struct zr_import_key *row_of(const struct zr_import_kind *kind, const char *path)
{
	char plain[512];

	without_numbers(path, plain, sizeof plain);
	for (const struct zr_import_key *k = kind->keys; k->paths; k++)
		if (has_path(k, plain))
			return k;
	for (const struct zr_import_key *k = kind->keys; k->paths; k++)
		for (const char *const *p = k->paths; *p; p++)
			if (is_below(*p, plain))
				return k;
	return NULL;
}

static int has_block(const struct zr_import_kind *kind, const char *path)
{
	const size_t n = strlen(path);
	for (const struct zr_import_key *k = kind->keys; k->paths; k++)
		for (const char *const *p = k->paths; *p; p++)
			if (!strncmp(*p, path, n) && ((*p)[n] == '.' || (*p)[n] == '['))
				return 1;
	return 0;
}

/* A list of objects where a value is expected: what is refused or has no effect as one is so as a
 * list, and nothing else is read of it. */
static const struct zr_import_key *row_of_list(const struct zr_import_kind *kind, const char *path)
{
	char list[512];
	snprintf(list, sizeof list, "%.*s", (int)strcspn(path, "["), path);
	const struct zr_import_key *k = strchr(path, '[') ? row_of(kind, list) : NULL;
	return k && (k->map == zr_import_none || k->map == zr_import_refuse) ? k : NULL;
}

/* The one that knows most of the keys at the top; the first of equals. */
static const struct zr_import_kind *guess(const json_t *root)
{
	const struct zr_import_kind *best = kinds[0];
	int most = -1;

	for (size_t i = 0; i < KINDS; i++) {
		const char *key;
		json_t *value;
		int n = 0;
		json_object_foreach((json_t *)root, key, value)
			n += row_of(kinds[i], key) || has_block(kinds[i], key);
		if (n > most) {
			most = n;
			best = kinds[i];
		}
	}

	return best;
}

/* A path without the blocks that it is in. */
static const char *last_part(const char *path)
{
	const char *dot = strrchr(path, '.');
	return dot ? dot + 1 : path;
}

static int unknown(struct zr_setting *s)
{
	const char *names[1024] = { NULL }, *near;
	int n = 0;

	for (const struct zr_import_key *k = s->from->kind->keys; k->paths; k++)
		for (const char *const *p = k->paths; *p && n < 1024; p++)
			names[n++] = *p;
	near = zr_nearest(s->path, names, n);
	for (int i = 0; !near && i < n; i++)
		if (!strcmp(last_part(names[i]), last_part(s->path)))
			near = names[i];

	if (near)
		return zr_import_fate(s, ZR_FATE_UNKNOWN, "unknown key; did you mean %s?", near);
	return zr_import_fate(s, ZR_FATE_UNKNOWN, "unknown key of %s", s->from->kind->name);
}

/* auto is what the arguments say, which have the name of the block. */
static int is_switched(struct zr_import *im, const struct zr_import_kind *kind, const char *path)
{
	const struct zr_setting *s = zr_import_find(im, kind, path);
	char name[512];

	snprintf(name, sizeof name, "%.*s", (int)strcspn(path, "."), path);
	if (s && zr_import_is(s->value, "auto") && im->source[0].kind != kind)
		return zr_import_is_on(im, im->source[0].kind, name);
	return zr_import_is_on(im, kind, path);
}

/* A block with a switch, and the switch is off. */
static int is_off(struct zr_import *im, struct zr_setting *s, char block[512])
{
	for (const char *dot = strchr(s->path, '.'); dot; dot = strchr(dot + 1, '.')) {
		const struct zr_import_kind *kind = s->from->kind;
		const struct zr_import_key *row;
		snprintf(block, 512, "%.*s.enabled", (int)(dot - s->path), s->path);
		row = row_of(kind, block);
		if (!strcmp(block, s->path) || !row || is_switched(im, kind, block))
			continue;
		if (has_path(row, block) || zr_import_find(im, kind, block))
			return 1;
	}

	return 0;
}

static IMPORT_MAP(automatic)
{
	if (im->source[0].kind != s->from->kind)
		return zr_import_fate(s, ZR_FATE_MAPPED, "auto: as %s says", im->file);
	if (k->takes_auto)
		return zr_import_put(im, s, k->to, "auto", NULL);
	if (k->to)
		return zr_import_fate(s, ZR_FATE_AUTO, "auto: [%.*s] %s has its default here",
				      (int)(strrchr(k->to, '.') - k->to), k->to,
				      strrchr(k->to, '.') + 1);
	return zr_import_fate(s, ZR_FATE_AUTO, "auto: off");
}

/* JSON has no comments: people write them as keys. */
static int is_comment(const char *path)
{
	const char *dot = strrchr(path, '.');
	return !strncmp(dot ? dot + 1 : path, "_comment", 8);
}

static int settle(struct zr_import *im, struct zr_setting *s)
{
	const struct zr_import_key *k = row_of(s->from->kind, s->path);
	char block[512];

	if (s->fate != ZR_FATE_OPEN)
		return 0;
	if (!k && (k = row_of_list(s->from->kind, s->path)))
		return k->map == zr_import_none ? zr_import_no_effect(s, k->text) :
						  zr_import_impossible(s, k->text);
	if (json_is_object(s->value) && (!k || !k->map)) {
		if (has_block(s->from->kind, s->path))
			return zr_import_no_effect(s, "empty");
		return unknown(s);
	}

	if (!k && is_comment(s->path))
		return zr_import_no_effect(s, "a comment");
	if (!k)
		return unknown(s);
	if (json_is_null(s->value))
		return zr_import_no_effect(s, "null is the default");
	if (is_off(im, s, block))
		return zr_import_fate(s, ZR_FATE_NONE, "%s is off", block);
	if (s->from->kind == &zr_deepspeed && zr_import_is(s->value, "auto") &&
	    k->map != zr_import_none && k->map != zr_import_refuse)
		return automatic(im, s, k);
	if (k->map)
		return k->map(im, s, k);

	return zr_import_as_it_is(im, s, k->to);
}

/* DeepSpeed's settings below "deepspeed", or the file that it names, are a source of their own. */
static int read_second(struct zr_import *im, struct zr_error *err)
{
	struct zr_import_source *first = &im->source[0], *second = &im->source[1];
	struct zr_setting *s = zr_import_find(im, first->kind, "deepspeed");
	int rc = 0;

	*second = (struct zr_import_source){ .kind = &zr_deepspeed };
	if (first->kind == &zr_deepspeed)
		return 0;
	if (s && json_is_string(s->value) && *json_string_value(s->value)) {
		const char *name = json_string_value(s->value), *slash = strrchr(im->file, '/');
		char path[PATH_MAX];
		snprintf(path, sizeof path, "%s", name);
		if (*name != '/' && slash && access(name, F_OK))
			snprintf(path, sizeof path, "%.*s/%s", (int)(slash - im->file), im->file,
				 name);
		rc = zr_tree_read(path, &im->trees[1], err);
		if (!rc)
			rc = zr_settings_read(second, im->trees[1], err);
		if (!rc)
			rc = zr_import_fate(s, ZR_FATE_MAPPED, "imported with it");
		im->n_sources += !rc;
		return rc;
	}

	second->settings = calloc((size_t)first->n + 1, sizeof *second->settings);
	if (!second->settings)
		return zr_no_memory(err);

	const int n = first->n;
	first->n = 0;
	for (int i = 0; i < n; i++) {
		struct zr_setting *from = &first->settings[i];
		if (strncmp(from->path, "deepspeed.", 10)) {
			first->settings[first->n++] = *from;
			continue;
		}

		memmove(from->path, from->path + 10, strlen(from->path + 10) + 1);
		from->from = second;
		second->settings[second->n++] = *from;
	}

	im->n_sources += second->n > 0;
	return 0;
}

/* --model, --data and --device. */
static int put_given(struct zr_import *im)
{
	const char *dot = im->data ? strrchr(im->data, '.') : NULL;
	const char *plugin = "tokens";
	if (dot && !strncmp(dot, ".json", 5))
		plugin = "chat";
	else if (dot && (!strcmp(dot, ".txt") || !strcmp(dot, ".gz")))
		plugin = "text";

	int rc = 0;
	if (im->model)
		rc = zr_import_put(im, NULL, "model.path", im->model, "--model");
	if (!rc && strcmp(im->device, "cpu"))
		rc = zr_import_put(im, NULL, "device.plugin", im->device, "--device");
	if (!rc && im->data)
		rc = zr_import_put(im, NULL, "data.plugin", plugin, "--data");
	if (!rc && im->data)
		rc = zr_import_put(im, NULL, "data.path", im->data, "--data");
	if (!rc && im->data && im->model && !strcmp(plugin, "chat"))
		rc = zr_import_put(im, NULL, "data.tokenizer", im->model, "--model");
	return rc;
}

int zr_import_run(struct zr_import *im, struct zr_error *err)
{
	int rc = zr_tree_read(im->file, &im->trees[0], err);
	const struct zr_plugin *cuda;
	struct zr_error ignored = { 0 };

	im->err = err;
	im->deepspeed = &zr_deepspeed;
	if (rc)
		return rc;
	if (!im->device)
		im->device = zr_plugin_load("device", "cuda", &cuda, &ignored) ? "cpu" : "cuda";
	im->source[0].kind = guess(im->trees[0]->root);
	im->n_sources = 1;
	rc = zr_settings_read(&im->source[0], im->trees[0], err);
	if (!rc)
		rc = read_second(im, err);
	if (!rc)
		rc = put_given(im);
	for (int i = im->n_sources - 1; i >= 0; i--) /* what it names may be more exact */
		for (int j = 0; !rc && j < im->source[i].n; j++)
			rc = settle(im, &im->source[i].settings[j]);
	for (int i = im->n_sources - 1; !rc && i >= 0; i--)
		rc = im->source[i].kind->finish(im);
	if (!rc)
		rc = zr_import_finish_sequences(im);
	if (!rc)
		rc = zr_import_check(im);
	return rc ? zr_err(err, rc, "out of memory") : 0;
}

int zr_import_count(const struct zr_import *im, enum zr_fate fate)
{
	int n = 0;
	for (int i = 0; i < im->n_sources; i++)
		for (int j = 0; j < im->source[i].n; j++)
			n += im->source[i].settings[j].fate == fate;
	return n;
}

void zr_import_free(struct zr_import *im)
{
	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < im->source[i].n; j++) {
			free(im->source[i].settings[j].path);
			free(im->source[i].settings[j].why);
		}

		free(im->source[i].settings);
		zr_tree_free(im->trees[i]);
	}

	zr_lines_free(im);
}

static json_t *json_of(const char *value)
{
	double number;

	if (!strcmp(value, "yes") || !strcmp(value, "true"))
		return json_true();
	if (!strcmp(value, "no") || !strcmp(value, "false"))
		return json_false();
	if (zr_parse_double(value, &number))
		return zr_json_string(value, "");
	return json_real(number);
}

enum zr_fate zr_import_one(const struct zr_import_kind *kind, const struct zr_import_key *k,
			   const char *path, const char *value, char *text, size_t room)
{
	struct zr_error err = { 0 };
	struct zr_import im = { .file = "",
				.device = "cuda",
				.n_sources = 1,
				.err = &err,
				.deepspeed = &zr_deepspeed };

	/* the key, and what DeepSpeed would need beside it */
	static const char *const needs[][2] = {
		{ "zero_optimization.stage", "3" },
		{ "zero_optimization.offload_optimizer.nvme_path", "DIRECTORY" },
		{ "zero_optimization.offload_param.nvme_path", "DIRECTORY" },
		{ "zero_optimization.offload_optimizer.device", "nvme" },
	};
	struct zr_setting settings[5] = {
		{ .path = (char *)path, .value = json_of(value), .file = "", .from = im.source },
	};
	const int32_t beside = strstr(path, "aio") || strstr(path, "offload") ? 5 : 4;
	enum zr_fate fate;
	for (int i = 1; i < 5; i++)
		settings[i] = (struct zr_setting){ .path = (char *)needs[i - 1][0],
						   .value = json_of(needs[i - 1][1]),
						   .file = "" };
	im.source[0] = (struct zr_import_source){ .kind = kind, .settings = settings, .n = beside };
	if (settle(&im, &settings[0]))
		settings[0].fate = ZR_FATE_NONE;
	fate = settings[0].fate;
	if (im.n_lines)
		snprintf(text, room, "[%s] %s = %s", im.lines[0].section, im.lines[0].key,
			 im.lines[0].value);
	else
		snprintf(text, room, "%s", settings[0].why ? settings[0].why : "");
	if (k->to && strchr(k->to, '.') && !im.n_lines && fate != ZR_FATE_REFUSED) {
		snprintf(text, room, "[%.*s] %s", (int)(strrchr(k->to, '.') - k->to), k->to,
			 strrchr(k->to, '.') + 1);
		fate = ZR_FATE_MAPPED;
	}

	for (int i = 0; i < 5; i++) {
		json_decref((json_t *)settings[i].value);
		free(settings[i].why);
	}

	zr_lines_free(&im);
	return fate;
}
