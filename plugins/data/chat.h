/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.h - conversations as a file of tokens with documents, which is written once and kept in a
 * directory of its own.
 */
#ifndef ZR_DATA_CHAT_H
#define ZR_DATA_CHAT_H

#include <zeroth/data.h>
#include <zeroth/look.h>

#include "documents.h"
#include "mapped.h"

struct chat_opts {
	const char *path, *val_path, *tokenizer, *template, *system, *fields, *cache;
	const char *user_form, *assistant_form, *system_form, *first_form, *begin, *between, *end;
	const char *bos, *eos, *date, *template_kwargs;
	int64_t max_length;
	double split;
	int32_t train_on, mask, turns, on_bad, on_long, order, packing;
	int evaluates; /* no option: 1: all of path is held out, as ZR_SPLIT_VAL */
	/* no options either: [model] add_tokens and their ids, from struct zr_facts */
	const char *added_tokens;
	const int32_t *added_ids;
};

extern const char *const chat_train_on[],
	*const chat_masks[], *const chat_turns[], *const chat_on_bad[], *const chat_on_long[];

/* Maps the file of tokens of these files, the one that is there or a new one, and gives its name,
 * owned by the caller. Of several processes one writes, and the others wait for it. [main] */
int chat_cached(const struct zr_host *h, const struct chat_opts *o, const struct files *fs,
		char **name, struct mapped *m);

/* How these options read conversations, but for who takes them. h: for its threads. */
struct zr_chat_options;
void chat_options(const struct zr_host *h, const struct chat_opts *o, struct zr_chat_options *to);

/* Shows documents of a part, which the files are read for again: see zr_data_v1.look(). [main] */
int chat_look(const struct zr_host *h, const struct chat_opts *o, const struct files *fs,
	      const struct documents_part *part, const struct zr_look *look);

#endif
