/* SPDX-License-Identifier: Apache-2.0
 *
 * import.h - a configuration of another program as an INI file: DeepSpeed's JSON, the training
 * arguments of Hugging Face's transformers, the YAML of accelerate and Axolotl. A file is read as a
 * tree, the tree as a list of settings, and a table of each program's keys says what becomes of
 * every one: a line of the INI, nothing and why, or an error. [main] thread.
 */
#ifndef ZR_CMD_IMPORT_H
#define ZR_CMD_IMPORT_H

#include <stdio.h>

#include "core/base/json.h"

enum zr_fate {
	ZR_FATE_OPEN,    /* not looked at yet */
	ZR_FATE_MAPPED,  /* a line of the INI, or a part of one */
	ZR_FATE_PARTLY,  /* the same, but it differs: `why` says in what */
	ZR_FATE_AUTO,    /* "auto", and nothing says what: the default of the option counts */
	ZR_FATE_NONE,    /* no effect here: `why` */
	ZR_FATE_REFUSED, /* not possible here: `why` says what to use */
	ZR_FATE_UNKNOWN, /* no key of that program */
	ZR_FATES
};

/* One value of a file: all that is no object with keys. */
struct zr_setting {
	char *path;          /* "zero_optimization.stage"; owned */
	const json_t *value; /* borrowed from the tree */
	const char *file;
	int line;
	enum zr_fate fate;
	char *why; /* owned, or NULL */
	const struct zr_import_source *from;
};

struct zr_import;
struct zr_import_key;

/* What a value becomes: decides the fate of `s`, whose row is `k`. Returns 0, or ZR_ENOMEM. */
#define IMPORT_MAP(name)                                                                           \
	int name(struct zr_import *im __attribute__((unused)), struct zr_setting *s,               \
		 const struct zr_import_key *k __attribute__((unused)))

/* A row of a table of keys. */
struct zr_import_key {
	/* With dots; a last part of * stands for all keys below. Ends with NULL. */
	const char *const *paths;
	const char *to;     /* "section.key" of the INI; NULL: none, or `map` says */
	IMPORT_MAP((*map)); /* NULL: the value goes to `to` as it is */
	const char *text;   /* for map: why it has no effect, what differs, or what to use */
	const char *off;    /* for zr_import_refuse: values without effect, separated by blanks */
	int takes_auto;     /* the option of `to` may be auto, too */
};

/* A program whose configuration can be imported. */
struct zr_import_kind {
	const char *name;                 /* "DeepSpeed", for people */
	const struct zr_import_key *keys; /* ends with paths == NULL */
	/* What follows from several settings, or from those that are missing. 0 or ZR_ENOMEM. */
	int (*finish)(struct zr_import *im);
	const char *epochs; /* key of how often the data is gone through; NULL: none has it */
	double epochs_default;
	int steps_evaluate; /* 1: eval_steps counts without eval_strategy */
};

extern const struct zr_import_kind zr_deepspeed, zr_trainer, zr_axolotl, zr_accelerate;

/* One file, or the part of one that is another program's. */
struct zr_import_source {
	const struct zr_import_kind *kind;
	struct zr_setting *settings;
	int32_t n, room;
};

/* A line of the INI that is made. */
struct zr_import_line {
	char *section, *key, *value, *note; /* owned; note: where it comes from */
	struct zr_setting *from;            /* NULL: no setting */
};

struct zr_import {
	const char *file;         /* that of the command line */
	const char *model, *data; /* --model, --data, or NULL */
	const char *device; /* --device: the plugin; NULL: cuda if it can be loaded, else cpu */
	struct zr_import_source source[2];      /* the file, and DeepSpeed's that it names */
	const struct zr_import_kind *deepspeed; /* zr_deepspeed, for its maps */
	int n_sources;
	struct zr_import_line *lines;
	int32_t n_lines, room;
	struct zr_tree *trees[2];
	struct zr_error *err;
};

/* ---- tree.c, read.c, yaml.c: a file as JSON, and the line of every key ---- */

struct zr_tree {
	json_t *root;
	char *file;
	int *line; /* of each key of an object, in the order of the file, depth first */
	int32_t n, room;
};

/* Reads JSON, with comments of //, #, and slash and star, and commas before a closing bracket; or
 * YAML, where the name ends in .yml or .yaml. */
int zr_tree_read(const char *path, struct zr_tree **out, struct zr_error *err);
/* The same from a text, `path` as messages call it. */
int zr_tree_json(const char *text, size_t bytes, const char *path, struct zr_tree *to,
		 struct zr_error *err);
int zr_tree_yaml(const char *text, size_t bytes, const char *path, struct zr_tree *to,
		 struct zr_error *err);
/* The line of the next key. 0 or ZR_ENOMEM. */
int zr_tree_add_line(struct zr_tree *t, int line);
void zr_tree_free(struct zr_tree *t);

