/* SPDX-License-Identifier: Apache-2.0
 *
 * turns.h - conversations as text by a model's own Jinja template, and what of it is learned:
 *
 *   a template with generation blocks says itself what is learned, to the byte;
 *   else an answer is what the text through it has more than the text up to it with the prompt
 *   for an answer; or, where the template does not begin its answers with that prompt, as some do
 *   that ask for thoughts, without the prompt: the head of the turn is learned, too. Where later
 *   messages change how an answer is written, as templates do that drop earlier thoughts, it is
 *   learned in a text of its own that ends with it. What is no such difference is refused: nothing
 *   is guessed.
 */
#ifndef ZR_CHAT_TURNS_H
#define ZR_CHAT_TURNS_H

#include <jansson.h>

#include "files/chat/jinja/jinja.h"
#include "files/chat/template.h"

enum { ZR_TURNS_AUTO, ZR_TURNS_WHOLE, ZR_TURNS_EACH };

/* What all threads share. */
struct zr_chat_jinja {
	struct zr_jinja *usual;      /* NULL: there is no Jinja template */
	struct zr_jinja *with_tools; /* of conversations with tools; NULL: the usual one */
	json_t *variables;           /* tokens and what the user gave */
	int64_t date;
	int turns; /* ZR_TURNS_* */
	int like_trl;
};

/* One thread's; zero at first. */
struct zr_chat_turns {
	const struct zr_chat_jinja *of;
	json_t *variables; /* of the conversation */
	int has_own;       /* some of them are of that conversation alone */
	const struct zr_jinja *template;
	struct zr_jinja_work work;
	struct zr_buf starts; /* what renderings of the first messages were, by their number */
	const struct zr_chat_message *of_starts;
	size_t n_starts;
};
void zr_chat_turns_free(struct zr_chat_turns *t);

/* A conversation begins: its tools, and variables of its own; NULL: none. */
int zr_chat_turns_begin(struct zr_chat_turns *t, const json_t *tools, const json_t *kwargs,
			struct zr_error *err);

/* The text of n > 0 messages; prompt: and the start of an answer. No spans. */
int zr_chat_turns_text(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		       int prompt, struct zr_chat_text *out, struct zr_error *err);

enum { ZR_TURN_LEFT, ZR_TURN_WANTED, ZR_TURN_TAKEN };

/* A text in which the last answer that is ZR_TURN_WANTED is learned, and those others that it has
 * as their own text does; they become ZR_TURN_TAKEN. state: of each message. ZR_EINVAL: err says
 * what the template does not allow, or why it cannot be told what is learned. */
int zr_chat_turns_next(struct zr_chat_turns *t, const struct zr_chat_message *m, size_t n,
		       uint8_t *state, struct zr_chat_text *out, struct zr_error *err);

#endif
