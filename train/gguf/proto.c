/* SPDX-License-Identifier: Apache-2.0
 *
 * proto.c - see parts.h: SentencePiece's tokenizer.model. It is a message of protocol buffers: each
 * field begins with a number whose low 3 bits say how long it is. Of ModelProto, field 1 is a
 * piece, with its text, score and type in fields 1 to 3; field 2 is the trainer's specification,
 * whose field 3 is the kind of the model.
 */
#include <stdlib.h>
#include <string.h>

#include "train/gguf/parts.h"

enum { VARINT = 0, EIGHT = 1, DELIMITED = 2, FOUR = 5 };

struct field {
	uint64_t number, value; /* value of VARINT */
	int kind;
	const char *data; /* of DELIMITED, EIGHT and FOUR */
	size_t bytes;
};

static int take_number(const char **at, const char *end, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; *at < end && shift < 64; shift += 7) {
		const unsigned char byte = (unsigned char)*(*at)++;
		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return 1;
	}

	return 0;
}

/* The next field; 0: what is there is none. */
static int take_field(const char **at, const char *end, struct field *f)
{
	uint64_t head, bytes = 0;

	if (!take_number(at, end, &head))
		return 0;

	*f = (struct field){ .number = head >> 3, .kind = (int)(head & 7) };
	switch (f->kind) {
	case VARINT:
		return take_number(at, end, &f->value);
	case EIGHT:
		bytes = 8;
		break;
	case FOUR:
		bytes = 4;
		break;
	case DELIMITED:
		if (!take_number(at, end, &bytes))
			return 0;
		break;
	default:
		return 0;
	}

	if (bytes > (uint64_t)(end - *at))
		return 0;
	f->data = *at;
	f->bytes = (size_t)bytes;
	*at += bytes;
	return 1;
}

static int take_piece(const struct field *from, struct zr_gguf_piece *p)
{
	const char *at = from->data, *end = at + from->bytes;
	struct field f;

	*p = (struct zr_gguf_piece){ .text = "", .type = ZR_TOKEN_NORMAL };
	while (at < end) {
		if (!take_field(&at, end, &f))
			return 0;
		if (f.number == 1 && f.kind == DELIMITED) {
			p->text = f.data;
			p->bytes = f.bytes;
		} else if (f.number == 2 && f.kind == FOUR) {
			memcpy(&p->score, f.data, sizeof p->score);
		} else if (f.number == 3 && f.kind == VARINT) {
			p->type = (int32_t)f.value;
		}
	}

	return 1;
}

static int take_trainer(const struct field *from, struct zr_gguf_proto *out)
{
	const char *at = from->data, *end = at + from->bytes;
	struct field f;

	while (at < end) {
		if (!take_field(&at, end, &f))
			return 0;
		if (f.number == 3 && f.kind == VARINT)
			out->model = (int32_t)f.value;
	}

	return 1;
}

static int grow(struct zr_gguf_proto *out, int64_t *room)
{
	if (out->n < *room)
		return 1;

	*room = 2 * *room + 1024;
	struct zr_gguf_piece *more = realloc(out->piece, (size_t)*room * sizeof *more);
	if (!more)
		return 0;

	out->piece = more;
	return 1;
}

int zr_gguf_proto_read(const char *data, size_t n, const char *path, struct zr_gguf_proto *out,
		       struct zr_error *err)
{
	const char *at = data, *end = data + n;
	int64_t room = 0;
	int good = 1, memory = 1;
	struct field f;

	*out = (struct zr_gguf_proto){ .model = 1 };
	while (good && memory && at < end) {
		good = take_field(&at, end, &f);
		if (!good || f.kind != DELIMITED)
			continue;

		if (f.number == 2)
			good = take_trainer(&f, out);
		if (f.number != 1)
			continue;

		memory = grow(out, &room);
		if (memory)
			good = take_piece(&f, &out->piece[out->n++]);
	}

	if (good && memory && out->n)
		return 0;

	free(out->piece);
	out->piece = NULL;
	if (!memory)
		return zr_no_memory(err);
	return zr_err(err, ZR_EINVAL, "%s: not a model of SentencePiece", path);
}
