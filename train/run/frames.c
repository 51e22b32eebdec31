/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.c - see frames.h.
 */
#include "train/run/frames.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOM (sizeof(struct zr_frame_head) + ZR_FRAMES_MOST)

/* ---- writing --------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);
		if (n > 0) {
			data += n;
			bytes -= (size_t)n;
			continue;
		}

		if (errno == EAGAIN)
			poll(&(struct pollfd){ fd, POLLOUT, 0 }, 1, -1);
		else if (errno != EINTR)
			return -1;
	}

	return 0;
}

int zr_frame_write(int fd, int kind, const void *data, size_t bytes)
{
	const struct zr_frame_head head = { (uint32_t)kind, (uint32_t)bytes };
	if (write_all(fd, (const char *)&head, sizeof head))
		return -1;
	return write_all(fd, data, bytes);
}

/* ---- reading --------------------------------------------------------------------- */

int zr_frames_fill(struct zr_frames *f)
{
	if (!f->data)
		f->data = malloc(ROOM);
	if (!f->data)
		return -1;
	if (f->used == ROOM)
		return 0;

	ssize_t n = read(f->fd, f->data + f->used, ROOM - f->used);
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -1;

	f->used += (size_t)n;
	return n ? 1 : -1;
}

const struct zr_frame_head *zr_frames_first(const struct zr_frames *f, int *broken)
{
	const struct zr_frame_head *head = (const void *)f->data;

	*broken = 0;
	if (f->used < sizeof *head)
		return NULL;

	*broken = head->kind < ZR_FRAME_PORT || head->kind > ZR_FRAME_END ||
		  head->bytes > ZR_FRAMES_MOST;
	if (*broken || f->used < sizeof *head + head->bytes)
		return NULL;
	return head;
}

void zr_frames_drop(struct zr_frames *f, size_t bytes)
{
	f->used -= bytes;
	memmove(f->data, f->data + bytes, f->used);
}

void zr_frames_free(struct zr_frames *f)
{
	free(f->data);
	*f = (struct zr_frames){ .fd = -1 };
}

/* ---- the beat -------------------------------------------------------------------- */

int zr_frame_is_beat(const struct zr_frame_beat *b)
{
	const int has_batch = b->micro > 0 && b->batch >= b->micro;
	return (has_batch || (!b->batch && !b->micro)) && b->steps >= 0 && b->latest >= -1;
}

void zr_frame_from_beat(const struct zr_beat *b, struct zr_frame_beat *out)
{
	*out = (struct zr_frame_beat){ .count = atomic_load(&b->count),
				       .steps = atomic_load(&b->steps),
				       .saved = atomic_load(&b->saved),
				       .batch = b->batch,
				       .micro = b->micro,
				       .latest = b->latest,
				       .there = b->there };
	memcpy(out->dir, b->dir, sizeof out->dir);
	memcpy(out->checkpoints, b->checkpoints, sizeof out->checkpoints);
}

void zr_frame_to_beat(const struct zr_frame_beat *in, struct zr_beat *b)
{
	atomic_store(&b->count, in->count);
	atomic_store(&b->steps, in->steps);
	atomic_store(&b->saved, in->saved);
	b->batch = in->batch;
	b->micro = in->micro;
	b->latest = in->latest;
	b->there = in->there;
	memcpy(b->dir, in->dir, sizeof b->dir);
	memcpy(b->checkpoints, in->checkpoints, sizeof b->checkpoints);
	b->dir[sizeof b->dir - 1] = b->checkpoints[sizeof b->checkpoints - 1] = 0;
}
