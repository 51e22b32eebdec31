/* SPDX-License-Identifier: Apache-2.0
 *
 * add.c - a tokenizer is opened, see tokenizer.h, with tokens that are added to those of its
 * tokenizer.json: their ids, and the file's text with them. Ids are counted as by add_tokens of
 * `tokenizers` (added_vocabulary.rs).
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/text.h"
#include "files/tokenizer/parts.h"

/* Where tokens go. */
struct adding {
	const char *tokens;
	int32_t *id; /* [n]; negative: not known yet */
	int32_t n;
	char *there;      /* [n] the file adds it already */
	int64_t size;     /* one more than the largest id, of all */
	int64_t distinct; /* tokens, of all: transformers' len(tokenizer) */
};

/* ---- ids ---- */

int32_t zr_tokenizer_words(const char *text)
{
	int32_t n = 0;
	size_t len;

	while (zr_next_word(&text, &len))
		n++;

	return n;
}

static const struct zr_added_token *find_added(const struct zr_tokenizer *t, int normalized,
					       const char *content)
{
	const struct zr_added *a = &t->added[normalized];

	for (int32_t i = 0; i < a->n; i++)
		if (!strcmp(t->token[a->token[i].id].p, content))
			return &a->token[i];

	return NULL;
}

/* The largest id of an added token; -1: there is none. */
static int64_t last_added(const struct zr_tokenizer *t)
{
	int64_t last = -1;

	for (const struct zr_added *a = t->added; a < t->added + 2; a++)
		for (int32_t i = 0; i < a->n; i++)
			if (a->token[i].id > last)
				last = a->token[i].id;

	return last;
}

/* The id of a token that the file does not have. */
static int place_new(struct adding *a, struct zr_tokenizer_loading *l, const char *content,
		     int64_t *last, int32_t *id)
{
	const struct zr_tokenizer *t = l->t;
	const int64_t next = *last >= t->own ? *last + 1 : t->own;

	if (next < t->size && t->token[next].p)
		return zr_err(l->err, ZR_EINVAL,
			      "%s: %s would get the id %lld, which %.60s has: the ids of its "
			      "tokens have gaps, so none can be added",
			      l->file, content, (long long)next, t->token[next].p);
	if (next >= ZR_TOKENIZER_IDS)
		return zr_err(l->err, ZR_EINVAL, "%s: it has too many tokens to add %s", l->file,
			      content);

	*id = (int32_t)next;
	*last = next;
	if (next >= a->size)
		a->size = next + 1;
	a->distinct++;
	return 0;
}

static int place(struct adding *a, struct zr_tokenizer_loading *l, int32_t i, const char *content,
		 int64_t *last)
{
	const struct zr_added_token *raw = find_added(l->t, 0, content);
	const struct zr_name *known = zr_names_find(&l->names, content, strlen(content));

	if (find_added(l->t, 1, content))
		return zr_err(l->err, ZR_EINVAL,
			      "%s: %s is an added token of normalized text there, and would be "
			      "one of raw text, too: leave it out, it is a token already",
			      l->file, content);

	if (raw &&
	    (!l->t->token[raw->id].special || raw->lstrip || raw->rstrip || raw->single_word))
		return zr_err(
			l->err, ZR_EINVAL,
			"%s: %s is an added token there that is not special, or that takes "
			"spaces or whole words, which adding it would change: leave it out, it "
			"is a token already",
			l->file, content);

	a->there[i] = raw != NULL;
	if (raw)
		a->id[i] = raw->id;
	else if (known)
		a->id[i] = known->id;
	else
		return place_new(a, l, content, last, &a->id[i]);

	if (a->id[i] > *last && !raw)
		*last = a->id[i];
	return 0;
}

static int is_twice(const char *tokens, const char *word, size_t n)
{
	const char *other;
	size_t len;
	int found = 0;

	while ((other = zr_next_word(&tokens, &len)))
		found += len == n && !memcmp(other, word, n);

	return found > 1;
}

static int place_all(void *arg, struct zr_tokenizer_loading *l)
{
	struct adding *a = arg;
	const char *words = a->tokens, *word;
	int64_t last = last_added(l->t);
	size_t n;
	int rc = 0;

	a->size = l->t->size;
	for (int64_t i = 0; i < l->t->size; i++)
		a->distinct += l->t->token[i].p != NULL;
	for (int32_t i = 0; !rc && (word = zr_next_word(&words, &n)); i++) {
		char *content = strndup(word, n);
		if (!content)
			return zr_no_memory(l->err);

		if (is_twice(a->tokens, word, n))
			rc = zr_err(l->err, ZR_EINVAL, "%s: token %s is to be added twice", l->file,
				    content);
		else
			rc = place(a, l, i, content, &last);
		free(content);
	}

	return rc;
}

