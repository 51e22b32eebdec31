/* SPDX-License-Identifier: Apache-2.0
 *
 * adapter.h - adapters as files of Hugging Face's PEFT: adapter_model.safetensors and
 * adapter_config.json. [main]
 */
#ifndef ZR_CMD_ADAPTER_H
#define ZR_CMD_ADAPTER_H

#include "core/session.h"

struct zr_tensor_files;

/* The adapters that [adapter] starts with; *out is NULL where there are none. */
int zr_adapter_open(struct zr_setup *s, struct zr_tensor_files **out, struct zr_error *err);

/* Whether a run leaves its adapters alone, since the model is in [model] path. */
int zr_adapter_is_all(const struct zr_setup *s);

/* Writes what is trained to dir, if there is an adapter that has such files. Collective. */
int zr_adapter_save(struct zr_session *s, const char *dir, struct zr_error *err);

#endif
