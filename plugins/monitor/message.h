/* SPDX-License-Identifier: Apache-2.0
 *
 * message.h - messages in the encoding of Protocol Buffers, of the few types that files of monitors
 * need, and the CRC-32s that guard their records. A message is made in memory of the caller; what
 * does not fit sets `full`. [any]
 */
#ifndef ZR_MONITOR_MESSAGE_H
#define ZR_MONITOR_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

struct message {
	uint8_t *bytes; /* [room], borrowed */
	size_t used, room;
	int full;
};

/* Appends the field of this number. */
void message_varint(struct message *m, uint32_t field, uint64_t v);
void message_double(struct message *m, uint32_t field, double v);
void message_float(struct message *m, uint32_t field, float v);
void message_text(struct message *m, uint32_t field, const char *text);

/* A message in a message: what is appended between these two calls. begin returns what end takes.
 */
size_t message_begin(struct message *m, uint32_t field);
void message_end(struct message *m, size_t begun);

#define CRC32  0xedb88320u /* of zlib: the polynomial with its bits reversed */
#define CRC32C 0x82f63b78u /* Castagnoli's */

struct crc {
	uint32_t of_byte[256];
};

void crc_init(struct crc *c, uint32_t polynomial);
/* Of n more bytes behind those whose CRC is `before`; 0: there are none. */
uint32_t crc_of(const struct crc *c, uint32_t before, const void *p, size_t n);

/* Numbers in the order of bytes of all these formats, the lowest byte first. */
void put_low_first(uint8_t *to, uint64_t v, int bytes);

#endif
