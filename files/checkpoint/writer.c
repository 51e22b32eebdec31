/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.c - see writer.h. An entry is TODO, BUSY while a thread reads it from the session, then
 * DONE: its values are on their way to the file, and may change in the session. The training thread
 * that is about to change a TODO entry copies it, if it may, and makes it COPIED: the writer then
 * takes it from the copy. Else the writer does it next.
 */
#include "files/checkpoint/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/memory/subgroup.h"
#include "core/persistent.h"
#include "files/direct/direct.h"

#define CHUNK 256 /* blocks that are fetched at a time: 2 MiB of fp32 */

enum { TODO, BUSY, COPIED, DONE };

struct zr_ckpt_writer {
	struct zr_session *s;
	const struct zr_manifest *m;
	const char *dir;
	char path[PATH_MAX]; /* of the file, for messages */
	const float *losses;
	float *persistent; /* a copy: the next step may renew the numbers before they are written */
	struct zr_ckpt_entry *entry;
	uint64_t *hash;
	int64_t n;
	int fd, direct; /* direct: the file with O_DIRECT, or -1 */
	struct zr_direct *out;
	size_t header; /* bytes before the data */
	uint64_t bytes, header_hash;
	int failed;           /* errno */
	struct zr_error why;  /* of what reads back as something else */
	struct zr_error tier; /* of what the state lies in */
	char *chunk, *work;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	uint8_t *state;
	char **copy;
	uint64_t copied; /* bytes in copies */
	int64_t wanted;  /* the training thread waits for it; -1: it does not */
};

/* ---- the header ---- */

/* With the hashes as they are: its length does not depend on them. */
static char *make_header(const struct zr_ckpt_writer *w, size_t *bytes)
{
	struct zr_st_tensor *t = malloc(((size_t)w->n + 1) * sizeof *t);
	char(*name)[ZR_ENTRY_NAME] = malloc(((size_t)w->n + 1) * sizeof *name), hex[17],
	*out = NULL;
	json_t *meta = json_pack("{s:s}", "format", "zeroth checkpoint");

	for (int64_t i = 0; t && name && meta && i < w->n; i++) {
		t[i] = zr_entry_tensor(w->m, &w->entry[i], name[i]);
		zr_json_put(&meta, name[i], json_string(zr_hex(w->hash[i], hex)));
	}

	if (t && name && meta)
		out = zr_st_header(t, w->n, meta, bytes);
	json_decref(meta);
	free(name);
	free(t);
	return out;
}

static int write_header(struct zr_ckpt_writer *w)
{
	size_t bytes;
	char *header = make_header(w, &bytes);
	if (!header)
		return ENOMEM;

	w->header_hash = XXH3_64bits(header, bytes);
	int no = zr_write_all_at(w->fd, header, bytes, 0);
	free(header);
	return no;
}

/* ---- entries ---- */

typedef int sink(struct zr_ckpt_writer *w, const struct zr_ckpt_entry *e, uint64_t at,
		 const void *data, uint64_t n, void *arg);

/* What an entry of no one tensor holds. */
static const float *own_values(const struct zr_ckpt_writer *w, const struct zr_ckpt_entry *e)
{
	if (e->tensor == ZR_ENTRY_PERSISTENT)
		return w->persistent;
	return w->losses;
}

/* Hands an entry's bytes to fn, from its start to its end. chunk, work: room for CHUNK blocks of
 * fp32. */
static int each_chunk(struct zr_ckpt_writer *w, const struct zr_ckpt_entry *e, char *chunk,
		      char *work, sink *fn, void *arg)
{
	int no = 0;
	if (e->tensor < 0)
		return fn(w, e, 0, own_values(w, e), e->bytes, arg);

	for (int64_t at = 0; !no && at < e->blocks; at += CHUNK) {
		int64_t n = e->blocks - at;
		if (n > CHUNK)
			n = CHUNK;
		uint64_t from = zr_entry_offset(w->s, e, at), to = zr_entry_offset(w->s, e, at + n);
		const void *data = zr_entry_get(w->s, e, at, n, chunk, work, &w->tier);
		if (data)
			no = fn(w, e, from, data, to - from, arg);
		else
			no = EIO;
	}

	return no;
}

