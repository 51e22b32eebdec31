/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h - the INI file: layers, option tables, values with their sources.
 *
 * Layers, lowest first: an option's own default, the installed defaults.ini, the user's file, -o
 * section.key=value in order. A layer that sets `plugin` of a section to another plugin hides the
 * keys that defaults.ini gives that section. Sections with a plugin: "ROLE" or "ROLE.NAME"
 * (monitor.csv, offload.optimizer). Sections of core: see the tables in options_core.c. [main]
 * thread.
 *
 * [model] path names a directory of Hugging Face (core/pretrained/): its config.json is a layer
 * that no other may contradict.
 *
 * Parameter groups: [optimizer.NAME] takes the tensors whose names its `match` fits, [optimizer]
 * the rest. Without `plugin` it has that of [optimizer]. It starts from the values of the first
 * section with the same plugin, if there is one, and may then give only options that have
 * ZR_O_GROUP: the others belong to the one instance of the plugin.
 */
#ifndef ZR_CORE_CONFIG_H
#define ZR_CORE_CONFIG_H

#include <stdio.h>

#include "core/config/options.h"
#include "core/plugin/loader.h"

/* Every micro-batch goes to its owner and is added in slot order: bits independent of ranks. Or
 * each rank sums its micro-batches first: one reduction per step. */
enum { ZR_REDUCE_SLOTS, ZR_REDUCE_LOCAL };

/* How the attention of a sequence is divided among the ranks that share it: by heads if they divide
 * them, by heads, or by queries, to which all keys come. */
enum { ZR_SEQUENCE_AUTO, ZR_SEQUENCE_HEADS, ZR_SEQUENCE_KEYS };

/* Whether the update of a step runs inside the forward of the next one. */
enum { ZR_ONWARD_AUTO, ZR_ONWARD_YES, ZR_ONWARD_NO };

/* Behind the types that [train] communication_data_type has in their order. */
#define ZR_SENT_MXINT8 (ZR_F16 + 1)

/* Where the micro-batches of a step are added up: on the device if it has room, on the device, or
 * where their sums lie. */
enum { ZR_ACCUMULATE_AUTO, ZR_ACCUMULATE_DEVICE, ZR_ACCUMULATE_TIER };
enum { ZR_EXPERTS_ON_DEVICE, ZR_EXPERTS_ON_HOST };

/* [train]. Counts that accept `auto` hold ZR_AUTO_COUNT until resolved. */
struct zr_train_opts {
	uint64_t train_batch_size;            /* sequences per optimizer step over all ranks */
	uint64_t micro_batch_size;            /* sequences per rank and micro-batch */
	uint64_t gradient_accumulation_steps; /* micro-batches per rank and step */
	uint64_t sequence_length;             /* auto: the model's context */
	uint64_t steps;                       /* optimizer steps attempted */
	double epochs;                        /* what steps follow from; 0: from nothing */
	uint64_t eval_every;                  /* steps between evaluations; 0: never */
	double eval_every_ratio;              /* the share of steps that it is; 0: of its own */
	uint64_t eval_batches;                /* micro-batches per evaluation */
	uint64_t patience;                    /* evaluations without improvement; 0: any number */
	const char *best_by;                  /* NAME of [eval.NAME]; "": held out */
	int64_t seed;
	double gradient_clipping; /* global L2 norm; 0: off */
	uint8_t eval_weights;
	uint8_t qk_clip;
	double qk_clip_threshold, qk_clip_alpha;
	int32_t update_in_forward;       /* ZR_ONWARD_* */
	int32_t communication_data_type; /* ZR_F32, ..., ZR_SENT_MXINT8; 0: the precision's */
	int32_t gather_data_type;        /* 0: that of the compute copy; 1: ZR_MXINT8 */
	int32_t reduction;               /* ZR_REDUCE_* */
	uint64_t sum_group;              /* slots whose gradients are added as a tree */
	uint64_t slices;                 /* of a sequence, computed one by one; 1: it is whole */
	uint64_t sequence_ranks;         /* that share the slices of a micro-batch */
	int32_t sequence;                /* ZR_SEQUENCE_*: how attention is divided among them */
	int32_t accumulate_on;           /* ZR_ACCUMULATE_* */
	int32_t experts_on;              /* ZR_EXPERTS_ON_* */
	const char *freeze;              /* patterns of tensors that stay as they are */
	uint64_t gradient_part_size;     /* elements; 0: never in parts */
};

/* [memory] Per rank; ZR_AUTO_COUNT: no limit of its own. */
struct zr_memory_opts {
	uint64_t host, disk;
};

/* [run] */
struct zr_run_opts {
	const char *dir;    /* "auto": runs/<name of the INI>-<date>-<time> */
	uint64_t log_every; /* steps between lines where stderr is not a terminal */
	uint8_t wall_clock_breakdown;
	const char *trace, *rates; /* steps: "10 20-22"; a file of `zeroth bench`; "": none */
};

/* trainable: frozen tensors stay in the directory of [model] path */
enum { ZR_SAVE_ALL, ZR_SAVE_TRAINABLE };

