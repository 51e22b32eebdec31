/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.c - what is asked of a tokenizer that was read.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

int64_t zr_tokenizer_size(const struct zr_tokenizer *t)
{
	return t->size;
}

const char *zr_tokenizer_bytes(const struct zr_tokenizer *t, int64_t id, size_t *n)
{
	if (id < 0 || id >= t->size || !t->token[id].p)
		return NULL;
	*n = t->token[id].n;
	return t->token[id].p;
}

int zr_tokenizer_special(const struct zr_tokenizer *t, int64_t id)
{
	return id >= 0 && id < t->size && t->token[id].special;
}

int32_t zr_tokenizer_added(const struct zr_tokenizer *t, const char *content)
{
	for (const struct zr_added *a = t->added; a < t->added + 2; a++)
		for (int32_t i = 0; i < a->n; i++) {
			int32_t id = a->token[i].id;
			if (!strcmp(t->token[id].p, content))
				return id;
		}

	return -1;
}

int zr_tokenizer_template(const struct zr_tokenizer *t, int after, const int32_t **ids,
			  struct zr_error *err)
{
	if (*t->processor)
		return zr_err(
			err, ZR_ENOTSUP,
			"the post-processor is %s, of which this program does not know what it "
			"adds",
			t->processor);
	*ids = t->template[after];
	return t->n_template[after];
}

void zr_tokenizer_close(struct zr_tokenizer *t)
{
	if (!t)
		return;

	for (int k = 0; k < 2; k++) {
		for (int32_t i = 0; i < t->added[k].n; i++)
			free((char *)t->added[k].token[i].content);
		free(t->added[k].token);
		zr_regex_free(t->added[k].word);
		free(t->template[k]);
	}

	for (int i = 0; i < t->n_splits; i++)
		zr_regex_free(t->split[i].regex);
	free(t->split);
	zr_normalizer_free(&t->normalizer);
	zr_trie_free(&t->trie);
	free(t->score);
	free(t->decoding.prefix);
	zr_merges_free(&t->bpe.merges);
	free(t->bpe.whole);
	free(t->bpe.character);
	zr_joins_close(t->bpe.joins);
	free(t->token);
	zr_buf_free(&t->text);
	free(t);
}
