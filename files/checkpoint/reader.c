/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - see reader.h. Entries that follow each other in the file are a batch, as many as a
 * slot has room for. A thread takes the next batch, reads it window by window, and hashes what it
 * copies from the window to the slot: with several of them the disk has a request while one hashes.
 * The caller gets the batches in their order, from the slots in turn.
 */
#include "files/checkpoint/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/pages.h"
#include "core/base/pool.h"

#define ALIGN   4096 /* of requests past the page cache */
#define SAMPLES 16

struct slot {
	char *buf;
	uint64_t room;      /* bytes of it */
	int64_t first, end; /* entries of its batch */
	uint64_t bytes;     /* that they take in buf */
	int full, rc;
	struct zr_error err;
};

struct thread {
	struct zr_reader *r;
	pthread_t id;
	XXH3_state_t *hash;
	char *window; /* bytes [at, at + bytes) of the file */
	uint64_t at, bytes;
	int refused; /* O_DIRECT did not work */
};

struct zr_reader {
	int cached;
	const struct zr_manifest *m;
	const struct zr_st *file;
	const struct zr_ckpt_entry *e;
	int64_t n;
	struct thread thread[ZR_READER_THREADS];
	struct slot slot[ZR_READER_SLOTS];

	pthread_mutex_t lock; /* of what follows, and of slot.full */
	pthread_cond_t changed;
	int64_t next;         /* entry that no batch has yet */
	int64_t taken, given; /* batches, to threads and to the caller */
	int stop;
};

/* ---- the file ---- */

/* Whether it lies in the page cache, judged by some places in it. */
static int is_cached(const struct zr_st *file)
{
	char byte;
	struct iovec to = { &byte, 1 };

	for (uint64_t i = 0; i < SAMPLES; i++)
		if (preadv2(file->fd, &to, 1, (off_t)(file->bytes / SAMPLES * i), RWF_NOWAIT) != 1)
			return 0;

	return 1;
}

/* Where the file system has no O_DIRECT nothing changes. */
static void set_direct(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);
	fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT);
}

/* Reads what is at `at` and behind it, but not behind `end`, into the window. 0 or errno. */
static int fill(struct thread *t, uint64_t at, uint64_t end)
{
	uint64_t want, ask;

	t->at = at / ALIGN * ALIGN;
	want = end - t->at;
	if (want > ZR_READER_WINDOW)
		want = ZR_READER_WINDOW;
	ask = (want + ALIGN - 1) / ALIGN * ALIGN;
	for (t->bytes = 0; t->bytes < want;) {
		ssize_t n = pread(t->r->file->fd, t->window + t->bytes, ask - t->bytes,
				  (off_t)(t->at + t->bytes));
		if (n > 0) {
			t->bytes += (uint64_t)n;
		} else if (n < 0 && errno == EINVAL && !t->refused) {
			set_direct(t->r->file->fd, 0);
			t->refused = 1;
		} else if (n == 0 || errno != EINTR) {
			return n < 0 ? errno : ENODATA;
		}
	}

	return 0;
}

/* ---- threads ---- */

static uint64_t room_of(const struct zr_ckpt_entry *e)
{
	uint64_t whole = (uint64_t)e->blocks * ZR_BLOCK * 4;
	return ((whole > e->bytes ? whole : e->bytes) + ALIGN - 1) / ALIGN * ALIGN;
}

/* end: of the batch in the file. */
static int read_entry(struct thread *t, const struct zr_ckpt_entry *e, uint64_t end, char *to,
		      struct zr_error *err)
{
	const struct zr_st *file = t->r->file;
	struct zr_ckpt_found f;
	int no = 0, rc = zr_ckpt_find(t->r->m, file, e, &f, err);
	if (rc)
		return rc;

	XXH3_64bits_reset(t->hash);
	for (uint64_t done = 0; !no && done < e->bytes;) {
		uint64_t at = file->data + e->at + done, n = e->bytes - done;
		if (at < t->at || at >= t->at + t->bytes)
			no = fill(t, at, end);
		if (no)
			return zr_st_failed(file, f.tensor, no, err);

		if (n >= t->at + t->bytes - at)
			n = t->at + t->bytes - at;
		XXH3_64bits_update(t->hash, t->window + (at - t->at), n);
		memcpy(to + done, t->window + (at - t->at), n);
		done += n;
	}

	memset(to + e->bytes, 0, room_of(e) - e->bytes);
	return zr_ckpt_same(file, &f, XXH3_64bits_digest(t->hash), err);
}

static int read_batch(struct thread *t, struct slot *s)
{
	const struct zr_ckpt_entry *e = t->r->e + s->first, *last = t->r->e + s->end - 1;
	uint64_t end = t->r->file->data + last->at + last->bytes;
	int rc = 0;

	if (s->bytes > s->room) {
		zr_pages_close(s->buf, s->room);
		s->room = s->bytes;
		if (s->room < ZR_READER_SLOT)
			s->room = ZR_READER_SLOT;
		s->buf = zr_pages_open(s->room);
	}

	if (!s->buf) {
		s->room = 0;
		return zr_err(&s->err, ZR_ENOMEM, "out of memory for an entry of %llu bytes",
			      (unsigned long long)e->bytes);
	}

	t->bytes = 0;
	for (char *to = s->buf; !rc && e <= last; to += room_of(e++))
		rc = read_entry(t, e, end, to, &s->err);

	return rc;
}

