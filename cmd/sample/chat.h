/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.h - a conversation with a model, or with several: lines of standard input and the answers to
 * them, each as it is drawn. The model's cache has the conversation so far: only what is new is
 * computed. [main]
 */
#ifndef ZR_CMD_SAMPLE_CHAT_H
#define ZR_CMD_SAMPLE_CHAT_H

#include "cmd/sample/generate.h"

struct zr_chat_options;

/* Who answers. All is borrowed. */
struct zr_speaker {
	const char *name; /* stands before each answer; NULL: there is one speaker alone */
	struct zr_generator *g;
	/* the template, its forms and the system message; the rest of it is not used */
	const struct zr_chat_options *forms;
};

/* Until the input ends or says /quit; /reset begins anew. Each of n speakers answers each line, one
 * after the other, and goes on from what it said itself. */
int zr_converse(const struct zr_speaker *speaker, int n, struct zr_error *err);

#endif
