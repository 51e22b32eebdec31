/* SPDX-License-Identifier: Apache-2.0
 *
 * forms.h - options that `zeroth tokenize --chat` and `zeroth sample --chat` share: how a
 * conversation is written. [main]
 */
#ifndef ZR_CMD_SAMPLE_FORMS_H
#define ZR_CMD_SAMPLE_FORMS_H

#include "core/config/config.h"
#include "files/chat/chat.h"

/* F(member, name): of struct zr_chat_options, which is the key in [data], too; of the option */
#define ZR_FORMS(F)                                                                                \
	F(template, "template")                                                                    \
	F(system, "system")                                                                        \
	F(user_form, "user-form")                                                                  \
	F(assistant_form, "assistant-form")                                                        \
	F(system_form, "system-form")                                                              \
	F(first_form, "first-form")                                                                \
	F(begin, "begin")                                                                          \
	F(between, "between")                                                                      \
	F(end, "end")                                                                              \
	F(bos, "bos")                                                                              \
	F(eos, "eos")

#define ZR_FORM_VALUE(member, name) ZR_FORM_##member,
enum { ZR_FORM_LEAST = 511, ZR_FORMS(ZR_FORM_VALUE) };

/* For getopt_long: entries of its table; what --help says of the forms, in a column of its own. */
#define ZR_FORM_LONG(member, name) { name, 1, NULL, ZR_FORM_##member },
#define ZR_FORMS_USAGE(column)                                                                     \
	"      --user-form FORM, --assistant-form FORM, --system-form FORM, --first-form FORM,\n"  \
	"      --begin FORM, --between FORM, --end FORM\n" column                                  \
	"a template of one's own, such as '<|user|>\\n{content}<|end|>\\n'\n"

/* Where the text of the option goes; NULL: the value is none of these. */
const char **zr_form_option(struct zr_chat_options *o, int value);
/* Whether it has one that only conversations have. */
int zr_form_given(const struct zr_chat_options *o);
/* What is not given becomes what [data] of a run has; its template and forms only where none of
 * these is given. So does the tokenizer, if its file is there. */
void zr_forms_of_run(struct zr_chat_options *o, const struct zr_config *cfg);

#endif
