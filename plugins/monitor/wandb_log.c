/* SPDX-License-Identifier: Apache-2.0
 *
 * wandb_log.c - see wandb_log.h. A record lies in one fragment, or in a first, middle ones and a
 * last one; no fragment crosses the end of a block. In front of each stand CRC, length and type.
 */
#include "wandb_log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define BLOCK 32768
#define HEAD  7

enum { FULL = 1, FIRST, MIDDLE, LAST };

static const uint8_t magic[HEAD] = { ':', 'W', '&', 'B', 0xe1, 0xbe, 0 };

int wandb_log_begin(struct wandb_log *l)
{
	return output_write(&l->out, magic, sizeof magic);
}

static uint32_t crc_of_fragment(const struct wandb_log *l, uint8_t type, const uint8_t *p, size_t n)
{
	return crc_of(&l->crc, crc_of(&l->crc, 0, &type, 1), p, n);
}

static uint8_t type_of(int first, int last)
{
	if (first)
		return last ? FULL : FIRST;

	return last ? LAST : MIDDLE;
}

/* A header has to fit into its block; otherwise zeros end that. */
static int fill_block(struct wandb_log *l)
{
	static const uint8_t zeros[HEAD];
	const size_t left = BLOCK - (size_t)(l->out.size % BLOCK);

	if (left >= HEAD)
		return ZR_OK;

	return output_write(&l->out, zeros, left);
}

static int write_fragment(struct wandb_log *l, uint8_t type, const uint8_t *p, size_t n)
{
	put_low_first(l->head, crc_of_fragment(l, type, p, n), 4);
	put_low_first(l->head + 4, n, 2);
	l->head[6] = type;

	int rc = output_write(&l->out, l->head, HEAD);
	if (!rc)
		rc = output_write(&l->out, p, n);

	return rc;
}

int wandb_log_append(struct wandb_log *l, const uint8_t *record, size_t bytes)
{
	int first = 1, rc;

	do {
		rc = fill_block(l);
		if (rc)
			return rc;

		size_t n = BLOCK - (size_t)(l->out.size % BLOCK) - HEAD;
		if (n > bytes)
			n = bytes;
		rc = write_fragment(l, type_of(first, n == bytes), record, n);
		record += n;
		bytes -= n;
		first = 0;
	} while (!rc && bytes);

	return rc;
}

static int read_at(const struct wandb_log *l, int64_t at, uint8_t *to, size_t n)
{
	while (n) {
		ssize_t got = pread(l->out.fd, to, n, at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -1;

		to += got;
		at += got;
		n -= (size_t)got;
	}

	return 0;
}

/* Whether a fragment begins a record, also one without a byte: a header just fit its block. */
static int is_begin(int type)
{
	return type == FULL || type == FIRST;
}

/* The fragment at *at goes behind `used` bytes of room; its type, or 0 if it is none. It follows
 * one of type `before`, 0: it is the record's first one. */
static int fragment(const struct wandb_log *l, int before, int64_t *at, uint8_t *room, size_t *used)
{
	uint8_t h[HEAD];

	if (BLOCK - *at % BLOCK < HEAD)
		*at += BLOCK - *at % BLOCK;
	if (read_at(l, *at, h, HEAD))
		return 0;

	const size_t n = (size_t)h[4] | (size_t)h[5] << 8;
	const uint32_t crc = (uint32_t)h[0] | (uint32_t)h[1] << 8 | (uint32_t)h[2] << 16 |
			     (uint32_t)h[3] << 24;
	if (h[6] < FULL || h[6] > LAST || is_begin(h[6]) != !before ||
	    *used + n > WANDB_RECORD_ROOM || read_at(l, *at + HEAD, room + *used, n) ||
	    crc != crc_of_fragment(l, h[6], room + *used, n))
		return 0;

	*used += n;
	*at += HEAD + (int64_t)n;
	return h[6];
}

int wandb_log_cut(struct wandb_log *l, uint8_t *room,
		  int (*keep)(void *arg, const uint8_t *record, size_t bytes), void *arg)
{
	int64_t at = HEAD, start;
	uint8_t found[HEAD];
	if (l->out.size < HEAD || read_at(l, 0, found, HEAD) || memcmp(found, magic, HEAD))
		return zr_fail(l->out.h, ZR_EINVAL,
			       "%s: is no log of W&B that this can go on with: move it away",
			       l->out.name);

	for (;;) {
		size_t used = 0;
		int type = 0;
		start = at;
		do
			type = fragment(l, type, &at, room, &used);
		while (type == FIRST || type == MIDDLE);
		if (!type || !keep(arg, room, used))
			break;
	}

	if (start < l->out.size)
		return output_cut(&l->out, start);

	return ZR_OK;
}