static void adding_free(struct adding *a)
{
	free(a->id);
	free(a->there);
}

/* Ids of tokens in a file's text. */
static int find_places(struct adding *a, const char *file, const char *text, size_t n,
		       struct zr_error *err)
{
	struct zr_tokenizer *t = NULL;

	a->n = zr_tokenizer_words(a->tokens);
	a->id = calloc((size_t)a->n + 1, sizeof *a->id);
	a->there = calloc((size_t)a->n + 1, 1);
	if (!a->id || !a->there)
		return zr_no_memory(err);

	int rc = zr_tokenizer_load(file, text, n, place_all, a, &t, err);
	if (!rc)
		zr_tokenizer_close(t);
	return rc;
}

/* ---- the text ---- */

/* Behind a string that starts at p, in text that is JSON. */
static const char *behind_string(const char *p)
{
	for (p++; *p != '"'; p++)
		p += *p == '\\';

	return p + 1;
}

/* The value of a key of the outermost object, in text that is JSON; NULL: there is none. */
static const char *value_at(const char *text, const char *key)
{
	const size_t n = strlen(key);
	int depth = 0;

	for (const char *p = text; *p;) {
		const char *start = p;
		if (*p != '"') {
			depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
			p++;
			continue;
		}

		p = behind_string(p);
		const char *colon = p + strspn(p, " \t\r\n");
		if (depth == 1 && *colon == ':' && (size_t)(p - start) == n + 2 &&
		    !memcmp(start + 1, key, n))
			return colon + 1 + strspn(colon + 1, " \t\r\n");
	}

	return NULL;
}

/* The bracket that ends the array at p. */
static const char *end_of(const char *p)
{
	int depth = 0;

	for (;;) {
		if (*p == '"') {
			p = behind_string(p);
			continue;
		}

		depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
		if (!depth)
			return p;

		p++;
	}
}

/* One of added_tokens, as `tokenizers` writes it. */
static int put_object(struct zr_buf *to, const char *word, size_t n, int32_t id, int first)
{
	json_t *content = json_stringn(word, n);
	char *quoted = content ? zr_json_dump(content, JSON_ENCODE_ANY) : NULL;
	char head[64];

	snprintf(head, sizeof head,
		 "%s\n    {\n      \"id\": %d,\n      \"content\": ", first ? "" : ",", id);
	int rc = quoted ? 0 : ZR_ENOMEM;
	if (!rc)
		rc = zr_buf_add(to, head, strlen(head));
	if (!rc)
		rc = zr_buf_add(to, quoted, strlen(quoted));

	static const char rest[] = ",\n      \"single_word\": false,\n      \"lstrip\": false,"
				   "\n      \"rstrip\": false,\n      \"normalized\": false,"
				   "\n      \"special\": true\n    }";
	if (!rc)
		rc = zr_buf_add(to, rest, sizeof rest - 1);
	free(quoted);
	json_decref(content);
	return rc;
}

static int put_objects(const struct adding *a, struct zr_buf *to, int first)
{
	const char *words = a->tokens, *word;
	size_t n;

	for (int32_t i = 0; (word = zr_next_word(&words, &n)); i++) {
		if (a->there[i])
			continue;
		if (put_object(to, word, n, a->id[i], first))
			return ZR_ENOMEM;

		first = 0;
	}

	return 0;
}

static int add(struct zr_buf *to, const char *from, const char *end)
{
	return zr_buf_add(to, from, (size_t)(end - from));
}

/* Where objects go into a text, and what is written around them. */
struct insertion {
	const char *before, *behind; /* the text ends, and goes on */
	const char *open, *close;
	int first; /* no object is before them */
};

static struct insertion find_insertion(const char *text)
{
	const char *list = value_at(text, "added_tokens");

	if (!list) {
		const char *at = strchr(text, '{') + 1;
		return (struct insertion){ at, at, "\n  \"added_tokens\": [", "\n  ],", 1 };
	}

	if (*list != '[') /* null */
		return (struct insertion){ list, list + 4, "[", "\n  ]", 1 };

	const char *bracket = end_of(list), *at = bracket;
	while (at > list + 1 && strchr(" \t\r\n", at[-1]))
		at--;
	return (struct insertion){ at, bracket, "", "\n  ", at == list + 1 };
}

static int put_text(const struct adding *a, const char *text, size_t n, struct zr_buf *to)
{
	const struct insertion at = find_insertion(text);

	if (add(to, text, at.before) || zr_buf_add(to, at.open, strlen(at.open)) ||
	    put_objects(a, to, at.first) || zr_buf_add(to, at.close, strlen(at.close)) ||
	    add(to, at.behind, text + n) || zr_buf_add(to, "", 1))
		return ZR_ENOMEM;

	to->n--;
	return 0;
}

