/* SPDX-License-Identifier: Apache-2.0
 *
 * load_decoder.c - the decoder of tokenizer.json.
 */
#include <string.h>

#include "files/tokenizer/parts.h"

static int is_text(const json_t *o, const char *key, const char *text)
{
	const char *found = json_string_value(json_object_get(o, key));
	return found && !strcmp(found, text);
}

static int load_wordpiece(struct zr_tokenizer_loading *l, const json_t *o)
{
	struct zr_decoding *d = &l->t->decoding;
	const char *prefix = json_string_value(json_object_get(o, "prefix"));

	d->kind = ZR_DECODE_WORDS;
	d->prefix = strdup(prefix ? prefix : "##");
	int rc = zr_load_flag(l, o, "decoder", "cleanup", 1, &d->cleanup);
	if (rc || d->prefix)
		return rc;

	return zr_no_memory(l->err);
}

/* Spaces for U+2581, which the tokens have already, and none before the text. */
static int load_metaspace(struct zr_tokenizer_loading *l, const json_t *o)
{
	struct zr_decoding *d = &l->t->decoding;
	int add = 1;
	int rc = zr_load_flag(l, o, "decoder", "add_prefix_space", 1, &add);

	d->kind = ZR_DECODE_SPACES;
	if (json_object_get(o, "prepend_scheme"))
		d->unspaced_first = !is_text(o, "prepend_scheme", "never");
	else
		d->unspaced_first = add;

	return rc;
}

/* One step of those that SentencePiece's vocabularies have; 0: it is another. */
static int is_of_spaces(struct zr_decoding *d, const json_t *o)
{
	const char *type = zr_load_type(o);
	const json_t *start = json_object_get(o, "start");
	int replace = !strcmp(type, "Replace") && is_text(o, "content", " ") &&
		      is_text(json_object_get(o, "pattern"), "String", ZR_SPACE);
	int strip = !strcmp(type, "Strip") && d->fused && is_text(o, "content", " ") &&
		    json_integer_value(start) >= 0 && json_integer_value(start) < 100 &&
		    json_integer_value(json_object_get(o, "stop")) == 0;

	d->replaced |= replace;
	d->bytes |= !strcmp(type, "ByteFallback");
	d->fused |= !strcmp(type, "Fuse");
	if (strip)
		d->strip = (int)json_integer_value(start);

	return replace || strip || !strcmp(type, "ByteFallback") || !strcmp(type, "Fuse");
}

/* Without a decoder the library puts a space between two tokens. Tokens that stand for bytes or
 * have spaces of their own are text as they are, of which people see more than of the library's. */
static void load_none(struct zr_tokenizer *t)
{
	int bytes = t->model == ZR_MODEL_BPE && !t->bpe.characters;
	if (!bytes && !t->byte_fallback && !t->spaced)
		t->decoding.kind = ZR_DECODE_WORDS;
}

int zr_load_decoder(struct zr_tokenizer_loading *l, const json_t *o)
{
	struct zr_tokenizer *t = l->t;
	const json_t *one, *first = zr_load_step(o, "decoders", 0);
	int alone = !zr_load_step(o, "decoders", 1), known = 1, bytes;

	if (!first) {
		load_none(t);
		return 0;
	}

	bytes = alone && !strcmp(zr_load_type(first), "ByteLevel");
	if (bytes && t->model == ZR_MODEL_BPE && !t->bpe.characters)
		return 0;
	if (alone && !strcmp(zr_load_type(first), "WordPiece") && !t->spaced)
		return load_wordpiece(l, first);

	int metaspace = alone && !strcmp(zr_load_type(first), "Metaspace");
	if (metaspace && is_text(first, "replacement", ZR_SPACE) && t->spaced)
		return load_metaspace(l, first);

	for (size_t i = 0; known && (one = zr_load_step(o, "decoders", i)); i++)
		known = is_of_spaces(&t->decoding, one);
	t->decoding.kind = ZR_DECODE_SPACES;
	if (known && (t->decoding.replaced || !t->spaced))
		return 0;

	t->decoding = (struct zr_decoding){ .kind = ZR_DECODE_UNKNOWN };
	return 0;
}
