/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.c - see direct.h. A window has consecutive bytes of the file. The units that they fill go
 * by O_DIRECT, what is left of the first and of the last one by the page cache: so no unit is
 * written both ways.
 */
#include "files/direct/direct.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/pages.h"
#include "core/base/pool.h"

#define UNIT   4096              /* of addresses, lengths and places in files */
#define PARTS  16                /* a small file is written in so many windows */
#define CACHED ((size_t)1 << 17) /* bytes that stay in the processor's cache */

struct window {
	struct zr_direct *d;
	char *mem;        /* its byte k is that of the file at `at` + k */
	uint64_t at;      /* a multiple of UNIT */
	size_t from, end; /* bytes of it that are to be written */
	int full;         /* it waits for a thread, or a thread has it */
};

struct zr_direct {
	int fd, direct;
	size_t room; /* of a window */
	/* of the windows, and of what is read back by each thread and by the caller */
	char *memory;
	size_t bytes; /* of memory */
	struct window window[ZR_DIRECT_WINDOWS];
	struct window *filling;
	int threads;
	pthread_t thread[ZR_DIRECT_THREADS];

	pthread_mutex_t lock; /* of what follows, and of window.full */
	pthread_cond_t changed;
	uint64_t given, taken; /* windows, to threads and by them: they take turns */
	int started, stop, failed;
	uint64_t bad;

	int known; /* of `failed`, to the caller */
};

/* ---- one window ---- */

static int step(int fd, char *mem, size_t bytes, uint64_t at, int write, size_t *done)
{
	ssize_t n;

	if (write)
		n = pwrite(fd, mem, bytes, (off_t)at);
	else
		n = pread(fd, mem, bytes, (off_t)at);
	*done = n > 0 ? (size_t)n : 0;
	if (n > 0 || (n < 0 && errno == EINTR))
		return 0;
	if (n < 0)
		return errno;
	if (write)
		return ENOSPC;

	return ENODATA;
}

/* Bytes [from, end) of a window to the file, or of the file to `mem`. */
static int transfer(const struct window *w, char *mem, size_t from, size_t end, int direct,
		    int write)
{
	int no = 0;

	for (size_t done; !no && from < end; from += done) {
		no = step(direct ? w->d->direct : w->d->fd, mem + from, end - from, w->at + from,
			  write, &done);
		/* the file system wants more of it than is known here */
		if (no == EINVAL && direct)
			no = direct = 0;
	}

	return no;
}

static int move_all(const struct window *w, char *mem, int write)
{
	size_t lo = (w->from + UNIT - 1) / UNIT * UNIT, hi = w->end / UNIT * UNIT;
	if (w->d->direct < 0 || lo >= hi)
		return transfer(w, mem, w->from, w->end, 0, write);

	int no = transfer(w, mem, w->from, lo, 0, write);
	if (!no)
		no = transfer(w, mem, lo, hi, 1, write);
	if (no)
		return no;

	return transfer(w, mem, hi, w->end, 0, write);
}

static uint64_t first_difference(const struct window *w, const char *back)
{
	size_t i = w->from;
	while (i < w->end && w->mem[i] == back[i])
		i++;
	return w->at + i;
}

/* back: room for what is read. */
static void write_window(struct window *w, char *back)
{
	struct zr_direct *d = w->d;
	uint64_t bad = UINT64_MAX;
	int no = move_all(w, w->mem, 1);
	if (!no)
		no = move_all(w, back, 0);
	if (!no && memcmp(w->mem + w->from, back + w->from, w->end - w->from)) {
		bad = first_difference(w, back);
		no = EIO;
	}

	pthread_mutex_lock(&d->lock);
	if (!d->failed)
		d->failed = no;
	if (bad < d->bad)
		d->bad = bad;
	w->full = 0;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
}

/* ---- threads ---- */

/* The next window that is full; NULL: there will be none. */
static struct window *take_window(struct zr_direct *d)
{
	pthread_mutex_lock(&d->lock);
	while (!d->stop && d->taken == d->given)
		pthread_cond_wait(&d->changed, &d->lock);
	struct window *w = NULL;
	if (d->taken < d->given)
		w = &d->window[d->taken++ % ZR_DIRECT_WINDOWS];
	pthread_mutex_unlock(&d->lock);
	return w;
}

