/* SPDX-License-Identifier: Apache-2.0
 *
 * record.h - a line of JSON as the messages that it is. These are known, looked for in this order:
 *
 *   messages        a list of {role, content}: system, user, assistant. content is a text, or a
 *                   list of {type: text, text}. A message with weight: 0 or train: false is not
 *                   learned.
 *   conversations   the same with {from, value}: system, human, gpt (ShareGPT)
 *   prompt, completion     two texts, or two lists of messages
 *   instruction, output    and maybe input, which comes behind the instruction (alpaca), and
 *                   history, a list of [instruction, output] that came before
 *   text            learned as it is, without a template
 *
 * A template of Jinja gets the messages as they are, with the usual names of roles and fields, as
 * transformers prepares them; then there are roles tool and developer, too, calls of tools,
 * thoughts (reasoning_content, reasoning or thinking), and fields `tools` and
 * `chat_template_kwargs`. ShareGPT's function_call and observation are such, too.
 *
 * The first four may have a text `system`. A field that asks for another training, as chosen and
 * rejected do, is refused; what else is not read is counted by its name.
 */
#ifndef ZR_CHAT_RECORD_H
#define ZR_CHAT_RECORD_H

#include <jansson.h>

#include "files/chat/jinja/jinja.h"
#include "files/chat/template.h"
#include "files/chat/unread.h"

/* Names of fields and roles in the data, in place of the usual ones. */
enum {
	ZR_FIELD_MESSAGES,
	ZR_FIELD_CONVERSATIONS,
	ZR_FIELD_ROLE,
	ZR_FIELD_CONTENT,
	ZR_FIELD_FROM,
	ZR_FIELD_VALUE,
	ZR_FIELD_PROMPT,
	ZR_FIELD_COMPLETION,
	ZR_FIELD_INSTRUCTION,
	ZR_FIELD_INPUT,
	ZR_FIELD_OUTPUT,
	ZR_FIELD_TEXT,
	ZR_FIELD_SYSTEM,
	ZR_FIELD_USER,
	ZR_FIELD_ASSISTANT,
	ZR_FIELDS
};
struct zr_chat_fields {
	char name[ZR_FIELDS][64]; /* "": the usual one */
};
/* "messages=dialog, role=speaker assistant=bot": adds to the names. */
int zr_chat_fields_set(struct zr_chat_fields *f, const char *text, struct zr_error *err);

struct zr_conversation {
	struct zr_unread unread; /* of this record */
	struct zr_chat_message *m;
	size_t n, room;
	int plain;             /* one message, which no template writes */
	int input;             /* it is alpaca's, with an input */
	int headed;            /* set by the owner: `input` has the heading of alpaca's prompts */
	json_t *record, *made; /* what has the texts: of the line, made of several */

	/* For a template of Jinja. Set by the owner: the template, NULL: none, and the one
	 * for conversations with tools; whether forms write what they can. */
	const struct zr_jinja *jinja, *with_tools;
	int has_forms;
	const json_t *tools;  /* a list, NULL: none */
	const json_t *kwargs; /* variables of the record's own, NULL: none */
	int is_rich;          /* it has what forms do not write: tools, calls, thoughts */
};

/* Reads a line of n bytes. The messages are valid until the next call. system: the system message
 * of records that have none, which must outlive the messages; or NULL. On failure err says what is
 * wrong, and *reason is a word for it. */
int zr_conversation_read(struct zr_conversation *c, const char *p, size_t n,
			 const struct zr_chat_fields *f, const char *system, const char **reason,
			 struct zr_error *err);
/* Frees the texts of the messages; their roles stay. */
void zr_conversation_drop(struct zr_conversation *c);
void zr_conversation_free(struct zr_conversation *c);

#endif