static int has_new(const struct adding *a)
{
	for (int32_t i = 0; i < a->n; i++)
		if (!a->there[i])
			return 1;

	return 0;
}

/* Puts the tokens into the file's text. */
static int add_to_text(const char *tokens, const char *file, char **text, size_t *n,
		       struct zr_error *err)
{
	struct adding a = { .tokens = tokens };
	struct zr_buf to = { 0 };

	int rc = find_places(&a, file, *text, *n, err);
	if (!rc && has_new(&a)) {
		rc = put_text(&a, *text, *n, &to);
		if (rc)
			rc = zr_no_memory(err);
	}

	adding_free(&a);
	if (rc || !to.p) {
		if (rc)
			zr_buf_free(&to);
		return rc;
	}

	free(*text);
	*text = to.p;
	*n = to.n;
	return 0;
}

/* The text of the file, with the tokens; file: its path. */
static int read_with(const char *path, const char *tokens, char file[ZR_TOKENIZER_PATH],
		     char **text, size_t *bytes, struct zr_error *err)
{
	if (zr_tokenizer_find(path, file, err))
		return err->code;

	int rc = zr_tokenizer_read(file, text, bytes, err);
	if (rc || !tokens || !zr_tokenizer_words(tokens))
		return rc;

	rc = add_to_text(tokens, file, text, bytes, err);
	if (rc) {
		free(*text);
		*text = NULL;
	}

	return rc;
}

int zr_tokenizer_text_with(const char *path, const char *tokens, char **text, size_t *bytes,
			   struct zr_error *err)
{
	char file[ZR_TOKENIZER_PATH];

	return read_with(path, tokens, file, text, bytes, err);
}

int zr_tokenizer_open_with(const char *path, const char *tokens, struct zr_tokenizer **out,
			   struct zr_error *err)
{
	char file[ZR_TOKENIZER_PATH], *text;
	size_t n;

	int rc = read_with(path, tokens, file, &text, &n, err);
	if (rc)
		return rc;

	rc = zr_tokenizer_load(file, text, n, NULL, NULL, out, err);
	free(text);
	return rc;
}

int zr_tokenizer_open(const char *path, struct zr_tokenizer **out, struct zr_error *err)
{
	return zr_tokenizer_open_with(path, NULL, out, err);
}

int zr_tokenizer_same_ids(const struct zr_tokenizer *t, const char *tokens, const int32_t *ids,
			  struct zr_error *err)
{
	const char *word;
	size_t n;

	for (; (word = zr_next_word(&tokens, &n)); ids++) {
		char *token = strndup(word, n);
		if (!token)
			return zr_no_memory(err);

		const int32_t here = zr_tokenizer_added(t, token);
		free(token);
		if (here != *ids)
			return zr_err(err, ZR_EINVAL,
				      "%.*s of [model] add_tokens is token %d there, and %d of the "
				      "model: give the tokenizer of [model] path",
				      (int)n, word, here, *ids);
	}

	return 0;
}

int zr_tokenizer_places(const char *path, const char *tokens, int32_t **ids, int64_t *size,
			int64_t *distinct, struct zr_error *err)
{
	char file[ZR_TOKENIZER_PATH], *text;
	struct adding a = { .tokens = tokens };
	size_t n;

	if (zr_tokenizer_find(path, file, err))
		return err->code;

	int rc = zr_tokenizer_read(file, &text, &n, err);
	if (rc)
		return rc;

	rc = find_places(&a, file, text, n, err);
	free(text);
	if (!rc) {
		*size = a.size;
		*distinct = a.distinct;
		*ids = a.id;
		a.id = NULL;
	}

	adding_free(&a);
	return rc;
}

int zr_tokenizer_has_places(const char *path, const char *tokens, const char *ids,
			    struct zr_error *err)
{
	int32_t *here = NULL;
	int64_t size, distinct;
	const char *word;
	size_t n;

	int rc = zr_tokenizer_places(path, tokens, &here, &size, &distinct, err);
	for (int32_t i = 0; !rc && ids && (word = zr_next_word(&tokens, &n)); i++) {
		char *end;
		const long was = strtol(ids, &end, 10);
		if (end == ids || was != here[i])
			rc = zr_err(err, ZR_EINVAL,
				    "%s: %.*s is token %d there, and was token %ld when the model "
				    "was trained: give the tokenizer.json that it was",
				    path, (int)n, word, here[i], was);
		ids = end;
	}

	free(here);
	return rc;
}
