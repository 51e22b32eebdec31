/* SPDX-License-Identifier: Apache-2.0
 *
 * untie.c - see pretrained.h: whether the head of a model is its embedding.
 */
#include <stdlib.h>
#include <string.h>
#include <zeroth/model.h>

#include "core/base/text.h"
#include "core/config/options.h"
#include "core/pretrained/pretrained.h"

#define KEY "tie_word_embeddings"

int (*zr_head_differs)(const char *dir, const char *prefix, const char *head, const char *embedding,
		       int *differs, struct zr_error *err);

static const struct zr_config_key *tied_key(const struct zr_pretrained_v1 *v)
{
	for (uint32_t i = 0; i < v->n_keys; i++) {
		const struct zr_config_key *k =
			(const void *)((const char *)v->keys + (size_t)i * v->key_stride);
		if (!strcmp(k->name, KEY))
			return k;
	}
	return NULL;
}

static int says_tied(const struct zr_model_json *f, const struct zr_pretrained_v1 *v)
{
	const struct zr_config_key *k = tied_key(v);
	const json_t *value = json_object_get(f->root, KEY);
	if (!k)
		return 0;
	if (value)
		return json_is_true(value);
	return k->def && !strcmp(k->def, "true");
}

/* "HEAD=TENSOR" among the words, as two texts in one; NULL: there is none. Owned. */
static char *head_word(const char *words, const char **embedding)
{
	const char *word;
	size_t n;
	while ((word = zr_next_word(&words, &n))) {
		if (!memchr(word, '=', n))
			continue;

		char *copy = strndup(word, n);
		if (!copy)
			return NULL;

		char *between = strchr(copy, '=');
		*between = 0;
		*embedding = between + 1;
		return copy;
	}
	return NULL;
}

int zr_pretrained_untie(struct zr_model_json *f, const struct zr_pretrained_v1 *v,
			struct zr_error *err)
{
	const char *embedding;
	if (!zr_head_differs || !says_tied(f, v))
		return 0;

	char *head = head_word(v->ignored, &embedding), *dir = NULL;
	int differs = 0, rc = 0;
	if (head)
		dir = strdup(f->path);
	if (dir) {
		*strrchr(dir, '/') = 0;
		rc = zr_head_differs(dir, v->prefix, head, embedding, &differs, err);
	}
	if (!rc && differs && json_object_set_new(f->root, KEY, json_false()))
		rc = zr_no_memory(err);
	free(dir);
	if (rc || !differs)
		free(head);
	else
		f->head = head;
	return rc;
}
