/* SPDX-License-Identifier: Apache-2.0
 *
 * config_impl.h - a config from inside, shared by config*.c: what the layers said, and the sections
 * made of it.
 */
#ifndef ZR_CORE_CONFIG_IMPL_H
#define ZR_CORE_CONFIG_IMPL_H

#include "core/config/config.h"
#include "core/pretrained/pretrained.h"

enum zr_given_layer {
	ZR_LAYER_DEFAULTS,
	ZR_LAYER_PRETRAINED,
	ZR_LAYER_FILE,
	ZR_LAYER_OVERRIDE,
	ZR_LAYER_AUTO /* what core derives; of no part */
};

/* One line of a layer, in the order of the layers; those of config.json come behind, where no other
 * line says otherwise. All texts owned; options point to them. */
struct zr_given {
	struct zr_given *next;
	char *section, *key, *value; /* key NULL: the section's header */
	/* "conf/x.ini:12", "defaults.ini:3", "-o", "DIR/config.json (n_embd)" */
	char *place;
	enum zr_given_layer layer;
};

/* A section and where its values came from. */
struct zr_config_part {
	struct zr_section s;
	const char **source;           /* [s.table.n], borrowed from zr_given.place or static */
	const struct zr_given *chosen; /* the line that set `plugin`; NULL: a section of core */
	/* the line that set core's key, `match` or `sequences`; NULL: none did */
	const struct zr_given *own;
	/* its first line in the highest layer that has one, for messages; or NULL */
	const struct zr_given *first;
	char left_out[512]; /* options for the plugin that -o replaced, and that this one lacks */
};

struct zr_config {
	char *path;
	struct zr_given *given, *last;
	int n_given;
	struct zr_config_part *part;
	int n;
	/* of [model]: a directory to begin with, and who says so; NULL: none */
	const char *model_path, *model_place;
	struct zr_model_json model_json; /* its config.json */
	int path_taken;                  /* -o took the path of a file out */
};

/* config_layers.c: fills given. */
int zr_layers_read(struct zr_config *cfg, const char *const *overrides, int n_overrides,
		   struct zr_error *err);
/* Takes copies. */
int zr_layers_add(struct zr_config *cfg, enum zr_given_layer layer, const char *section,
		  const char *key, const char *value, const char *place, struct zr_error *err);
/* The last line of a layer up to `most` that gives a key, or NULL. */
struct zr_given *zr_given_last(const struct zr_config *cfg, enum zr_given_layer most,
			       const char *section, const char *key);
/* config_pretrained.c: what the directory of [model] path says, as lines. */
int zr_layers_pretrained(struct zr_config *cfg, struct zr_error *err);
/* config_names.c: whether a line's section may be there, and all that a run needs are. */
int zr_section_check(const struct zr_given *g, struct zr_error *err);
int zr_sections_check_all_there(const struct zr_config *cfg, struct zr_error *err);
/* Whether it is [eval.NAME], or was meant to be. */
int zr_section_is_eval(const char *section);
/* Core's table of a section; NULL: it is none of core. */
const struct zr_core_table *zr_core_table_of(const char *section);
/* config_sections.c: makes the parts. */
int zr_sections_make(struct zr_config *cfg, struct zr_error *err);
struct zr_config_part *zr_part_find(const struct zr_config *cfg, const char *name);
const char **zr_part_source(const struct zr_config_part *p, const struct zr_opt *o);

/* Fails with "file:line: [section] key = value: text" or "-o section.key=value: text". */
int zr_given_bad(const struct zr_given *g, struct zr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
