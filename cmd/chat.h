/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.h - a conversation with a model: lines of standard input and the answers to them, each as it
 * is drawn. The model's cache has the conversation so far: only what is new is computed. [main]
 */
#ifndef ZR_CMD_CHAT_H
#define ZR_CMD_CHAT_H

#include "cmd/generate.h"

/* Until the input ends or says /quit; /reset begins anew. `chat_template`: a name, or NULL for that
 * of the model's tokenizer_config.json. system: the system message, NULL: none. */
int zr_converse(struct zr_generator *g, const char *chat_template, const char *system,
		struct zr_error *err);

#endif