/* ---- settings.c ---- */

/* The settings of a tree. */
int zr_settings_read(struct zr_import_source *to, const struct zr_tree *t, struct zr_error *err);
/* Of a source of that kind; NULL: there is none. */
struct zr_setting *zr_import_find(struct zr_import *im, const struct zr_import_kind *kind,
				  const char *path);
/* Whether a switch is on: given, and neither false, null nor what turns it off. auto: what the
 * arguments say. */
int zr_import_is_on(struct zr_import *im, const struct zr_import_kind *kind, const char *path);
/* A value as the INI has it: yes and no, counts without an exponent, lists with commas. 0 or
 * ZR_ENOMEM. */
int zr_import_text(const json_t *value, char **text);
int zr_import_is(const json_t *value, const char *text);
/* The text that a value is; "": it is none, or there is no setting. */
const char *zr_import_word(const struct zr_setting *s);
/* The number that a value is, or `otherwise`. */
double zr_import_number(const struct zr_setting *s, double otherwise);
/* Says what becomes of a setting. Returns 0, or ZR_ENOMEM. */
int zr_import_fate(struct zr_setting *s, enum zr_fate fate, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int zr_import_no_effect(struct zr_setting *s, const char *why);
int zr_import_impossible(struct zr_setting *s, const char *why);
/* Of a setting that became a line: in what the line differs. */
int zr_import_differs(struct zr_setting *s, const char *why);
/* Maps that several tables use. */
IMPORT_MAP(zr_import_none);   /* no effect */
IMPORT_MAP(zr_import_refuse); /* unless off */

/* ---- lines.c ---- */

IMPORT_MAP(zr_import_jinja); /* a file of Jinja, NAME.jinja */

/* Adds "section.key = value"; a second one of the same key must have the same value. s may be NULL:
 * the line is then a default of the other program, as `note` says. */
int zr_import_put(struct zr_import *im, struct zr_setting *s, const char *to, const char *value,
		  const char *note);
/* The same with the value of the setting. */
int zr_import_as_it_is(struct zr_import *im, struct zr_setting *s, const char *to);
/* Gives a key another value. 0 or ZR_ENOMEM. */
int zr_import_change(struct zr_import *im, const char *to, const char *value, const char *note);
void zr_import_drop(struct zr_import *im, const char *to);
/* NULL: no line gives it. */
const char *zr_import_given(const struct zr_import *im, const char *to);
/* The number that a line gives, or 0. */
long long zr_import_given_count(const struct zr_import *im, const char *to);
/* The INI: sections in the order of zeroth.ini(5), the source of each line as a comment. 0 or -1.
 */
int zr_import_write(const struct zr_import *im, FILE *out);
void zr_lines_free(struct zr_import *im);

/* ---- import.c ---- */

/* Every setting gets its fate. im->file, model and data are set; err says what could not be read.
 */
int zr_import_run(struct zr_import *im, struct zr_error *err);
void zr_import_free(struct zr_import *im);
/* What becomes of a key with a value, given as text: the line of the INI, or why there is none. */
enum zr_fate zr_import_one(const struct zr_import_kind *kind, const struct zr_import_key *k,
			   const char *path, const char *value, char *text, size_t room);
int zr_import_count(const struct zr_import *im, enum zr_fate fate);

/* ---- sequences.c ---- */

IMPORT_MAP(zr_import_sequence_ranks);
IMPORT_MAP(zr_import_expert_ranks); /* that divide the experts of a block */
/* Whether settings say that several ranks share a sequence. */
int zr_import_is_shared(struct zr_import *im);
/* Slices, and micro-batches of one sequence, where they do. 0 or ZR_ENOMEM. */
int zr_import_finish_sequences(struct zr_import *im);

/* check.c: refuses settings whose lines the options do not take. 0, ZR_ENOMEM, or ZR_EINVAL for
 * what the command line gave. */
int zr_import_check(struct zr_import *im);

/* ---- report.c ---- */

/* What became of the settings: for people to `out`, or as JSON. */
void zr_import_report(const struct zr_import *im, FILE *out);
/* The settings with that fate, a line each behind a text. Returns how many. */
int zr_import_list(const struct zr_import *im, enum zr_fate fate, const char *before, FILE *out);
json_t *zr_import_json(const struct zr_import *im);

/* ---- spelling.c ---- */

/* A message about a key that is unknown here, for zr_spelling: what it is called here if another
 * program knows it, as in "; DeepSpeed's steps_per_print is [run] log_every = 5 here". key NULL: of
 * a section. If none knows it, what core has: the section of this key, or the keys of the section.
 * Of a plugin that is not there: what this build goes without. Returns 0, and leaves `hint`, if
 * that has nothing either. */
int zr_import_spelling(const char *section, const char *key, const char *value, char *hint,
		       size_t room);

#endif