static int to_file(struct zr_ckpt_writer *w, const struct zr_ckpt_entry *e, uint64_t at,
		   const void *data, uint64_t n, void *arg)
{
	return zr_direct_write(w->out, data, n, w->header + e->at + at, arg);
}

static int to_copy(struct zr_ckpt_writer *w, const struct zr_ckpt_entry *e, uint64_t at,
		   const void *data, uint64_t n, void *arg)
{
	(void)w, (void)e;
	memcpy((char *)arg + at, data, n);
	return 0;
}

static int write_entry(struct zr_ckpt_writer *w, int64_t i, const char *copy, XXH3_state_t *hash)
{
	const struct zr_ckpt_entry *e = &w->entry[i];

	XXH3_64bits_reset(hash);
	int no;
	if (copy)
		no = to_file(w, e, 0, copy, e->bytes, hash);
	else
		no = each_chunk(w, e, w->chunk, w->work, to_file, hash);
	w->hash[i] = XXH3_64bits_digest(hash);
	return no;
}

/* All data is written and read back; `bad`: or where it differs, in which entry. */
static void end_data(struct zr_ckpt_writer *w)
{
	const struct zr_ckpt_entry *e = w->entry, *last = e + w->n - 1;
	char name[ZR_ENTRY_NAME];
	uint64_t bad;
	int no = zr_direct_close(w->out, &bad);

	pthread_mutex_lock(&w->lock);
	if (!w->failed)
		w->failed = no;
	pthread_mutex_unlock(&w->lock);
	if (bad == UINT64_MAX)
		return;

	while (e < last && w->header + e[1].at <= bad)
		e++;
	zr_entry_tensor(w->m, e, name);
	zr_err(&w->why, ZR_EIO, "%s: tensor %s", w->path, name);
}

/* Takes the next entry that is to be written, wanted ones first; -1: none is left. One that is BUSY
 * is being copied. */
static int64_t take_entry(struct zr_ckpt_writer *w, int64_t *next, char **copy)
{
	for (;;) {
		while (*next < w->n && w->state[*next] == DONE)
			++*next;
		if (*next == w->n)
			return -1;

		int64_t i;
		if (w->wanted >= 0 && w->state[w->wanted] == TODO)
			i = w->wanted;
		else
			i = *next;
		if (w->state[i] != BUSY) {
			*copy = w->copy[i];
			w->state[i] = *copy ? DONE : BUSY;
			return i;
		}

		pthread_cond_wait(&w->changed, &w->lock);
	}
}

static void write_entries(struct zr_ckpt_writer *w, XXH3_state_t *hash)
{
	int64_t next = 0, i;
	char *copy;

	pthread_mutex_lock(&w->lock);
	while ((i = take_entry(w, &next, &copy)) >= 0) {
		int failed = w->failed;
		pthread_mutex_unlock(&w->lock);
		if (!failed)
			failed = write_entry(w, i, copy, hash);
		pthread_mutex_lock(&w->lock);
		if (!w->failed)
			w->failed = failed;
		w->state[i] = DONE;
		if (copy)
			w->copied -= w->entry[i].bytes;
		free(copy);
		w->copy[i] = NULL;
		pthread_cond_broadcast(&w->changed);
	}

	pthread_mutex_unlock(&w->lock);
}

/* By the way that going on takes: the file by its name, its header, and the hashes that the data
 * was found to have. */
static void read_header(struct zr_ckpt_writer *w)
{
	int32_t rank = w->s->setup->facts.process.rank;
	struct zr_ckpt_found f;
	struct zr_st file;

	w->m->file[rank] = (struct zr_ckpt_file){ w->bytes, w->header_hash };
	int rc = zr_ckpt_open(w->m, w->dir, rank, &file, &w->why);
	if (rc)
		return;

	for (int64_t i = 0; !rc && i < w->n; i++) {
		rc = zr_ckpt_find(w->m, &file, &w->entry[i], &f, &w->why);
		if (!rc)
			rc = zr_ckpt_same(&file, &f, w->hash[i], &w->why);
	}

	zr_st_close(&file);
}

