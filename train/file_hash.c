/* SPDX-License-Identifier: Apache-2.0
 *
 * file_hash.c - see file_hash.h.
 */
#include "train/file_hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "train/beat.h"
#include "train/fit.h"

#define WHOLE  ((uint64_t)64 << 20) /* bytes of a file that is hashed whole */
#define HEAD   (1u << 20)           /* first bytes of a larger one that are hashed */
#define BLOCK  4096u
#define BLOCKS 64 /* of a larger one that are hashed as well */

/* ---- hashes ---- */

struct reader {
	int fd;
	uint64_t size;
	char *buf; /* [HEAD] */
	XXH3_state_t *hash;
};

/* This part of the file goes into the hash. Returns 0 or errno. */
static int hash_part(struct reader *r, uint64_t at, uint64_t n)
{
	int no = zr_read_all_at(r->fd, r->buf, (size_t)n, at);
	if (!no)
		XXH3_64bits_update(r->hash, r->buf, (size_t)n);

	return no;
}

static int hash_whole(struct reader *r)
{
	int no = 0;

	for (uint64_t at = 0; !no && at < r->size; at += HEAD) {
		no = hash_part(r, at, r->size - at < HEAD ? r->size - at : HEAD);
		zr_beat();
	}

	return no;
}

/* The places follow from the size alone, so that all ranks read the same ones. */
static int hash_samples(struct reader *r)
{
	int no = hash_part(r, 0, HEAD);
	for (uint64_t i = 0; !no && i < BLOCKS; i++) {
		uint64_t at = XXH3_64bits_withSeed(&i, sizeof i, r->size) % (r->size - BLOCK);
		no = hash_part(r, at, BLOCK);
	}

	return no;
}

void zr_file_hash_announce(const char *name, int64_t bytes)
{
	char text[32];
	zr_logf(ZR_LOG_INFO, "verify", "reads all %s of %s", zr_bytes_text((uint64_t)bytes, text),
		name);
}

/* Sets the hash of `file`, whose bytes are known. Returns 0 or errno. */
static int hash_bytes(int fd, struct zr_file_hash *file, int whole)
{
	struct reader r = {
		.fd = fd,
		.size = (uint64_t)file->bytes,
		.buf = malloc(HEAD),
		.hash = XXH3_createState(),
	};
	int no = r.buf && r.hash ? 0 : ENOMEM;

	if (!no) {
		const int large = r.size > WHOLE;
		if (large && whole)
			zr_file_hash_announce(file->name, file->bytes);
		XXH3_64bits_reset(r.hash);
		no = large && !whole ? hash_samples(&r) : hash_whole(&r);
		file->hash = XXH3_64bits_digest(r.hash);
	}

	XXH3_freeState(r.hash);
	free(r.buf);
	return no;
}

/* ---- what this process has hashed ---- */

enum { KNOWN = 64 }; /* files whose hashes are kept; a later one takes the place of the oldest */

/* The bytes that a file had at one time. */
struct state {
	dev_t device;
	ino_t inode;
	off_t bytes;
	struct timespec modified, changed;
	int whole; /* the hash is of all bytes, whatever the size */
};

/* Ranks that are threads read the same files: the first one hashes while the others wait. */
static struct {
	pthread_mutex_t lock;
	uint64_t n; /* that were ever added; number i has the place i % KNOWN */
	struct {
		struct state state;
		uint64_t hash;
	} file[KNOWN];
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int is_state(const struct state *a, const struct state *b)
{
	return a->device == b->device && a->inode == b->inode && a->bytes == b->bytes &&
	       a->whole == b->whole && a->modified.tv_sec == b->modified.tv_sec &&
	       a->modified.tv_nsec == b->modified.tv_nsec &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* With the lock. Sets the hash of `file`, known or not. Returns 0 or errno. */
static int hash_once(int fd, const struct state *state, struct zr_file_hash *file)
{
	for (uint64_t i = 0; i < known.n && i < KNOWN; i++)
		if (is_state(&known.file[i].state, state)) {
			file->hash = known.file[i].hash;
			return 0;
		}

	int no = hash_bytes(fd, file, state->whole);
	if (no)
		return no;

	known.file[known.n % KNOWN].state = *state;
	known.file[known.n++ % KNOWN].hash = file->hash;
	return 0;
}

int zr_file_hash(int fd, struct zr_file_hash *file, int whole)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;

	file->bytes = (int64_t)st.st_size;
	const struct state state = {
		.device = st.st_dev,
		.inode = st.st_ino,
		.bytes = st.st_size,
		.modified = st.st_mtim,
		.changed = st.st_ctim,
		.whole = whole,
	};
	pthread_mutex_lock(&known.lock);
	int no = hash_once(fd, &state, file);
	pthread_mutex_unlock(&known.lock);
	return no;
}
