/* SPDX-License-Identifier: Apache-2.0
 *
 * protobuf.c - see protobuf.h: a field begins with a number whose low 3 bits say how long it is.
 */
#include "files/protobuf.h"

static int take_number(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
	*out = 0;
	for (int shift = 0; *at < end && shift < 64; shift += 7) {
		const uint8_t byte = *(*at)++;
		*out |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return 1;
	}

	return 0;
}

/* Bytes of a field that is no number; 0: there is none of that kind. */
static int take_length(const uint8_t **at, const uint8_t *end, int kind, uint64_t *bytes)
{
	switch (kind) {
	case ZR_PB_EIGHT:
		*bytes = 8;
		return 1;
	case ZR_PB_FOUR:
		*bytes = 4;
		return 1;
	case ZR_PB_BYTES:
		return take_number(at, end, bytes);
	default:
		return 0;
	}
}

int zr_pb_next(const uint8_t **at, const uint8_t *end, struct zr_pb_field *f)
{
	uint64_t head, bytes;

	if (!take_number(at, end, &head))
		return 0;

	*f = (struct zr_pb_field){ .number = head >> 3, .kind = (int)(head & 7) };
	if (f->kind == ZR_PB_VARINT)
		return take_number(at, end, &f->value);
	if (!take_length(at, end, f->kind, &bytes) || bytes > (uint64_t)(end - *at))
		return 0;

	f->data = *at;
	f->bytes = (size_t)bytes;
	*at += bytes;
	return 1;
}

int zr_pb_find(const uint8_t *message, size_t bytes, uint64_t number, struct zr_pb_field *f)
{
	const uint8_t *at = message, *end = message + bytes;

	while (at < end && zr_pb_next(&at, end, f))
		if (f->number == number)
			return 1;

	return 0;
}