void zr_writer_run(struct zr_ckpt_writer *w)
{
	XXH3_state_t *hash = XXH3_createState();
	if (!hash)
		w->failed = ENOMEM;
	write_entries(w, hash);
	end_data(w);
	if (!w->failed)
		w->failed = write_header(w);
	if (!w->failed && fsync(w->fd))
		w->failed = errno;
	if (!w->failed)
		read_header(w);
	XXH3_freeState(hash);
}

/* ---- the training thread ---- */

static int32_t unit_of(const struct zr_ckpt_writer *w, int64_t i)
{
	if (w->entry[i].tensor < 0)
		return INT32_MAX;

	return w->m->layout.tensor[w->entry[i].tensor].unit;
}

static int64_t block_of(const struct zr_ckpt_writer *w, int64_t i)
{
	return w->m->layout.tensor[w->entry[i].tensor].offset / ZR_BLOCK + w->entry[i].first;
}

/* Number of the first entry that ends behind a block of a unit. */
static int64_t first_behind(const struct zr_ckpt_writer *w, int32_t unit, int64_t block)
{
	int64_t lo = 0, hi = w->n;
	while (lo < hi) {
		int64_t mid = (lo + hi) / 2;
		int32_t u = unit_of(w, mid);
		if (u < unit || (u == unit && block_of(w, mid) + w->entry[mid].blocks <= block))
			lo = mid + 1;
		else
			hi = mid;
	}

	return lo;
}

static int overlaps(const struct zr_ckpt_writer *w, int64_t i, const struct zr_subgroup *p)
{
	return i < w->n && unit_of(w, i) == p->unit && block_of(w, i) < p->first + p->n;
}

/* Without memory for a copy the entry is what it was. */
static void copy_entry(struct zr_ckpt_writer *w, int64_t i)
{
	const struct zr_ckpt_entry *e = &w->entry[i];
	char *copy = malloc(e->bytes), *work = malloc(2 * CHUNK * ZR_BLOCK * 4);

	w->state[i] = BUSY;
	w->copied += e->bytes;
	pthread_mutex_unlock(&w->lock);
	int no = ENOMEM;
	if (copy && work)
		no = each_chunk(w, e, work, work + CHUNK * ZR_BLOCK * 4, to_copy, copy);
	free(work);
	pthread_mutex_lock(&w->lock);
	if (no) {
		free(copy);
		w->copied -= e->bytes;
	}

	w->copy[i] = no ? NULL : copy;
	w->state[i] = no ? TODO : COPIED;
	pthread_cond_broadcast(&w->changed);
}

static void secure(struct zr_ckpt_writer *w, int64_t i)
{
	if (w->state[i] == TODO && w->copied + w->entry[i].bytes <= ZR_CKPT_COPIES)
		copy_entry(w, i);
	while (w->state[i] == TODO || w->state[i] == BUSY) {
		w->wanted = i;
		pthread_cond_wait(&w->changed, &w->lock);
	}

	w->wanted = -1;
}

double zr_writer_before_update(struct zr_ckpt_writer *w, const struct zr_subgroup *p)
{
	double start = zr_now();

	pthread_mutex_lock(&w->lock);
	for (int64_t i = first_behind(w, p->unit, p->first); overlaps(w, i, p); i++)
		secure(w, i);
	pthread_mutex_unlock(&w->lock);
	return zr_now() - start;
}

void zr_writer_stop(struct zr_ckpt_writer *w)
{
	pthread_mutex_lock(&w->lock);
	if (!w->failed)
		w->failed = ECANCELED;
	pthread_mutex_unlock(&w->lock);
}

/* ---- opening and closing ---- */

static float *copy_persistent(const struct zr_session *s)
{
	const size_t n = (size_t)s->setup->facts.layout.persistent;
	float *copy = malloc((n + 1) * sizeof *copy);

	if (copy && n)
		memcpy(copy, zr_persistent_at(s), n * sizeof *copy);
	return copy;
}

