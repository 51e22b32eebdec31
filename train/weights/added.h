/* SPDX-License-Identifier: Apache-2.0
 *
 * added.h - files of a tokenizer with the tokens of [model] add_tokens, as transformers reads them.
 * tokenizer.json: zr_tokenizer_text_with. [main]
 */
#ifndef ZR_TRAIN_WEIGHTS_ADDED_H
#define ZR_TRAIN_WEIGHTS_ADDED_H

#include <stddef.h>

#include "core/base/error.h"

/* tokenizer_config.json of a directory, with these tokens, separated by blanks, as special ones:
 * among added_tokens_decoder, where it has that, and in the list of further special tokens. *text:
 * owned; NULL: the directory has no such file. */
int zr_added_settings(const char *dir, const char *tokens, char **text, size_t *bytes,
		      struct zr_error *err);

#endif
