/* SPDX-License-Identifier: Apache-2.0
 *
 * load_vocabulary.c - the vocabulary of tokenizer.json: its tokens, their names and ids.
 */
#include <stdlib.h>
#include <string.h>

#include "files/tokenizer/parts.h"

/* The n bytes of a token of a byte-level vocabulary to out, which has room for them. */
static int to_bytes(const char *start, char *out, size_t *n)
{
	const char *text = start;

	for (*n = 0; *text; text += zr_utf8_at(text, strlen(text) < 4 ? strlen(text) : 4)) {
		int b = zr_alphabet_byte(zr_utf8_value(text));
		if (b < 0) {
			*n = strlen(start);
			memcpy(out, start, *n);
			return ZR_TOKEN_OTHER;
		}

		out[(*n)++] = (char)b;
	}

	return *n == 1 ? ZR_TOKEN_BYTE : ZR_TOKEN_MADE;
}

#define AN_ID "an id in [0, 4194303]"
_Static_assert(ZR_TOKENIZER_IDS == 4194304, "AN_ID says another number");

static int id_of(const struct zr_tokenizer_loading *l, const char *place, const json_t *v,
		 int64_t *id)
{
	if (json_is_integer(v))
		*id = json_integer_value(v);
	else
		*id = -1;
	if (*id < 0 || *id >= ZR_TOKENIZER_IDS)
		return zr_load_found(l, place, AN_ID, v);

	return 0;
}

static int count_token(struct zr_tokenizer_loading *l, const char *place, const json_t *id,
		       const char *text, size_t *bytes)
{
	int64_t at;
	int rc = id_of(l, place, id, &at);
	if (!rc && at >= l->t->size)
		l->t->size = at + 1;
	*bytes += (text ? strlen(text) : 0) + 1;
	return rc;
}

/* Room for `bytes` of the vocabulary's tokens and for the added ones, with a byte behind each. */
int zr_load_room(struct zr_tokenizer_loading *l, size_t bytes, const json_t *added)
{
	struct zr_tokenizer *t = l->t;
	json_t *v;
	size_t i;
	int rc = 0;

	json_array_foreach(added, i, v)
	{
		rc = count_token(l, "added_tokens", json_object_get(v, "id"),
				 json_string_value(json_object_get(v, "content")), &bytes);
		if (rc)
			break;
	}

	t->token = calloc((size_t)t->size + 1, sizeof *t->token);
	t->text.p = malloc(bytes + 1);
	t->text.room = bytes + 1;
	memset(t->byte, 0xff, sizeof t->byte);
	if (t->model != ZR_MODEL_UNIGRAM) /* which has said it */
		t->unknown = -1;
	if (rc)
		return rc;
	if (!t->token || !t->text.p)
		return zr_no_memory(l->err);

	return 0;
}

int zr_load_names(struct zr_tokenizer_loading *l, const json_t *added)
{
	const struct zr_list *list = &l->lists.vocab;
	int rc = zr_names_room(&l->names, list->entries + json_array_size(added));
	if (rc || zr_buf_reserve(&l->names.text, list->bytes + 1))
		return zr_no_memory(l->err);

	return 0;
}

int zr_load_token(struct zr_tokenizer_loading *l, const struct zr_name *name, int *kind)
{
	struct zr_tokenizer *t = l->t;
	struct zr_token *o = &t->token[name->id];
	char *to = t->text.p + t->text.n;
	int bytes = t->model == ZR_MODEL_BPE && !t->bpe.characters;
	size_t n;

	if (bytes)
		*kind = to_bytes(name->p, to, &n);
	else
		*kind = zr_spaced_token(t, name->p, to, &n);
	if (o->p)
		return zr_load_fail(l, ZR_EINVAL, "model.vocab", "two tokens have id %d", name->id);

	*o = (struct zr_token){ .p = to, .n = (uint32_t)n };
	o->made = *kind == ZR_TOKEN_MADE || (*kind == ZR_TOKEN_BYTE && bytes);
	to[n] = 0;
	t->text.n += o->n + 1;
	if (*kind == ZR_TOKEN_BYTE)
		t->byte[(unsigned char)to[0]] = name->id;

	return 0;
}

/* A name of the vocabulary and its id, which *size becomes larger than. */
static int read_name(struct zr_tokenizer_loading *l, struct zr_list *list, int64_t *size)
{
	struct zr_buf *to = &l->names.text;
	const size_t at = to->n;
	int64_t id;

	const char *value = zr_list_mark(zr_list_string(list->p, to), ':');
	const size_t n = to->n - at;
	list->p = zr_list_integer(value, &id);
	if (!list->p || id < 0 || id >= ZR_TOKENIZER_IDS)
		return zr_load_unread(l, "model.vocab", AN_ID, value);
	if (zr_buf_add(to, "", 1))
		return zr_no_memory(l->err);
	if (zr_names_put(&l->names, to->p + at, n, id)) /* jansson refuses it too */
		return zr_load_unread(l, "model.vocab", "each token once", list->text);

	if (id >= *size)
		*size = id + 1;
	return 0;
}

/* The names and ids of the vocabulary. */
static int read_names(struct zr_tokenizer_loading *l)
{
	struct zr_list list = l->lists.vocab;
	int rc = 0, more;

	while (!rc && (more = zr_list_next(&list)) == 1)
		rc = read_name(l, &list, &l->t->size);
	if (!rc && more)
		rc = zr_load_unread(l, "model.vocab", "an object", list.text);

	return rc;
}

int zr_load_vocab(struct zr_tokenizer_loading *l, const json_t *added)
{
	const struct zr_list *list = &l->lists.vocab;
	int rc, kind;

	if (!list->text || *list->text != '{')
		return zr_load_unread(l, "model.vocab", "an object", list->text);

	rc = zr_load_names(l, added);
	if (!rc)
		rc = read_names(l);
	if (!rc)
		rc = zr_load_room(l, l->names.text.n, added);
	for (size_t i = 0; !rc && i < l->names.n; i++)
		rc = zr_load_token(l, &l->names.name[i], &kind);

	return rc;
}

int zr_load_unknown(struct zr_tokenizer_loading *l, const json_t *v, const char *otherwise)
{
	const char *text = otherwise;

	if (v)
		text = json_string_value(v);
	const struct zr_name *name = NULL;
	if (text)
		name = zr_names_find(&l->names, text, strlen(text));
	l->t->unknown = name ? name->id : -1;
	if (text ? !name : v && !json_is_null(v))
		return zr_load_found(l, "model.unk_token", "a token of the vocabulary", v);

	return 0;
}
