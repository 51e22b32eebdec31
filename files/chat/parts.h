/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what files/chat/ is made of. Only its files include it.
 *
 *   lines of files (chat.c) -> record.c -> render.c or turns.c -> encode.c -> documents
 *   look.c: what each token of a document is
 */
#ifndef ZR_CHAT_PARTS_H
#define ZR_CHAT_PARTS_H

#include "files/chat/chat.h"
#include "files/chat/record.h"
#include "files/chat/template.h"
#include "files/chat/turns.h"
#include "files/tokenizer/tokenizer.h"

enum {
	ZR_TRAIN_ASSISTANT,
	ZR_TRAIN_COMPLETION,
	ZR_TRAIN_ALL,
	ZR_TRAIN_LAST,
	ZR_TRAIN_CALLS,
	ZR_TRAIN_THOUGHTS
};

/* ---- setup.c: what the options mean ---- */

struct zr_chat_setup {
	struct zr_chat_template template;
	char *owned[9]; /* the template's texts that are no constants, and the Jinja text */
	int has_forms;  /* `template` has; else the template of Jinja is the only one */
	struct zr_chat_jinja jinja;
	int train_on, skip, headed;
	int drops_long; /* a conversation that is too long is left out, not shortened */
	struct zr_chat_fields fields;
};
int zr_chat_prepare(const struct zr_chat_options *o, const struct zr_tokenizer *t,
		    struct zr_chat_setup *s, struct zr_error *err);
void zr_chat_setup_free(struct zr_chat_setup *s);

/* ---- encode.c: a line to a document; one per thread ---- */

struct zr_chat_encoder {
	const struct zr_chat_setup *s;
	const struct zr_chat_options *o;
	const struct zr_tokenizer *t; /* of the owner */
	struct zr_encoder *e;
	struct zr_conversation c;
	struct zr_chat_text text;
	struct zr_chat_turns turns;
	struct zr_buf state; /* uint8_t of each message: ZR_TURN_* */
	struct zr_buf kept;  /* its messages that are not dropped to shorten it */
	struct zr_buf asked,
		kept_state;         /* states before this document; of the messages in `kept` */
	struct zr_buf ids, learned; /* int32_t and uint8_t for each token */
	int64_t targets;
	int truncated;
	size_t whole, lost; /* as zr_chat_look has them */
	/* the messages of `text`, as long as it is looked at; NULL: a text without template */
	const struct zr_chat_message *written;
	struct zr_buf parts; /* struct zr_part each */
	int reason;          /* ZR_CHAT_*: why a line is no document */
};
int zr_chat_encoder_open(struct zr_chat_encoder *e, struct zr_error *err);
void zr_chat_encoder_close(struct zr_chat_encoder *e);
/* Gives back the memory that a long line took. */
void zr_chat_encoder_shrink(struct zr_chat_encoder *e);
/* Makes the document of a line of n bytes. ZR_EINVAL: the line is no document; e->reason says
 * why. */
int zr_chat_encode(struct zr_chat_encoder *e, const char *p, size_t n, struct zr_error *err);
/* Whether the line has another document, and makes it. A line whose answers are not written in one
 * text has several. */
int zr_chat_has_more(const struct zr_chat_encoder *e);
int zr_chat_encode_more(struct zr_chat_encoder *e, struct zr_error *err);

/* ---- for look.c ---- */

/* Whether the template of Jinja writes this conversation. */
int zr_chat_is_by_jinja(const struct zr_chat_encoder *e);
/* Writes messages as those of `text` were, without spans. */
int zr_chat_write_again(struct zr_chat_encoder *e, const struct zr_chat_message *m, size_t n,
			struct zr_chat_text *out, struct zr_error *err);
/* The tokens of n places in `text`, in ascending order: the first one that has no byte before. */
int zr_chat_tokens_at(struct zr_chat_encoder *e, size_t *place, size_t n, struct zr_error *err);

#endif