/* The next batch with a slot for it; NULL: there is none. */
static struct slot *take_slot(struct zr_reader *r)
{
	struct slot *s = NULL;

	pthread_mutex_lock(&r->lock);
	while (!r->stop && r->next < r->n && r->taken - r->given == ZR_READER_SLOTS)
		pthread_cond_wait(&r->changed, &r->lock);
	if (!r->stop && r->next < r->n) {
		const struct zr_ckpt_entry *e = &r->e[r->next];
		s = &r->slot[r->taken++ % ZR_READER_SLOTS];
		s->first = r->next;
		s->bytes = 0;
		s->err = (struct zr_error){ 0 };
		do
			s->bytes += room_of(e++);
		while (e < r->e + r->n && e->at == e[-1].at + e[-1].bytes &&
		       s->bytes < ZR_READER_SLOT && room_of(e) <= ZR_READER_SLOT - s->bytes);
		s->end = r->next = e - r->e;
	}

	pthread_mutex_unlock(&r->lock);
	return s;
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct slot *s;
	while ((s = take_slot(t->r))) {
		int rc = read_batch(t, s);
		pthread_mutex_lock(&t->r->lock);
		s->rc = rc;
		s->full = 1;
		pthread_cond_broadcast(&t->r->changed);
		pthread_mutex_unlock(&t->r->lock);
	}

	return NULL;
}

/* Their number; *no: why there are no more. */
static int start_threads(struct zr_reader *r, int *no)
{
	sigset_t old;
	int n = 0;

	zr_pool_mask(&old);
	while (n < ZR_READER_THREADS &&
	       !(*no = pthread_create(&r->thread[n].id, NULL, thread_main, &r->thread[n])))
		n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return n;
}

static void end_threads(struct zr_reader *r, int n)
{
	pthread_mutex_lock(&r->lock);
	r->stop = 1;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	while (n)
		pthread_join(r->thread[--n].id, NULL);
}

/* ---- the caller ---- */

static struct slot *receive(struct zr_reader *r)
{
	struct slot *s = &r->slot[r->given % ZR_READER_SLOTS];

	pthread_mutex_lock(&r->lock);
	while (!s->full)
		pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
	return s;
}

static void give_back(struct zr_reader *r, struct slot *s)
{
	pthread_mutex_lock(&r->lock);
	s->full = 0;
	r->given++;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
}

static void begin(struct zr_reader *r, const struct zr_manifest *m, const struct zr_st *file,
		  const struct zr_ckpt_entry *e, int64_t n)
{
	r->m = m, r->file = file, r->e = e, r->n = n;
	r->next = r->taken = r->given = 0;
	r->stop = 0;
	for (int i = 0; i < ZR_READER_SLOTS; i++)
		r->slot[i].full = 0;
	for (int i = 0; i < ZR_READER_THREADS; i++)
		r->thread[i].refused = 0;
	set_direct(file->fd, !r->cached && !is_cached(file));
}

int zr_reader_run(struct zr_reader *r, const struct zr_manifest *m, const struct zr_st *file,
		  const struct zr_ckpt_entry *e, int64_t n, zr_reader_fn *fn, void *arg,
		  struct zr_error *err)
{
	begin(r, m, file, e, n);
	int no, threads = start_threads(r, &no);
	int rc = 0;
	if (!threads)
		rc = zr_err(err, ZR_ENOMEM,
			    "%s: no thread to read it: %s: too little "
			    "memory, or too many threads",
			    file->path, strerror(no));
	for (int64_t i = 0; !rc && i < n;) {
		struct slot *s = receive(r);
		if (s->rc)
			rc = zr_err(err, s->rc, "%s", s->err.text);
		else
			rc = 0;
		for (char *data = s->buf; !rc && i < s->end; data += room_of(&e[i++]))
			rc = fn(arg, &e[i], data, err);
		give_back(r, s);
	}

	end_threads(r, threads);
	set_direct(file->fd, 0);
	return rc;
}

struct zr_reader *zr_reader_new(int cached)
{
	struct zr_reader *r = calloc(1, sizeof *r);
	int bad = 0;

	if (!r)
		return NULL;

	r->cached = cached;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	for (int i = 0; i < ZR_READER_THREADS; i++) {
		struct thread *t = &r->thread[i];
		*t = (struct thread){ .r = r,
				      .hash = XXH3_createState(),
				      .window = zr_pages_open(ZR_READER_WINDOW) };
		bad |= !t->hash || !t->window;
	}

	if (bad)
		zr_reader_free(r);

	return bad ? NULL : r;
}

void zr_reader_free(struct zr_reader *r)
{
	if (!r)
		return;

	for (int i = 0; i < ZR_READER_THREADS; i++) {
		XXH3_freeState(r->thread[i].hash);
		zr_pages_close(r->thread[i].window, ZR_READER_WINDOW);
	}

	for (int i = 0; i < ZR_READER_SLOTS; i++)
		zr_pages_close(r->slot[i].buf, r->slot[i].room);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
