/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.h - options that `zeroth tokenize --chat` and `zeroth sample --chat` share: how a
 * conversation is written. [main]
 */
#ifndef ZR_CMD_SAMPLE_FORMS_H
#define ZR_CMD_SAMPLE_FORMS_H

#include "cmd/options.h"
#include "core/config/config.h"
#include "files/chat/chat.h"

/* Rows of a table of options, cmd/options.h: a template of one's own, in the struct
 * zr_chat_options that is `member` of `type`. */
#define ZR_FORM_OPTION(type, member, name, text)                                                   \
	{                                                                                          \
		0, name, "FORM", text, .kind = ZR_CMD_TEXT, .at = offsetof(type, member)           \
	}
#define ZR_FORM_OPTIONS(type, member)                                                              \
	ZR_FORM_OPTION(type, member.user_form, "user-form", NULL),                                 \
		ZR_FORM_OPTION(type, member.assistant_form, "assistant-form", NULL),               \
		ZR_FORM_OPTION(type, member.system_form, "system-form", NULL),                     \
		ZR_FORM_OPTION(type, member.first_form, "first-form", NULL),                       \
		ZR_FORM_OPTION(type, member.begin, "begin", NULL),                                 \
		ZR_FORM_OPTION(type, member.between, "between", NULL),                             \
		ZR_FORM_OPTION(                                                                    \
			type, member.end, "end",                                                   \
			"a template of one's own, such as '<|user|>\\n{content}<|end|>\\n'")

/* And what a template of Jinja reads beside the conversation. */
#define ZR_JINJA_OPTIONS(type, member)                                                             \
	{ 0,                                                                                       \
	  "template-kwargs",                                                                       \
	  "JSON",                                                                                  \
	  "variables of the chat template, as {\"enable_thinking\": false}",                       \
	  .kind = ZR_CMD_TEXT,                                                                     \
	  .at = offsetof(type, member.template_kwargs) },                                          \
	{                                                                                          \
		0, "date", "YYYY-MM-DD", "the day that a chat template writes as today",           \
			.kind = ZR_CMD_TEXT, .at = offsetof(type, member.date)                     \
	}

/* Whether it has one that only conversations have. */
int zr_form_given(const struct zr_chat_options *o);
/* What is not given becomes what [data] of a run has; its template and forms only where none of
 * these is given. So does the tokenizer, if its file is there. */
void zr_forms_of_run(struct zr_chat_options *o, const struct zr_config *cfg);

#endif
