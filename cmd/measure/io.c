/* SPDX-License-Identifier: Apache-2.0
 *
 * io.c - requests to a disk by the offload plugin, and what threads with O_DIRECT get from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "core/session.h"

#define FILE_BYTES (256ull << 20)
#define LARGEST    (16ull << 20)
#define POSTED     4 /* requests at any time, as an update has them */
#define BLOCK      (1u << 20)
#define HUGE       (2u << 20)
#define DEPTH      32 /* threads of the limit, at most */

struct disk {
	struct zr_bench *b;
	struct zr_instance *it;
	uint64_t object;
	char *memory; /* POSTED x LARGEST */
};

enum { READ, WRITE, MIXED };

static int post(struct disk *d, int mode, uint64_t i, uint64_t bytes, uint64_t *ticket)
{
	const uint64_t at = i * bytes % FILE_BYTES;
	char *p = d->memory + i % POSTED * LARGEST;
	if (mode == WRITE || (mode == MIXED && i % 2))
		return ZR_ASK(d->it, offload, write, d->b->err, d->object, at, p, bytes, ticket);
	return ZR_ASK(d->it, offload, read, d->b->err, d->object, at, p, bytes, ticket);
}

/* Bytes per second, for so many seconds and at least `least` bytes; 0: it failed. */
static double by_plugin(struct disk *d, int mode, uint64_t bytes, uint64_t at_once, double seconds,
			uint64_t least)
{
	uint64_t ticket[POSTED], posted = 0, done = 0;

	zr_bench_meet(d->b);
	const double began = zr_now();
	double t = 0;
	while (done < posted || !posted) {
		while (posted - done < at_once && (t < seconds || posted * bytes < least)) {
			if (post(d, mode, posted, bytes, &ticket[posted % POSTED]))
				return 0;

			posted++;
		}

		if (ZR_ASK(d->it, offload, wait, d->b->err, ticket[done++ % POSTED]))
			return 0;

		t = zr_now() - began;
	}

	return (double)(done * bytes) / (zr_now() - began);
}

/* ---- the limit ------------------------------------------------------------------- */

struct thread {
	pthread_t id;
	int fd, write, number, depth;
	double until, moved;
	int failed;
};

static void *blocks(void *arg)
{
	struct thread *t = arg;

	char *p = aligned_alloc(HUGE, HUGE);
	if (!p) {
		t->failed = ENOMEM;
		return NULL;
	}

	madvise(p, HUGE, MADV_HUGEPAGE);
	memset(p, t->number + 1, BLOCK);
	for (uint64_t i = (uint64_t)t->number; zr_now() < t->until; i += (uint64_t)t->depth) {
		const off_t at = (off_t)(i * BLOCK % FILE_BYTES);
		ssize_t n = t->write ? pwrite(t->fd, p, BLOCK, at) : pread(t->fd, p, BLOCK, at);
		if (n != BLOCK) {
			t->failed = n < 0 ? errno : EIO;
			break;
		}

		t->moved += BLOCK;
	}

	free(p);
	return NULL;
}

/* Bytes per second of `depth` threads that each have one block on its way. */
static double raw(int fd, int write, int depth, double seconds)
{
	static struct thread thread[DEPTH];
	const double began = zr_now();
	double moved = 0;
	int started = 0, failed = 0;

	for (; started < depth; started++) {
		thread[started] = (struct thread){ .fd = fd,
						   .write = write,
						   .number = started,
						   .depth = depth,
						   .until = began + seconds };
		if (pthread_create(&thread[started].id, NULL, blocks, &thread[started]))
			break;
	}

	for (int i = 0; i < started; i++) {
		pthread_join(thread[i].id, NULL);
		moved += thread[i].moved;
		failed |= thread[i].failed;
	}

	return failed ? 0 : moved / (zr_now() - began);
}

/* Reading and writing at the best of several depths; zeros without O_DIRECT. */
static void limits(struct zr_bench *b, double limit[2])
{
	static const int depths[] = { 1, 4, DEPTH };
	const double at = BLOCK;
	char path[PATH_MAX];

	limit[READ] = limit[WRITE] = 0;
	snprintf(path, sizeof path, "%s/.zeroth-bench-%d", b->job->dir, (int)getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;

	unlink(path);
	if (!posix_fallocate(fd, 0, (off_t)FILE_BYTES)) {
		raw(fd, 1, DEPTH, b->seconds); /* blocks that were never written may read fast */
		for (int i = 0; i < 6; i++) {
			double rate = raw(fd, i < 3, depths[i % 3], b->seconds / 2);
			double *to = &limit[i < 3 ? WRITE : READ];
			*to = rate > *to ? rate : *to;
		}
	}

	close(fd);
	zr_bench_note(b, "limit.disk_read", &at, 1, limit[READ], 1, "B/s", 0, 1);
	zr_bench_note(b, "limit.disk_write", &at, 1, limit[WRITE], 1, "B/s", 0, 1);
}

/* ---- the plugin ------------------------------------------------------------------ */

static int requests(struct disk *d, const double limit[2])
{
	static const uint64_t sizes[] = { 65536, 1 << 20, LARGEST };
	static const char *const names[] = { "disk_read", "disk_write", "disk_mixed" };
	struct zr_bench *b = d->b;

	double rate = by_plugin(d, WRITE, LARGEST, POSTED, 0, FILE_BYTES);
	for (int i = 0; i < 9 && rate > 0; i++) {
		const double at = (double)sizes[i % 3];
		const int mode = i / 3;
		rate = by_plugin(d, mode, sizes[i % 3], POSTED, b->seconds, 0);
		zr_bench_note(b, names[mode], &at, 1, rate, 1, "B/s",
			      mode < MIXED && i % 3 == 2 ? limit[mode] : 0, i % 3 != 1);
	}

	for (int i = 0; i < 6 && rate > 0; i++) {
		const double at = (double)sizes[i / 2];
		rate = by_plugin(d, i % 2, sizes[i / 2], 1, b->seconds / 2, 0);
		zr_bench_note(b, i % 2 ? "disk_write_one" : "disk_read_one", &at, 1, rate, 1, "B/s",
			      0, i < 2);
	}

	return rate > 0 ? 0 : b->err->code;
}

static int measure_io(struct zr_bench *b)
{
	struct disk d = { .b = b, .it = &b->s->roles.offload[0] };
	double limit[2] = { 0, 0 };

	int rc = ZR_ASK(d.it, offload, make, b->err, "bench", FILE_BYTES, &d.object);
	if (rc)
		return rc;

	void *m = mmap(NULL, POSTED * LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (m == MAP_FAILED)
		return zr_no_memory(b->err);

	madvise(m, POSTED * LARGEST, MADV_HUGEPAGE); /* as the memory of a run has them */
	d.memory = m;
	memset(m, 1, POSTED * LARGEST);
	const struct zr_offload_v1 *v = d.it->vtbl;
	if (!b->rank && b->job->ranks == 1)
		limits(b, limit);
	rc = requests(&d, limit);
	zr_instance_failed(d.it, v->drain(d.it->inst), "drain", NULL);
	ZR_ASK(d.it, offload, discard, NULL, d.object);
	zr_setup_close(b->s); /* the store lets go of the memory */
	b->s = NULL;
	munmap(m, POSTED * LARGEST);
	return rc;
}

static const char *const on_disk[] = { "offload.optimizer.plugin=nvme", NULL };
const struct zr_bench_subject zr_bench_io = {
	.name = "io",
	.summary = "requests to the disk of --dir",
	.run = measure_io,
	.seconds = 0.4,
	.least_ranks = 1,
	.overrides = on_disk,
};
