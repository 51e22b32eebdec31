/* SPDX-License-Identifier: Apache-2.0
 *
 * lines.c - see import.h: the lines of the INI that is made.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/import/import.h"
#include "core/base/list.h"
#include "core/base/text.h"
#include "core/config/ini.h"

#define LONGEST 2048 /* bytes of a value */
#define WIDE    96   /* columns: beyond them a comment stands above its line */

static struct zr_import_line *find(const struct zr_import *im, const char *section, size_t len,
				   const char *key)
{
	for (int i = 0; i < im->n_lines; i++) {
		struct zr_import_line *l = &im->lines[i];
		if (strlen(l->section) == len && !strncmp(l->section, section, len) &&
		    !strcmp(l->key, key))
			return l;
	}

	return NULL;
}

const char *zr_import_given(const struct zr_import *im, const char *to)
{
	const char *dot = strrchr(to, '.');
	const struct zr_import_line *l = find(im, to, (size_t)(dot - to), dot + 1);
	return l ? l->value : NULL;
}

long long zr_import_given_count(const struct zr_import *im, const char *to)
{
	const char *text = zr_import_given(im, to);
	return text ? strtoll(text, NULL, 10) : 0;
}

static void free_line(struct zr_import_line *l)
{
	free(l->section);
	free(l->key);
	free(l->value);
	free(l->note);
}

void zr_import_drop(struct zr_import *im, const char *to)
{
	const char *dot = strrchr(to, '.');

	struct zr_import_line *l = find(im, to, (size_t)(dot - to), dot + 1);
	if (!l)
		return;

	free_line(l);
	memmove(l, l + 1, (size_t)(im->lines + im->n_lines - l - 1) * sizeof *l);
	im->n_lines--;
}

static int add_line(struct zr_import *im, struct zr_setting *s, const char *to, const char *value,
		    const char *note)
{
	const char *dot = strrchr(to, '.');
	struct zr_import_line line = { .from = s,
				       .section = strndup(to, (size_t)(dot - to)),
				       .key = strdup(dot + 1),
				       .value = strdup(value) };
	if (note)
		line.note = strdup(note);
	else
		line.note = zr_text("%s, line %d", s->path, s->line);

	if (zr_list_room(&im->lines, im->n_lines + 1, &im->room, sizeof *im->lines) ||
	    !line.section || !line.key || !line.value || !line.note) {
		free_line(&line);
		return zr_no_memory(im->err);
	}

	im->lines[im->n_lines++] = line;
	return 0;
}

/* Two settings that ask for different values of one key. */
static int contradicts(struct zr_setting *s, const struct zr_import_line *first, const char *value)
{
	const struct zr_setting *f = first->from;

	if (!f)
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "[%s] %s is %s already; give one of the two", first->section,
				      first->key, first->value);
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "[%s] %s would be %s, and %s by %s (%s:%d); give one of the two",
			      first->section, first->key, value, first->value, f->path, f->file,
			      f->line);
}

/* Whether a line of an INI can have it. */
static int has_line(const char *value)
{
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			return 0;
	return strlen(value) < LONGEST;
}

int zr_import_put(struct zr_import *im, struct zr_setting *s, const char *to, const char *value,
		  const char *note)
{
	const char *dot = strrchr(to, '.');
	const struct zr_import_line *first = find(im, to, (size_t)(dot - to), dot + 1);
	int rc = 0;

	if (!has_line(value) && s)
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "a control character, or longer than %d bytes", LONGEST);
	if (!has_line(value))
		return zr_err(im->err, ZR_EINVAL, "%s: a control character, or too long", note);
	if (first && s && strcmp(first->value, value))
		return contradicts(s, first, value);
	if (!first)
		rc = add_line(im, s, to, value, note);
	if (!rc && s && s->fate == ZR_FATE_OPEN)
		s->fate = ZR_FATE_MAPPED;
	return rc;
}