static int allocate(struct zr_ckpt_writer *w)
{
	w->hash = calloc((size_t)w->n + 1, sizeof *w->hash);
	w->state = calloc((size_t)w->n + 1, 1);
	w->copy = calloc((size_t)w->n + 1, sizeof *w->copy);
	w->chunk = aligned_alloc(4096, CHUNK * ZR_BLOCK * 4);
	w->work = aligned_alloc(4096, CHUNK * ZR_BLOCK * 4);
	w->persistent = copy_persistent(w->s);
	if (w->hash && w->state && w->copy && w->chunk && w->work && w->persistent)
		return 0;

	return -1;
}

static void release_writer(struct zr_ckpt_writer *w)
{
	for (int64_t i = 0; w->copy && i < w->n; i++)
		free(w->copy[i]);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	void *const own[] = { w->entry, w->hash, w->state,      w->copy,
			      w->chunk, w->work, w->persistent, w };
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		free(own[i]);
}

/* Makes the file, once to be written through the page cache and, where that is possible, once past
 * it. Returns an errno. */
static int create_file(struct zr_ckpt_writer *w, const char *name)
{
	const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
	int at = zr_ckpt_dir(w->dir), no = 0;

	if (at >= 0)
		w->fd = openat(at, name, flags | O_CREAT | O_EXCL, 0666);
	if (w->fd < 0)
		no = errno;
	else
		w->direct = openat(at, name, flags | O_DIRECT);
	zr_ckpt_close(at);
	return no;
}

/* Space is taken at once where the file system can: what does not fit is known before anything is
 * written. Returns an errno. */
static int open_file(struct zr_ckpt_writer *w)
{
	char *header = make_header(w, &w->header), name[ZR_CKPT_NAME];
	if (!header)
		return ENOMEM;

	free(header);
	w->bytes = w->header;
	if (w->n)
		w->bytes += w->entry[w->n - 1].at + w->entry[w->n - 1].bytes;
	zr_ckpt_file_name(w->s->setup->facts.process.rank, w->m->world, name);
	if (snprintf(w->path, sizeof w->path, "%s/%s", w->dir, name) >= (int)sizeof w->path)
		return ENAMETOOLONG;

	int no = create_file(w, name);
	if (no)
		return no;
	if (fallocate(w->fd, 0, 0, (off_t)w->bytes) && errno != EOPNOTSUPP && errno != ENOSYS &&
	    errno != EINTR)
		return errno;

	w->out = zr_direct_open(w->fd, w->direct, w->bytes);
	return w->out ? 0 : ENOMEM;
}

int zr_writer_open(struct zr_session *s, const struct zr_manifest *m, const char *dir,
		   const float *losses, struct zr_ckpt_writer **out, struct zr_error *err)
{
	struct zr_ckpt_writer *w = calloc(1, sizeof *w);
	if (!w)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", dir);

	*w = (struct zr_ckpt_writer){
		.s = s, .m = m, .dir = dir, .losses = losses, .fd = -1, .direct = -1, .wanted = -1
	};
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->entry = zr_entries(m, s->setup->facts.process.rank, &w->n);
	int no = ENOMEM;
	if (w->entry && !allocate(w))
		no = open_file(w);
	if (no) {
		zr_err(err, ZR_EIO, "%s: cannot write: %s", *w->path ? w->path : dir, strerror(no));
		zr_ckpt_close(w->direct);
		zr_ckpt_close(w->fd);
		release_writer(w);
		return ZR_EIO;
	}

	*out = w;
	return 0;
}

void zr_writer_close(struct zr_ckpt_writer *w, struct zr_ckpt_word *result)
{
	struct zr_error e = { 0 };

	zr_ckpt_close(w->direct);
	if (close(w->fd) && !w->failed)
		w->failed = errno;
	if (w->why.code)
		zr_err(&e, ZR_EIO, "what was written does not read back: %s", w->why.text);
	else if (w->tier.code)
		e = w->tier;
	else if (w->failed)
		zr_err(&e, ZR_EIO, "%s: cannot write: %s", w->path, strerror(w->failed));
	if (e.code)
		zr_ckpt_say(result, &e);
	result->bytes = (int64_t)w->bytes;
	result->hash = (int64_t)w->header_hash;
	release_writer(w);
}