static char *room_behind(const struct zr_direct *d, int number)
{
	return d->memory + (size_t)(ZR_DIRECT_WINDOWS + number) * d->room;
}

static void *thread_main(void *arg)
{
	struct zr_direct *d = arg;
	struct window *w;

	pthread_mutex_lock(&d->lock);
	char *back = room_behind(d, d->started++);
	pthread_mutex_unlock(&d->lock);
	while ((w = take_window(d)))
		write_window(w, back);

	return NULL;
}

static void start_threads(struct zr_direct *d)
{
	sigset_t old;

	zr_pool_mask(&old);
	while (d->threads < ZR_DIRECT_THREADS &&
	       !pthread_create(&d->thread[d->threads], NULL, thread_main, d))
		d->threads++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- the caller ---- */

struct zr_direct *zr_direct_open(int fd, int direct, uint64_t bytes)
{
	struct zr_direct *d = calloc(1, sizeof *d);
	uint64_t room = (bytes / PARTS / UNIT + 1) * UNIT;

	if (!d)
		return NULL;

	*d = (struct zr_direct){ .fd = fd, .direct = direct, .bad = UINT64_MAX };
	d->room = room < ZR_DIRECT_WINDOW ? (size_t)room : ZR_DIRECT_WINDOW;
	d->bytes = (ZR_DIRECT_WINDOWS + ZR_DIRECT_THREADS + 1) * d->room;
	d->memory = zr_pages_open(d->bytes);
	if (!d->memory) {
		free(d);
		return NULL;
	}

	for (int i = 0; i < ZR_DIRECT_WINDOWS; i++)
		d->window[i] = (struct window){ .d = d, .mem = d->memory + (size_t)i * d->room };
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->changed, NULL);
	start_threads(d);
	return d;
}

static void give(struct zr_direct *d)
{
	struct window *w = d->filling;

	d->filling = NULL;
	if (!w)
		return;

	pthread_mutex_lock(&d->lock);
	w->full = 1;
	d->given++;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	if (!d->threads)
		write_window(take_window(d), room_behind(d, 0));
}

static struct window *next_window(struct zr_direct *d, uint64_t at)
{
	struct window *w = &d->window[d->given % ZR_DIRECT_WINDOWS];

	pthread_mutex_lock(&d->lock);
	while (w->full)
		pthread_cond_wait(&d->changed, &d->lock);
	d->known = d->failed;
	pthread_mutex_unlock(&d->lock);
	w->at = at / UNIT * UNIT;
	w->from = w->end = (size_t)(at - w->at);
	return w;
}

int zr_direct_write(struct zr_direct *d, const void *data, size_t bytes, uint64_t at,
		    struct XXH3_state_s *hash)
{
	const char *from = data;

	for (size_t done = 0, n; done < bytes; done += n) {
		struct window *w = d->filling;
		if (w && (w->end == d->room || w->at + w->end != at + done))
			give(d);
		if (!d->filling)
			d->filling = next_window(d, at + done);

		w = d->filling;
		n = bytes - done;
		if (n > d->room - w->end)
			n = d->room - w->end;
		if (n > CACHED)
			n = CACHED;
		XXH3_64bits_update(hash, from + done, n);
		memcpy(w->mem + w->end, from + done, n);
		w->end += n;
	}

	return d->known;
}

int zr_direct_close(struct zr_direct *d, uint64_t *bad)
{
	*bad = UINT64_MAX;
	if (!d)
		return 0;

	give(d);
	pthread_mutex_lock(&d->lock);
	d->stop = 1;
	pthread_cond_broadcast(&d->changed);
	pthread_mutex_unlock(&d->lock);
	while (d->threads)
		pthread_join(d->thread[--d->threads], NULL);
	int no = d->failed;
	*bad = d->bad;
	pthread_cond_destroy(&d->changed);
	pthread_mutex_destroy(&d->lock);
	zr_pages_close(d->memory, d->bytes);
	free(d);
	return no;
}
