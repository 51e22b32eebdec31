/* SPDX-License-Identifier: Apache-2.0
 *
 * message.c - see message.h. The encoding: a tag (number * 8 + type) in front of each field; types
 * 0 a varint, 1 eight bytes, 2 a length and so many bytes, 5 four bytes.
 */
#include "message.h"

#include <string.h>

#define LENGTH_ROOM 10 /* bytes of the longest varint */

void put_low_first(uint8_t *to, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(v >> 8 * i);
}

static void append(struct message *m, const void *p, size_t n)
{
	if (n > m->room - m->used) {
		m->full = 1;
		return;
	}

	memcpy(m->bytes + m->used, p, n);
	m->used += n;
}

/* 7 bits a byte, the lowest first; returns the number of bytes. */
static size_t varint(uint8_t *to, uint64_t v)
{
	size_t n = 0;
	for (; v > 127; v >>= 7)
		to[n++] = (uint8_t)(v | 128);
	to[n++] = (uint8_t)v;
	return n;
}

static void number(struct message *m, uint64_t v)
{
	uint8_t b[LENGTH_ROOM];
	append(m, b, varint(b, v));
}

void message_varint(struct message *m, uint32_t field, uint64_t v)
{
	number(m, (uint64_t)field << 3);
	number(m, v);
}

void message_double(struct message *m, uint32_t field, double v)
{
	uint8_t b[8];
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	put_low_first(b, bits, 8);
	number(m, (uint64_t)field << 3 | 1);
	append(m, b, sizeof b);
}

void message_float(struct message *m, uint32_t field, float v)
{
	uint8_t b[4];
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	put_low_first(b, bits, 4);
	number(m, (uint64_t)field << 3 | 5);
	append(m, b, sizeof b);
}

static void message_bytes(struct message *m, uint32_t field, const void *v, size_t n)
{
	number(m, (uint64_t)field << 3 | 2);
	number(m, n);
	append(m, v, n);
}

void message_text(struct message *m, uint32_t field, const char *text)
{
	message_bytes(m, field, text, strlen(text));
}

size_t message_begin(struct message *m, uint32_t field)
{
	number(m, (uint64_t)field << 3 | 2);
	return m->used;
}

void message_end(struct message *m, size_t begun)
{
	uint8_t length[LENGTH_ROOM];
	const size_t n = m->used - begun, wide = varint(length, n);

	append(m, length, wide); /* makes room */
	if (m->full)
		return;

	memmove(m->bytes + begun + wide, m->bytes + begun, n);
	memcpy(m->bytes + begun, length, wide);
}

void crc_init(struct crc *c, uint32_t polynomial)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t v = i;
		for (int bit = 0; bit < 8; bit++)
			v = v >> 1 ^ (v & 1 ? polynomial : 0);
		c->of_byte[i] = v;
	}
}

uint32_t crc_of(const struct crc *c, uint32_t before, const void *p, size_t n)
{
	const uint8_t *b = p;
	uint32_t v = ~before;
	for (size_t i = 0; i < n; i++)
		v = v >> 8 ^ c->of_byte[(v ^ b[i]) & 255];

	return ~v;
}