int zr_import_as_it_is(struct zr_import *im, struct zr_setting *s, const char *to)
{
	char *text = NULL;

	int rc = zr_import_text(s->value, &text);
	if (!rc)
		rc = zr_import_put(im, s, to, text, NULL);
	free(text);
	return rc;
}

int zr_import_change(struct zr_import *im, const char *to, const char *value, const char *note)
{
	zr_import_drop(im, to);
	return zr_import_put(im, NULL, to, value, note);
}

/* Sections of the INI in its order; a part before a dot stands for those with a name. */
static const char *const order[] = { "train",      "model",   "adapter",   "data",      "eval",
				     "zero",       "offload", "optimizer", "scheduler", "precision",
				     "activation", "device",  "boot",      "memory",    "run",
				     "checkpoint", "monitor", "log",       NULL };

static int rank(const char *section)
{
	size_t len = strcspn(section, ".");
	int i = 0;
	while (order[i] && (strlen(order[i]) != len || strncmp(order[i], section, len)))
		i++;
	return i;
}

static int compare(const void *a, const void *b)
{
	const struct zr_import_line *const *x = a, *const *y = b;

	int by = rank((*x)->section) - rank((*y)->section);
	if (!by)
		by = strcmp((*x)->section, (*y)->section);
	if (!by)
		by = !!strcmp((*x)->key, "plugin") - !!strcmp((*y)->key, "plugin");
	if (by)
		return by;
	return (*x > *y) - (*x < *y);
}

static void write_line(FILE *out, const struct zr_import_line *l)
{
	const int above = strlen(l->key) + strlen(l->value) + strlen(l->note) + 6 > WIDE;
	if (above)
		fprintf(out, "; %s:\n", l->note);
	fprintf(out, "%s = ", l->key);
	zr_ini_write_value(out, l->value);
	fprintf(out, above ? "\n" : " ; %s\n", l->note);
}

int zr_import_write(const struct zr_import *im, FILE *out)
{
	const struct zr_import_line **sorted = calloc((size_t)im->n_lines + 1, sizeof *sorted);
	if (!sorted)
		return -1;

	for (int i = 0; i < im->n_lines; i++)
		sorted[i] = &im->lines[i];
	qsort(sorted, (size_t)im->n_lines, sizeof *sorted, compare);
	char head[LONGEST];
	snprintf(head, sizeof head, "Imported from %s (%s) by `zeroth config import`.", im->file,
		 im->source[0].kind->name);
	zr_one_line(head);
	fprintf(out, "; %s\n", head);
	for (int i = 0; i < im->n_lines; i++) {
		if (!i || strcmp(sorted[i]->section, sorted[i - 1]->section))
			fprintf(out, "\n[%s]\n", sorted[i]->section);
		write_line(out, sorted[i]);
	}

	if (!zr_import_given(im, "model.path"))
		fputs("\n; Name a model: a directory of Hugging Face, or plugin = ID and its "
		      "options.\n"
		      ";[model]\n;path = DIRECTORY\n",
		      out);
	if (!zr_import_given(im, "data.plugin"))
		fputs("\n; Name what it learns from: see `zeroth tokenize --help`.\n"
		      ";[data]\n;plugin = tokens\n;path = train.bin\n",
		      out);
	free(sorted);
	return ferror(out) ? -1 : 0;
}

void zr_lines_free(struct zr_import *im)
{
	for (int i = 0; i < im->n_lines; i++)
		free_line(&im->lines[i]);
	free(im->lines);
}

IMPORT_MAP(zr_import_jinja)
{
	const char *name = zr_import_word(s), *dot = strrchr(name, '.');

	if (dot && !strcmp(dot, ".jinja"))
		return zr_import_put(im, s, k->to, name, NULL);

	return zr_import_impossible(s, "a chat template of Jinja is read from a file NAME.jinja, "
				       "which [data] template names; auto is the tokenizer's own");
}
