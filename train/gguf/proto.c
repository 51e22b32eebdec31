/* SPDX-License-Identifier: Apache-2.0
 *
 * proto.c - see parts.h: SentencePiece's tokenizer.model, a message of Protocol Buffers. Of
 * ModelProto, field 1 is a piece, with its text, score and type in fields 1 to 3; field 2 is the
 * trainer's specification, whose field 3 is the kind of the model.
 */
#include <stdlib.h>
#include <string.h>

#include "files/protobuf.h"
#include "train/gguf/parts.h"

static int take_piece(const struct zr_pb_field *from, struct zr_gguf_piece *p)
{
	const uint8_t *at = from->data, *end = at + from->bytes;
	struct zr_pb_field f;

	*p = (struct zr_gguf_piece){ .text = "", .type = ZR_TOKEN_NORMAL };
	while (at < end) {
		if (!zr_pb_next(&at, end, &f))
			return 0;
		if (f.number == 1 && f.kind == ZR_PB_BYTES) {
			p->text = (const char *)f.data;
			p->bytes = f.bytes;
		} else if (f.number == 2 && f.kind == ZR_PB_FOUR) {
			memcpy(&p->score, f.data, sizeof p->score);
		} else if (f.number == 3 && f.kind == ZR_PB_VARINT) {
			p->type = (int32_t)f.value;
		}
	}

	return 1;
}

static int take_trainer(const struct zr_pb_field *from, struct zr_gguf_proto *out)
{
	const uint8_t *at = from->data, *end = at + from->bytes;
	struct zr_pb_field f;

	while (at < end) {
		if (!zr_pb_next(&at, end, &f))
			return 0;
		if (f.number == 3 && f.kind == ZR_PB_VARINT)
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
	const uint8_t *at = (const uint8_t *)data, *end = at + n;
	int64_t room = 0;
	int good = 1, memory = 1;
	struct zr_pb_field f;

	*out = (struct zr_gguf_proto){ .model = 1 };
	while (good && memory && at < end) {
		good = zr_pb_next(&at, end, &f);
		if (!good || f.kind != ZR_PB_BYTES)
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
