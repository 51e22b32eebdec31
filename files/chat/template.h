/* SPDX-License-Identifier: Apache-2.0
 *
 * template.h - how a conversation is written as one text. A template has a form for each role, with
 * these placeholders:
 *
 *   {content}       the text of the message; {content|trim}: without white space around it
 *   {system}        in `first`: the text of the system message
 *   {role}          system, user or assistant
 *   {bos} {eos}     the tokenizer's first and last token
 *   {trim} {/trim}  what is between them loses the white space around it
 *
 * Learned of an assistant's message is what {content} is, and what its form has behind that up to
 * the last character that is no white space: the end of the turn, but not the line end behind it.
 * The training templates of TRL learn more, which ZR_CHAT_LIKE_TRL asks for: all that the form has
 * behind {content}, and `end` where an answer is last.
 */
#ifndef ZR_CHAT_TEMPLATE_H
#define ZR_CHAT_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"
#include "files/tokenizer/buf.h"

/* Forms have the first three; the others are for templates of Jinja. */
enum {
	ZR_CHAT_SYSTEM,
	ZR_CHAT_USER,
	ZR_CHAT_ASSISTANT,
	ZR_CHAT_TOOL,
	ZR_CHAT_DEVELOPER,
	ZR_CHAT_ROLES
};

struct zr_chat_message {
	int role;
	int completion; /* it answers the prompt */
	int ignored;    /* it is not to be learned */
	const char *text;
	size_t n;
	void *json; /* json_t: what a template of Jinja sees; NULL where there is none */
};

enum {                              /* rules */
       ZR_CHAT_ALTERNATES = 1,      /* user, assistant, user, ... after the system message */
       ZR_CHAT_NO_SYSTEM = 2,       /* there is no such role */
       ZR_CHAT_SYSTEM_LAST = 4,     /* `first` is for the last message, if that is a user's */
       ZR_CHAT_NO_EMPTY_SYSTEM = 8, /* one without text is left out */
       /* what is learned is tokenized by itself, and so is what stands between; the tokenizer puts
	 * its first tokens before all */
       ZR_CHAT_APART = 16,
       ZR_CHAT_LIKE_TRL = 32, /* set by who renders */
       ZR_CHAT_TRL_LINE = 64  /* TRL learns the line end before {content}, too */
};

/* Forms; NULL: nothing. */
struct zr_chat_template {
	const char *name;
	const char *begin, *between, *end; /* of the text; between two messages */
	const char *system, *no_system;    /* no_system: where there is no such message */
	const char *with_input; /* in the place of no_system where alpaca's rows have an input */
	const char *later;      /* of a system message that is not the first; NULL: refused */
	const char *user, *assistant;
	const char *first;     /* of the first user message after a system message, which has no
			       * form of its own then */
	const char *bos, *eos; /* where the tokenizer's configuration names none; NULL: none */
	unsigned rules;
};

const struct zr_chat_template *zr_chat_template_find(const char *name); /* NULL: none */
const char *zr_chat_template_name(size_t i);                            /* NULL behind the last */
/* The one that renders as a Jinja template of a tokenizer does; NULL: it is not known. hash: of its
 * text. */
const struct zr_chat_template *zr_chat_recognize(const char *jinja, size_t n, uint64_t *hash);

/* What is learned when a message is: bytes [from, to) of the text. */
struct zr_chat_span {
	size_t from, to, message;
};
struct zr_chat_text {
	struct zr_buf text;
	struct zr_chat_span *span; /* of each assistant's message */
	size_t n, room;
	size_t messages; /* that are written, the first ones of those given */
	size_t spaces;   /* of a prompt: spaces before the answer, which `text` leaves out */
};
void zr_chat_text_free(struct zr_chat_text *t);

/* The text of n > 0 messages. prompt: and the start of an answer, without the spaces at its end:
 * they belong to the answer's first token. ZR_EINVAL with what the template does not allow in
 * err. */
int zr_chat_render(const struct zr_chat_template *t, const struct zr_chat_message *m, size_t n,
		   int prompt, struct zr_chat_text *out, struct zr_error *err);

#endif
