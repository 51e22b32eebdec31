/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - a model that texts are drawn from: that of a run, of one of its checkpoints, or in a
 * directory of Hugging Face. Several may be open. [main]
 */
#ifndef ZR_CMD_SAMPLE_MODEL_H
#define ZR_CMD_SAMPLE_MODEL_H

#include <limits.h>

#include "cmd/sample/generate.h"
#include "core/config/config.h"
#include "files/chat/chat.h"

/* What people say of it; the texts are borrowed until it is closed. NULL: not given. */
struct zr_sample_source {
	const char *path;      /* of the run, the checkpoint or the directory */
	const char *adapter;   /* a directory of PEFT, for a model's directory */
	const char *tokenizer; /* tokenizer.json or its directory */
	const char *eos;       /* as zr_eos_find has it */
	const char *const *override;
	int n_overrides; /* at most ZR_CMD_OVERRIDES */
	int no_cache;
	int quiet; /* standard error does not hear which tokenizer was found */
};

/* The caller fills the first part, and zeroes the rest. */
struct zr_sample_model {
	struct zr_chat_options forms; /* what is NULL becomes what the run says */
	struct zr_generator g;        /* `draw`, `stops` and `most`: see generate.h */

	struct zr_config *cfg;
	struct zr_setup *setup;
	struct zr_token_text text;
	char dir[PATH_MAX]; /* where its tokenizer is looked for */
	int is_model;       /* of Hugging Face, not a run */
};

/* Whether there is a model at a path, by the names of its files: what is quick to find out. */
int zr_sample_model_look(const char *path, struct zr_error *err);

/* A failure names what it is of. zr_sample_model_close also after one. */
int zr_sample_model_open(struct zr_sample_model *m, const struct zr_sample_source *from,
			 struct zr_error *err);
void zr_sample_model_close(struct zr_sample_model *m);

/* Puts "name: " before the text of an error, unless that begins with the name. */
void zr_sample_blame(const char *name, struct zr_error *err);

#endif
