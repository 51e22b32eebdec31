/* SPDX-License-Identifier: Apache-2.0
 *
 * protobuf.h - reads messages in the encoding of Protocol Buffers, a field at a time. [any]
 */
#ifndef ZR_FILES_PROTOBUF_H
#define ZR_FILES_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

/* How a field is written. */
enum { ZR_PB_VARINT = 0, ZR_PB_EIGHT = 1, ZR_PB_BYTES = 2, ZR_PB_FOUR = 5 };

struct zr_pb_field {
	uint64_t number;
	int kind;            /* ZR_PB_* */
	uint64_t value;      /* of ZR_PB_VARINT */
	const uint8_t *data; /* of the others, within the message */
	size_t bytes;
};

/* The field at *at, which goes behind it. 0: what is there is no field, or none is left. */
int zr_pb_next(const uint8_t **at, const uint8_t *end, struct zr_pb_field *f);

/* The first field of a number in a message. 0: it has none. */
int zr_pb_find(const uint8_t *message, size_t bytes, uint64_t number, struct zr_pb_field *f);

#endif
