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

static int id_of(const struct zr_load *l, const char *place, const json_t *v, int64_t *id)
{
	*id = json_is_integer(v) ? json_integer_value(v) : -1;
	if (*id >= 0 && *id < ZR_TOKENIZER_IDS)
		return 0;
	char wanted[64];
	snprintf(wanted, sizeof wanted, "an id in [0, %d]", ZR_TOKENIZER_IDS - 1);
	return zr_load_found(l, place, wanted, v);
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

int zr_load_token(struct zr_load *l, const char *key, int64_t id, int *kind)
{
	struct zr_tokenizer *t = l->t;
	struct zr_token *o = &t->token[id];
	char *to = t->text.p + t->text.n;
	int bytes = t->model == ZR_MODEL_BPE && !t->bpe.characters;
	size_t n;
	*kind = bytes ? to_bytes(key, to, &n) : zr_spaced_token(t, key, to, &n);
	if (o->p)
		return zr_load_fail(l, ZR_EINVAL, "model.vocab", "two tokens have id %lld", (long long)id);
	*o = (struct zr_token){ .p = to, .n = (uint32_t)n };
	o->made = *kind == ZR_TOKEN_MADE || (*kind == ZR_TOKEN_BYTE && bytes);
	to[n] = 0;
	t->text.n += o->n + 1;
	if (*kind == ZR_TOKEN_BYTE)
		t->byte[(unsigned char)to[0]] = (int32_t)id;
	return 0;
}

int zr_load_vocab(struct zr_load *l, const json_t *added)
{
	const char *key;
	json_t *v;
	size_t bytes = 0;
	int rc = 0, kind;
	if (!json_is_object(l->vocab))
		return zr_load_found(l, "model.vocab", "an object", l->vocab);
	json_object_foreach (l->vocab, key, v)
		rc = rc ? rc : count_token(l, "model.vocab", v, key, &bytes);
	rc = rc ? rc : zr_load_room(l, bytes, added);
	json_object_foreach (l->vocab, key, v)
		rc = rc ? rc : zr_load_token(l, key, json_integer_value(v), &kind);
	return rc;
}

int zr_load_unknown(struct zr_load *l, const json_t *v, const char *otherwise)
{
	const char *text = v ? json_string_value(v) : otherwise;
	const json_t *id = text ? json_object_get(l->vocab, text) : NULL;
	l->t->unknown = id ? (int32_t)json_integer_value(id) : -1;
	if (text ? !id : v && !json_is_null(v))
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

static int64_t look_up(const struct zr_load *l, const char *text)
{
	const json_t *v = json_object_get(l->vocab, text);
	return v ? json_integer_value(v) : -1;
}

/* "a b" or ["a", "b"]: both, one after the other with a 0 between, to `both`, which has the first's length in its n. */
static int two_of(const json_t *v, struct zr_buf *both)
{
	const char *left = json_string_value(json_array_get(v, 0)), *right = json_string_value(json_array_get(v, 1));
	const char *text = json_string_value(v), *space = text ? strchr(text, ' ') : NULL;
	size_t n = space ? (size_t)(space - text) : left ? strlen(left) : 0;
	both->n = 0;
	if (space)
		left = text, right = strchr(space + 1, ' ') ? NULL : space + 1;
	if (!left || !right || (!text && json_array_size(v) != 2))
		return ZR_EINVAL;
	int rc = zr_buf_add(both, left, n);
	rc = rc ? rc : zr_buf_add(both, "", 1);
	rc = rc ? rc : zr_buf_add(both, right, strlen(right) + 1);
	both->n = n;
	return rc;
}

static int load_merge(struct zr_load *l, size_t i, const json_t *v, struct zr_buf *both)
{
	char place[64];
	int rc = two_of(v, both);
	snprintf(place, sizeof place, "model.merges[%zu]", i);
	if (rc)
		return rc == ZR_ENOMEM ? zr_err(l->err, rc, "out of memory") : zr_load_found(l, place, "\"a b\" or [\"a\", \"b\"]", v);
	char *right = both->p + both->n + 1;
	int64_t a = look_up(l, both->p), b = look_up(l, right);
	if (a < 0 || b < 0)
		return zr_load_fail(l, ZR_EINVAL, place, "%.60s is not in the vocabulary", a < 0 ? both->p : right);
	memmove(right - 1, right, strlen(right) + 1);
	int64_t id = look_up(l, both->p);
	if (id < 0)
		return zr_load_fail(l, ZR_EINVAL, place, "%.60s is not in the vocabulary", both->p);
	l->joins_words |= l->t->bpe.characters && zr_spaced_joins(both->p);
	zr_bpe_merge_put(&l->t->bpe, (uint32_t)a, (uint32_t)b, (uint32_t)i, (uint32_t)id);
	return 0;
}

static int load_merges(struct zr_load *l, const json_t *merges)
{
	struct zr_buf both = { 0 };
	size_t i;
	json_t *v;
	int rc = json_is_array(merges) ? 0 : zr_load_found(l, "model.merges", "an array", merges);
	if (!rc && zr_bpe_merges(&l->t->bpe, json_array_size(merges)))
		rc = zr_err(l->err, ZR_ENOMEM, "out of memory");
	json_array_foreach (merges, i, v)
		rc = rc ? rc : load_merge(l, i, v, &both);
	zr_buf_free(&both);
	return rc;
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
	rc = rc ? rc : load_merges(l, json_object_get(model, "merges"));
	if (!rc && (b->ignore_merges || b->characters) && zr_bpe_index(l->t))
		rc = zr_err(l->err, ZR_ENOMEM, "out of memory");
	return rc;
}

static int load_model(struct zr_load *l, json_t *model, const json_t *added)
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
	l->vocab = json_object_get(model, "vocab");
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
	rc = rc ? rc : zr_load_added(l, added);
	rc = rc ? rc : zr_load_decoder(l, json_object_get(root, "decoder"));
	return rc ? rc : zr_load_template(l, json_object_get(root, "post_processor"));
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
	int rc = no ? zr_file_failed(err, path, "", no) :
		      zr_json_object(text, bytes, path, &root, err);
	free(text);
	if (rc)
		return rc;
	l.t = calloc(1, sizeof *l.t);
	rc = l.t ? load(&l, root) : zr_err(err, ZR_ENOMEM, "out of memory");
	json_decref(root);
	if (rc)
		zr_tokenizer_close(l.t);
	else
		*out = l.t;
	return rc;
}
