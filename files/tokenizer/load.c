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

/* Byte-level vocabularies write a byte as a character: itself where it is printable, the others from U+0100 on in order.
 * The byte that c stands for, or -1. */
static int byte_of(int32_t c)
{
	int n = 0;
	if ((c > 0x20 && c < 0x7f) || (c > 0xa0 && c < 0x100 && c != 0xad))
		return c;
	for (int b = 0; b < 256; b++)
		if (!((b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad)) && c == 0x100 + n++)
			return b;
	return -1;
}

static int bytes_table[0x144]; /* byte_of, by c */

/* The n bytes of a token of a byte-level vocabulary to out, which has room for them. */
static int to_bytes(const char *start, char *out, size_t *n)
{
	const char *text = start;
	for (*n = 0; *text; text += zr_utf8_at(text, strlen(text) < 4 ? strlen(text) : 4)) {
		int32_t c = zr_utf8_value(text);
		int b = c < 0x144 ? bytes_table[c] : -1;
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

/* Room for all tokens, with a byte behind each. */
static int make_room(struct zr_load *l, const json_t *added)
{
	struct zr_tokenizer *t = l->t;
	const char *key;
	json_t *v;
	size_t i, bytes = 0;
	int64_t id;
	int rc = 0;
	json_object_foreach (l->vocab, key, v) {
		rc = rc ? rc : id_of(l, "model.vocab", v, &id);
		t->size = !rc && id >= t->size ? id + 1 : t->size;
		bytes += strlen(key) + 1;
	}
	json_array_foreach (added, i, v) {
		rc = rc ? rc : id_of(l, "added_tokens", json_object_get(v, "id"), &id);
		t->size = !rc && id >= t->size ? id + 1 : t->size;
		bytes += json_string_length(json_object_get(v, "content")) + 1;
	}
	t->token = calloc((size_t)t->size + 1, sizeof *t->token);
	t->text.p = malloc(bytes + 1);
	t->text.room = bytes + 1;
	return rc ? rc : t->token && t->text.p ? 0 : zr_err(l->err, ZR_ENOMEM, "out of memory");
}

static int put_token(struct zr_load *l, const char *key, int64_t id)
{
	struct zr_tokenizer *t = l->t;
	struct zr_token *o = &t->token[id];
	char *to = t->text.p + t->text.n;
	int characters = t->bpe.characters;
	size_t n;
	int kind = (characters ? zr_spaced_token : to_bytes)(key, to, &n);
	if (o->p)
		return zr_load_fail(l, ZR_EINVAL, "model.vocab", "two tokens have id %lld", (long long)id);
	*o = (struct zr_token){ .p = to, .n = (uint32_t)n };
	o->made = kind == ZR_TOKEN_MADE || (kind == ZR_TOKEN_BYTE && !characters);
	to[n] = 0;
	t->text.n += o->n + 1;
	if (kind == ZR_TOKEN_BYTE)
		t->bpe.byte[(unsigned char)to[0]] = (int32_t)id;
	return 0;
}

static int load_vocab(struct zr_load *l, const json_t *added)
{
	struct zr_bpe *b = &l->t->bpe;
	const char *key;
	json_t *v;
	int rc = make_room(l, added);
	for (int32_t c = 0; c < 0x144; c++)
		bytes_table[c] = byte_of(c);
	memset(b->byte, 0xff, sizeof b->byte);
	json_object_foreach (l->vocab, key, v)
		rc = rc ? rc : put_token(l, key, json_integer_value(v));
	for (int i = 0; !rc && i < 256; i++)
		if (b->byte[i] < 0)
			rc = zr_load_fail(l, ZR_ENOTSUP, "model.vocab", "has no token for byte 0x%02x: only byte-level vocabularies, and those "
					  "of SentencePiece with byte_fallback, are supported", i);
	return rc;
}

/* ---- merges ---- */

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

/* What would change the ids and is not here. unk_token, fuse_unk and byte_fallback would not: every byte has a token. */
static int check_model(const struct zr_load *l, const json_t *model)
{
	static const char *const unset[] = { "dropout", "continuing_subword_prefix", "end_of_word_suffix" };
	const json_t *type = json_object_get(model, "type"); /* old files have none */
	if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE")))
		return zr_load_found(l, "model.type", "BPE", type);
	for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) {
		const json_t *v = json_object_get(model, unset[i]);
		char place[64];
		snprintf(place, sizeof place, "model.%s", unset[i]);
		int none = !v || json_is_null(v) || (json_is_string(v) && !json_string_length(v)) || (json_is_real(v) && json_real_value(v) == 0);
		if (!none)
			return zr_load_fail(l, ZR_ENOTSUP, place, "is not supported");
	}
	return json_is_object(l->vocab) ? 0 : zr_load_found(l, "model.vocab", "an object", l->vocab);
}

static int load_model(struct zr_load *l, const json_t *model, const json_t *added)
{
	int rc;
	if (!json_is_object(model))
		return zr_load_found(l, "model", "an object", model);
	l->vocab = json_object_get(model, "vocab");
	rc = check_model(l, model);
	rc = rc ? rc : zr_load_flag(l, model, "model", "ignore_merges", 0, &l->t->bpe.ignore_merges);
	rc = rc ? rc : load_vocab(l, added);
	rc = rc ? rc : load_merges(l, json_object_get(model, "merges"));
	if (!rc && (l->t->bpe.ignore_merges || l->t->bpe.characters) && zr_bpe_index(l->t))
		rc = zr_err(l->err, ZR_ENOMEM, "out of memory");
	return rc;
}

static int load(struct zr_load *l, const json_t *root)
{
	const json_t *added = json_object_get(root, "added_tokens");
	if (added && !json_is_null(added) && !json_is_array(added))
		return zr_load_found(l, "added_tokens", "an array", added);
	l->t->bpe.characters = zr_load_is_spaced(root);
	int rc = load_model(l, json_object_get(root, "model"), added);
	rc = rc ? rc : zr_load_normalizer(l, json_object_get(root, "normalizer"));
	rc = rc ? rc : zr_load_splits(l, json_object_get(root, "pre_tokenizer"));
	rc = rc ? rc : zr_load_added(l, added);
	return rc ? rc : zr_load_template(l, json_object_get(root, "post_processor"));
}

int zr_tokenizer_open(const char *path, struct zr_tokenizer **out, struct zr_error *err)
{
	struct zr_load l = { .file = path, .err = err };
	json_t *root = NULL;
	char *text;
	size_t bytes;
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
