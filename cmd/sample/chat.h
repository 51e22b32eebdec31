/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.h - a conversation with a model: lines of standard input and the answers to them, each as it
 * is drawn. The model's cache has the conversation so far: only what is new is computed. [main]
 */
#ifndef ZR_CMD_SAMPLE_CHAT_H
#define ZR_CMD_SAMPLE_CHAT_H

#include "cmd/sample/generate.h"

struct zr_chat_options;

/* Until the input ends or says /quit; /reset begins anew. forms: the template, its forms and the
 * system message; the rest of it is not used. */
int zr_converse(struct zr_generator *g, const struct zr_chat_options *forms, struct zr_error *err);

#endif
