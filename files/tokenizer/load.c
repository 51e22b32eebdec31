/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c - tokenizer.json: the file, the vocabulary and the merges; what surrounds them is in load_steps.c and load_added.c.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/file.h"
#include "core/files/json.h"
#include "files/tokenizer/parts.h"

#define MOST (1 << 30) /* bytes of a tokenizer.json */

int zr_load_fail(const struct zr_load *l, int code, const char *place, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return zr_err(l->err, code, "%s: %s: %s", l->file, place, text);
}

int zr_load_found(const struct zr_load *l, const char *place, const char *wanted, const json_t *found)
{
	char *text = found ? zr_json_dump(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	int rc = zr_load_fail(l, ZR_EINVAL, place, "expected %s, found %.60s", wanted, found ? text ? text : "?" : "nothing");
	free(text);
	return rc;
}

int zr_load_unread(const struct zr_load *l, const char *place, const char *wanted,
		   const char *found)
{
	json_t *v = NULL;
	int rc = zr_json_object(l->text, l->bytes, l->file, &v, l->err);
	if (rc)
		return rc;
	json_decref(v);
	json_error_t why;
	v = found ? json_loads(found, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &why) : NULL;
	rc = zr_load_found(l, place, wanted, v);
	json_decref(v);
	return rc;
}

int zr_load_flag(const struct zr_load *l, const json_t *o, const char *place, const char *key, int otherwise, int *out)
{
	const json_t *v = json_object_get(o, key);
	char at[128];
	*out = v ? json_is_true(v) : otherwise;
	if (!v || json_is_boolean(v))
		return 0;
	snprintf(at, sizeof at, "%s.%s", place, key);
	return zr_load_found(l, at, "true or false", v);
}

/* ---- vocabulary ---- */

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

static int id_of(const struct zr_load *l, const char *place, const json_t *v, int64_t *id)
{
	*id = json_is_integer(v) ? json_integer_value(v) : -1;
	return *id >= 0 && *id < ZR_TOKENIZER_IDS ? 0 : zr_load_found(l, place, AN_ID, v);
}

static int count_token(struct zr_load *l, const char *place, const json_t *id, const char *text,
		       size_t *bytes)
{
	int64_t at;
	int rc = id_of(l, place, id, &at);
	if (!rc && at >= l->t->size)
		l->t->size = at + 1;
	*bytes += (text ? strlen(text) : 0) + 1;
	return rc;
}

/* Room for `bytes` of the vocabulary's tokens and for the added ones, with a byte behind each. */
int zr_load_room(struct zr_load *l, size_t bytes, const json_t *added)
{
	struct zr_tokenizer *t = l->t;
	json_t *v;
	size_t i;
	int rc = 0;
	json_array_foreach (added, i, v)
		rc = rc ? rc :
			  count_token(l, "added_tokens", json_object_get(v, "id"),
				      json_string_value(json_object_get(v, "content")), &bytes);
	t->token = calloc((size_t)t->size + 1, sizeof *t->token);
	t->text.p = malloc(bytes + 1);
	t->text.room = bytes + 1;
	memset(t->byte, 0xff, sizeof t->byte);
	return rc ? rc : t->token && t->text.p ? 0 : zr_err(l->err, ZR_ENOMEM, "out of memory");
}

int zr_load_names(struct zr_load *l, const json_t *added)
{
	const struct zr_list *list = &l->lists.vocab;
	int rc = zr_names_room(&l->names, list->entries + json_array_size(added));
	return rc || zr_buf_reserve(&l->names.text, list->bytes + 1) ?
		       zr_err(l->err, ZR_ENOMEM, "out of memory") :
		       0;
}

int zr_load_token(struct zr_load *l, const struct zr_name *name, int *kind)
{
	struct zr_tokenizer *t = l->t;
	struct zr_token *o = &t->token[name->id];
	char *to = t->text.p + t->text.n;
	int bytes = t->model == ZR_MODEL_BPE && !t->bpe.characters;
	size_t n;
	*kind = bytes ? to_bytes(name->p, to, &n) : zr_spaced_token(t, name->p, to, &n);
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

/* The names and ids of the vocabulary. */
static int read_names(struct zr_load *l)
{
	struct zr_list list = l->lists.vocab;
	struct zr_buf *to = &l->names.text;
	int64_t id;
	int more;
	while ((more = zr_list_next(&list)) == 1) {
		const char *name = to->p + to->n;
		const char *value = zr_list_mark(zr_list_string(list.p, to), ':');
		size_t n = (size_t)(to->p + to->n - name);
		list.p = zr_list_integer(value, &id);
		if (!list.p || id < 0 || id >= ZR_TOKENIZER_IDS)
			return zr_load_unread(l, "model.vocab", AN_ID, value);
		if (zr_buf_add(to, "", 1))
			return zr_err(l->err, ZR_ENOMEM, "out of memory");
		if (zr_names_put(&l->names, name, n, id)) /* jansson refuses it too */
			return zr_load_unread(l, "model.vocab", "each token once", list.text);
		l->t->size = id >= l->t->size ? id + 1 : l->t->size;
	}
	return more ? zr_load_unread(l, "model.vocab", "an object", list.text) : 0;
}

int zr_load_vocab(struct zr_load *l, const json_t *added)
{
	const struct zr_list *list = &l->lists.vocab;
	int rc, kind;
	if (!list->text || *list->text != '{')
		return zr_load_unread(l, "model.vocab", "an object", list->text);
	rc = zr_load_names(l, added);
	rc = rc ? rc : read_names(l);
	rc = rc ? rc : zr_load_room(l, l->names.text.n, added);
	for (size_t i = 0; !rc && i < l->names.n; i++)
		rc = zr_load_token(l, &l->names.name[i], &kind);
	return rc;
}

int zr_load_unknown(struct zr_load *l, const json_t *v, const char *otherwise)
{
	const char *text = v ? json_string_value(v) : otherwise;
	const struct zr_name *name = text ? zr_names_find(&l->names, text, strlen(text)) : NULL;
	l->t->unknown = name ? name->id : -1;
	if (text ? !name : v && !json_is_null(v))
		return zr_load_found(l, "model.unk_token", "a token of the vocabulary", v);
	return 0;
}

/* ---- merges ---- */

/* A vocabulary of bytes has all of them. */
static int check_bytes(const struct zr_load *l)
{
	for (int i = 0; i < 256; i++)
		if (l->t->byte[i] < 0)
			return zr_load_fail(l, ZR_ENOTSUP, "model.vocab",
					    "has no token for byte 0x%02x, "
					    "as a byte-level vocabulary must",
					    i);
	return 0;
}

/* "a b" or ["a", "b"]: both, one behind the other; the first has *left bytes. */
static const char *two_of(const char *p, struct zr_buf *both, size_t *left)
{
	both->n = 0;
	if (*p == '[') {
		p = zr_list_string(p + 1, both);
		*left = both->n;
		return zr_list_mark(zr_list_string(zr_list_mark(p, ','), both), ']');
	}
	p = zr_list_string(p, both);
	char *space = p ? memchr(both->p, ' ', both->n) : NULL;
	if (!space)
		return NULL;
	*left = (size_t)(space - both->p);
	both->n--;
	memmove(space, space + 1, both->n - *left);
	return memchr(space, ' ', both->n - *left) ? NULL : p;
}

static const char *merge_place(size_t i, char place[64])
{
	snprintf(place, 64, "model.merges[%zu]", i);
	return place;
}

/* A part of merge i; NULL: no token, which is said. */
static const struct zr_name *part_of(const struct zr_load *l, size_t i, const char *p, size_t n)
{
	const struct zr_name *name = zr_names_find(&l->names, p, n);
	if (!name)
		zr_load_fail(l, ZR_EINVAL, merge_place(i, (char[64]){ 0 }),
			     "%.*s is not in the vocabulary", n < 60 ? (int)n : 60, p);
	return name;
}

/* *made: what the merge before made; in most files they make one token after the other. */
static int load_merge(struct zr_load *l, size_t i, struct zr_list *list, struct zr_buf *both,
		      const struct zr_name **made)
{
	size_t left = 0;
	const char *p = two_of(list->p, both, &left);
	if (!p)
		return zr_load_unread(l, merge_place(i, (char[64]){ 0 }),
				      "\"a b\" or [\"a\", \"b\"]", list->p);
	list->p = p;
	const struct zr_name *a = part_of(l, i, both->p, left);
	const struct zr_name *b = a ? part_of(l, i, both->p + left, both->n - left) : NULL;
	const struct zr_name *end = l->names.name + l->names.n, *ab = *made ? *made + 1 : NULL;
	if (!ab || ab == end || ab->n != both->n || memcmp(ab->p, both->p, both->n))
		ab = b ? part_of(l, i, both->p, both->n) : NULL;
	if (!b || !ab)
		return ZR_EINVAL;
	*made = ab;
	l->joins_words |= l->t->bpe.characters && zr_spaced_joins(ab->p);
	zr_merges_put(&l->t->bpe.merges, (uint32_t)a->id, (uint32_t)b->id, (uint32_t)ab->id);
	return 0;
}

static int load_merges(struct zr_load *l)
{
	struct zr_list list = l->lists.merges;
	struct zr_buf both = { 0 };
	const struct zr_name *made = NULL;
	size_t i = 0;
	int rc = 0, more;
	if (!list.text || *list.text != '[')
		return zr_load_unread(l, "model.merges", "an array", list.text);
	size_t ids = (size_t)l->t->size, most = zr_merges_most(ids);
	if (list.entries > most)
		return zr_load_fail(l, ZR_ENOTSUP, "model.merges", "has %zu merges, more than %zu",
				    list.entries, most);
	if (zr_merges_room(&l->t->bpe.merges, list.entries, ids) || zr_buf_reserve(&both, list.bytes))
		rc = zr_err(l->err, ZR_ENOMEM, "out of memory");
	while (!rc && (more = zr_list_next(&list)))
		rc = more < 0 ? zr_load_unread(l, "model.merges", "an array", list.text) :
				load_merge(l, i++, &list, &both, &made);
	zr_buf_free(&both);
	int no = rc ? 0 : zr_merges_ready(&l->t->bpe.merges);
	if (no == ZR_EINVAL)
		return zr_load_fail(l, no, "model.merges", "has more than 256 of one pair or hash");
	return no ? zr_err(l->err, ZR_ENOMEM, "out of memory") : rc;
}

/* ---- model ---- */

/* What would change the ids and is not here. */
static int check_bpe(const struct zr_load *l, const json_t *model)
{
	static const char *const unset[] = { "dropout", "continuing_subword_prefix",
					     "end_of_word_suffix" };
	for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) {
		const json_t *v = json_object_get(model, unset[i]);
		char place[64];
		snprintf(place, sizeof place, "model.%s", unset[i]);
		int none = !v || json_is_null(v) || (json_is_string(v) && !json_string_length(v)) || (json_is_real(v) && json_real_value(v) == 0);
		if (!none)
			return zr_load_fail(l, ZR_ENOTSUP, place, "is not supported");
	}
	return 0;
}

static int load_bpe(struct zr_load *l, const json_t *model, const json_t *added)
{
	struct zr_bpe *b = &l->t->bpe;
	int rc = check_bpe(l, model);
	rc = rc ? rc : zr_load_flag(l, model, "model", "ignore_merges", 0, &b->ignore_merges);
	rc = rc ? rc : zr_load_flag(l, model, "model", "fuse_unk", 0, &b->fuse_unknown);
	rc = rc ? rc : zr_load_vocab(l, added);
	rc = rc		   ? rc :
	     b->characters ? zr_load_unknown(l, json_object_get(model, "unk_token"), NULL) :
			     check_bytes(l);
	rc = rc ? rc : load_merges(l);
	int no = !rc && (b->ignore_merges || b->characters) ? zr_bpe_index(l->t) : 0;
	if (!rc && !no && b->characters && !b->ignore_merges)
		no = zr_joins_open(l->t, &b->joins);
	return no ? zr_err(l->err, ZR_ENOMEM, "out of memory") : rc;
}

static int load_model(struct zr_load *l, const json_t *model, const json_t *added)
{
	static const char *const names[] = { [ZR_MODEL_BPE] = "BPE",
					     [ZR_MODEL_UNIGRAM] = "Unigram",
					     [ZR_MODEL_WORDPIECE] = "WordPiece" };
	int known = sizeof names / sizeof *names;
	if (!json_is_object(model))
		return zr_load_found(l, "model", "an object", model);
	const json_t *type = json_object_get(model, "type"); /* old files have none */
	const char *name = type ? json_string_value(type) : names[ZR_MODEL_BPE];
	while (l->t->model < known && strcmp(name ? name : "", names[l->t->model]))
		l->t->model++;
	if (l->t->model == known)
		return zr_load_found(l, "model.type", "BPE, Unigram or WordPiece", type);
	l->t->bpe.characters &= l->t->model == ZR_MODEL_BPE;
	l->t->spaced &= l->t->bpe.characters || l->t->model == ZR_MODEL_UNIGRAM;
	int rc = zr_load_flag(l, model, "model", "byte_fallback", 0, &l->t->byte_fallback);
	if (rc)
		return rc;
	return l->t->model == ZR_MODEL_UNIGRAM	 ? zr_load_unigram(l, model, added) :
	       l->t->model == ZR_MODEL_WORDPIECE ? zr_load_wordpiece(l, model, added) :
						   load_bpe(l, model, added);
}

static int is_byte_level(const json_t *root)
{
	const json_t *pre = json_object_get(root, "pre_tokenizer"), *o;
	for (size_t i = 0; (o = zr_load_step(pre, "pretokenizers", i)); i++)
		if (!strcmp(zr_load_type(o), "ByteLevel"))
			return 1;
	return 0;
}

static int load(struct zr_load *l, const json_t *root)
{
	const json_t *added = json_object_get(root, "added_tokens");
	if (added && !json_is_null(added) && !json_is_array(added))
		return zr_load_found(l, "added_tokens", "an array", added);
	l->t->spaced = zr_load_is_spaced(root);
	l->t->bpe.characters = !is_byte_level(root);
	int rc = load_model(l, json_object_get(root, "model"), added);
	rc = rc ? rc : zr_load_normalizer(l, json_object_get(root, "normalizer"));
	rc = rc ? rc : zr_load_splits(l, json_object_get(root, "pre_tokenizer"));
	if (!rc && l->t->model == ZR_MODEL_UNIGRAM && l->t->spaced)
		l->t->apart = !l->t->split[l->t->n_splits - 1].regex && zr_unigram_apart(l->t);
	rc = rc ? rc : zr_load_added(l, added);
	rc = rc ? rc : zr_load_gaps(l);
	rc = rc ? rc : zr_load_decoder(l, json_object_get(root, "decoder"));
	return rc ? rc : zr_load_template(l, json_object_get(root, "post_processor"));
}

/* All of the file but for its lists. */
static int read_root(struct zr_load *l, json_t **root)
{
	struct zr_error why = { 0 };
	if (zr_lists_find(&l->lists, l->text, l->bytes))
		return zr_err(l->err, ZR_ENOMEM, "out of memory");
	const struct zr_buf *rest = &l->lists.rest;
	return zr_json_object(rest->p, rest->n, l->file, root, &why) ?
		       zr_json_object(l->text, l->bytes, l->file, root, l->err) : /* says where */
		       0;
}

int zr_tokenizer_open(const char *path, struct zr_tokenizer **out, struct zr_error *err)
{
	struct zr_load l = { .err = err };
	json_t *root = NULL;
	char *text, file[ZR_TOKENIZER_PATH];
	size_t bytes;
	if (zr_tokenizer_find(path, file, err))
		return err->code;
	l.file = path = file;
	int no = zr_file_text(AT_FDCWD, path, 1, MOST, &text, &bytes);
	int rc = no ? zr_file_failed(err, path, "", no) : 0;
	l.text = text;
	l.bytes = bytes;
	rc = rc ? rc : read_root(&l, &root);
	if (!rc)
		l.t = calloc(1, sizeof *l.t);
	rc = rc ? rc : l.t ? load(&l, root) : zr_err(err, ZR_ENOMEM, "out of memory");
	free(text);
	json_decref(root);
	zr_buf_free(&l.lists.rest);
	zr_names_free(&l.names);
	if (rc)
		zr_tokenizer_close(l.t);
	else
		*out = l.t;
	return rc;
}