/* [checkpoint] */
struct zr_checkpoint_opts {
	const char *dir;    /* "auto": checkpoints/ in the run directory */
	uint64_t every;     /* steps between checkpoints; 0: none but that of a signal */
	double every_ratio; /* the share of [train] steps that it is; 0: of its own */
	uint64_t keep;      /* newest ones kept; 0: all */
	uint8_t keep_best;  /* and the one with the lowest loss */
	uint8_t async;      /* they are written while training goes on */
	int32_t save;       /* ZR_SAVE_*; ZR_AUTO_ENUM until resolved */
	uint8_t on_signal;  /* SIGINT and SIGTERM save one */
};

/* [log] */
struct zr_log_opts {
	int32_t level;
};

struct zr_section {
	const char *name;               /* "optimizer", "monitor.csv" */
	const char *role;               /* "optimizer", "monitor"; NULL: a section of core */
	const struct zr_plugin *plugin; /* NULL: a section of core */
	struct zr_table table;          /* its options */
	void *opts;                     /* the options struct, filled; owned by the config */
	/* of a parameter group: its patterns; NULL: another section */
	const char *match;
	uint64_t sequences; /* of a set: how many are evaluated; ZR_AUTO_COUNT: all */
	/* of the model: the directory that it begins with; NULL: none */
	const char *path;
	int32_t store;           /* of the model: 0: auto, bf16, int8, nf4 */
	const char *ignore_keys; /* of its config.json; NULL: none */
	const char *add_tokens;  /* to its tokenizer, separated by blanks; NULL: none */
	/* of a parameter group: the first section with its plugin, unless that is itself */
	const struct zr_section *like;
};

struct zr_config;
struct zr_model_json;

/* Reads and validates everything that can be validated without other facts: unknown sections and
 * keys (with the nearest valid one), duplicates, types, ranges; loads the plugins named. ini_path
 * may be NULL (defaults and overrides only). On failure *out is untouched. The caller frees with
 * zr_config_free. */
int zr_config_load(const char *ini_path, const char *const *overrides, int n_overrides,
		   struct zr_config **out, struct zr_error *err);
void zr_config_free(struct zr_config *cfg);

const char *zr_config_path(const struct zr_config *cfg); /* NULL without a file */
/* of [model] path; NULL without one */
const struct zr_model_json *zr_config_model_json(const struct zr_config *cfg);
int zr_config_count(const struct zr_config *cfg);
/* in the order of zr_roles, core first */
const struct zr_section *zr_config_at(const struct zr_config *cfg, int i);
/* NULL: absent */
const struct zr_section *zr_config_find(const struct zr_config *cfg, const char *name);

/* From now on a section [offload.X] of defaults.ini, and of no other layer, is there. Nothing if it
 * is, or has no plugin. */
int zr_config_demand(struct zr_config *cfg, const char *section, struct zr_error *err);

/* Runs the section's resolve() and check() with `facts`; values that were `auto` are checked
 * against their range again and are shown with source "auto". Errors carry file:line where the
 * section has one. */
int zr_config_resolve(struct zr_config *cfg, const char *section, const struct zr_facts *facts,
		      struct zr_error *err);

/* Sets one value from text by name, as source "auto" (core's own derived values: batch triple,
 * run.dir). */
int zr_config_set_auto(struct zr_config *cfg, const char *section, const char *key,
		       const char *text, struct zr_error *err);

/* "file.ini:12" or "-o" or "defaults.ini:3" or "default" or "auto" of a value: for messages. NULL
 * if unknown. */
const char *zr_config_source(const struct zr_config *cfg, const char *section, const char *key);

/* Fails with the place of the first given option that the text names, else of the section. */
int zr_config_blame(const struct zr_config *cfg, const char *section, int code,
		    struct zr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Every section and value as INI text, sources as comments if `sources`. */
int zr_config_write_ini(const struct zr_config *cfg, FILE *out, int sources);
/* The value of `plugin` as it would be given again: a path that was given stays one, from
 * anywhere. */
const char *zr_config_plugin_text(const struct zr_config *cfg, const struct zr_section *s);

/* Whether the section may give the option: not what [optimizer.NAME] shares with the section that
 * it is like. */
static inline int zr_section_gives(const struct zr_section *s, const struct zr_opt *o)
{
	return !s->like || o->flags & ZR_O_GROUP;
}

/* The role of "ROLE", "ROLE.NAME" or "eval.NAME"; NULL: none. */
const struct zr_role *zr_section_role(const char *section);

/* If not NULL: may put what an unknown key, or section without a key, is called here in a
 * message. */
extern int (*zr_spelling)(const char *section, const char *key, const char *value, char *hint,
			  size_t room);

/* Directory of defaults.ini and conf/: $ZEROTH_DATA_PATH (ignored when set-user-id), which fails if
 * it is no absolute path, or the installed one. */
int zr_data_dir(const char **dir, struct zr_error *err);

/* Tables, for `plugin info`, man pages and tests. */
struct zr_core_table {
	const char *section, *doc;
	struct zr_table table;
};
extern const struct zr_core_table zr_core_tables[]; /* ends with section == NULL */
/* core's keys in [optimizer.NAME], offsets in struct zr_section */
extern const struct zr_core_table zr_group_table;
extern const struct zr_core_table zr_model_table; /* and in [model] */
/* and in [eval.NAME], whose plugins are those of data */
extern const struct zr_core_table zr_eval_table;

#endif
