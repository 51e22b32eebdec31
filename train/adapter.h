/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter.h - adapters as files of Hugging Face's PEFT: adapter_model.safetensors and
 * adapter_config.json. [main]
 */
#ifndef ZR_TRAIN_ADAPTER_H
#define ZR_TRAIN_ADAPTER_H

#include "core/session.h"

struct zr_tensor_files;

/* The adapters that [adapter] starts with; *out is NULL where there are none. */
int zr_adapter_open(struct zr_setup *s, struct zr_tensor_files **out, struct zr_error *err);

/* What is before the names of the model's tensors in such files. */
void zr_adapter_prefix(const struct zr_setup *s, char *out, size_t room);

/* adapter_copies.c: patterns of names that PEFT gives to copies of other tensors, separated by
 * blanks; and whether all copies in the adapters' file are what they are copies of, which else is
 * an error that names both. prefix: before the names. */
/* An embedding that an adapter trains as it is, and that is the head: PEFT reads it by the head's
 * name, too, which is `name` in the file. -1: there is none. */
int32_t zr_adapter_head(const struct zr_setup *s, char *name, size_t room);
void zr_adapter_copies(const struct zr_setup *s, char *patterns, size_t room);
int zr_adapter_compare_copies(const struct zr_setup *s, const char *prefix,
			      struct zr_tensor_files *model, struct zr_tensor_files *adapter,
			      struct zr_error *err);

/* Whether a run leaves its adapters alone, since the model is in [model] path. */
int zr_adapter_is_all(const struct zr_setup *s);

/* The functions of the adapter for files; NULL: there is no adapter, or it has none. */
const struct zr_adapter_v1 *zr_adapter_files(const struct zr_setup *s);

/* Sets the options in the configuration that the files in [adapter] path decided, and [checkpoint]
 * save = auto. */
int zr_adapter_settle(struct zr_setup *s, struct zr_error *err);

/* A line on what is trained: how much of how much, and each option that says something. */
void zr_adapter_announce(const struct zr_setup *s, FILE *out);

/* Id of the plugin that reads the adapters in `dir`: their peft_type in small letters. */
int zr_adapter_plugin(const char *dir, char *id, size_t room, struct zr_error *err);

/* Writes the adapters to dir, if there is an adapter that has such files. Collective. */
int zr_adapter_save(struct zr_session *s, const char *dir, struct zr_error *err);

/* A tensor of the model with a row for each token that is not trained, so that no adapter has it;
 * NULL: there is none. */
const char *zr_adapter_frozen_rows(const struct zr_setup *s);
/* Refuses adapters without their model where it has got such rows: [model] add_tokens. */
int zr_adapter_check_rows(const struct zr_setup *s, int grown, struct zr_error *err);

/* The same to the new directory dir, of values that fn gives. base: names the model. Not
 * collective. */
int zr_adapter_export(struct zr_setup *s, const char *dir, const char *base, zr_values_fn *fn,
		      void *arg, struct zr_error *err);

#endif
