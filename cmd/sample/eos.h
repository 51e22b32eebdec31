/* SPDX-License-Identifier: Apache-2.0
 *
 * eos.h - the tokens that end a text. [main]
 */
#ifndef ZR_CMD_SAMPLE_EOS_H
#define ZR_CMD_SAMPLE_EOS_H

#include "cmd/sample/token_text.h"

/* Writes at most `most` tokens below `vocabulary` to eos and their number to *n.
 *
 * given: "none", a number, or an added token of the tokenizer. NULL: what belongs to the model of
 * `run` says, the first of: eos_token_id of generation_config.json, of config.json, eos_token of
 * tokenizer_config.json; else <|endoftext|> where the tokenizer has it. Where tokens are those of
 * [data], which are bytes, there is none. */
int zr_eos_find(const char *given, const char *run, const struct zr_token_text *t,
		int64_t vocabulary, int32_t *eos, int most, int *n, struct zr_error *err);

#endif
