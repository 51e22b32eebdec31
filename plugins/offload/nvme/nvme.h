/* SPDX-License-Identifier: Apache-2.0
 *
 * nvme.h - the plugin offload/nvme: every object is a file in a directory of its own, moved by one
 * thread.
 *
 * The caller's thread posts requests (queue.c). The I/O thread (thread.c) cuts them into chunks of
 * at most block_size (chunk.c) and moves these through io_uring, up to queue_depth at once
 * (ring.c), or one by one with pread and pwrite where there is no io_uring (plain.c); what became
 * of every transfer comes back through nv_settle.
 *
 *   N1 Files are read and written in whole units of `unit` bytes (4096, or more where direct I/O
 *      wants that). What covers a unit in part goes through one bounce buffer, one chunk at a time.
 *   N2 So two chunks in flight never share a unit: neighbours that share one are both partial, and
 *      only one of them is in flight.
 *   N3 A file is one unit longer than its data, and that unit is never written: if somebody
 *      truncates the file, no write of ours makes it complete again, and the size after a transfer
 *      shows it.
 *   N4 A run never opens a file of another run: its directory has a file that is locked as long as
 *      the process lives.
 */
#ifndef ZR_OFFLOAD_NVME_H
#define ZR_OFFLOAD_NVME_H

#include <limits.h>
#include <pthread.h>
#include <sys/types.h>
#include <zeroth/offload.h>

#define NV_UNIT     4096u
#define NV_INFLIGHT 128    /* requests */
#define NV_LOCK     "lock" /* the locked file */
#define NV_DATA     ".obj" /* files of objects end like this */

struct nv_opts {
	const char *path;
	uint64_t block_size;
	int64_t queue_depth, buffer_count;
	uint8_t pipeline_read, pipeline_write, checksums;
};

struct nv_object {
	struct nv_object *next;
	int fd;
	uint32_t outstanding; /* requests */
	uint64_t bytes;
	uint64_t room; /* of the file: whole units and one more (N3) */
	nlink_t links; /* of the file when it was made; 0 where the file system does not count */
	uint64_t *sum; /* XXH3 of every unit, or NULL */
	char name[80];
};

enum { NV_FREE, NV_POSTED, NV_DONE };

struct nv_request {
	struct nv_object *object;
	uint64_t off, bytes;
	char *mem;
	int write;
	struct nv_request *next; /* in a list of free, posted or queued ones */
	uint64_t round;          /* tells tickets of one slot apart */

	/* of the I/O thread until done */
	uint64_t number; /* counts requests */
	uint64_t cut;    /* bytes that became chunks */
	int queued;      /* in a queue of the I/O thread */
	int open;        /* chunks in flight */

	int state; /* under the lock */
	int code;
	char text[512];
};

/* A stretch of a file on its way. [lo, hi): the request's bytes in it; [at, at + bytes): the units
 * that hold them. */
struct nv_chunk {
	struct nv_request *request; /* NULL: free */
	struct nv_chunk *next;      /* free */
	uint64_t lo, hi, at;
	uint32_t bytes, done;
	int write;   /* this pass; a partial write reads first */
	int partial; /* mem is the bounce buffer */
	char *mem;
};

struct zr_inst {
	const struct zr_host *h;
	const struct nv_opts *o;

	/* dir.c, file.c */
	int parent, dir, lock;
	char name[64];            /* of the directory in o->path */
	char path[PATH_MAX];      /* both, for messages */
	uint64_t unit, mem_align; /* N1; of addresses */
	int direct, told_unreserved;
	uint32_t made;
	struct nv_object *objects;

	/* queue.c, thread.c */
	pthread_t thread;
	int running;
	pthread_mutex_t mutex; /* posted, free_requests, state, code, text, broken */
	pthread_cond_t done;
	int event, stop; /* eventfd that wakes the I/O thread; stop under the lock */
	int broken;
	char broken_text[256];
	struct nv_request request[NV_INFLIGHT], *free_requests, *posted, **posted_end;

	/* chunk.c: of the I/O thread */
	struct nv_request *queue[2], **queue_end[2]; /* reads, writes */
	uint64_t accepted;
	int turn;
	struct nv_chunk *chunks, *free_chunks;
	char *bounce;
	void *bounce_mem;
	int bounce_busy;

	/* ring.c */
	struct nv_ring *ring; /* NULL: no io_uring */
};

/* ---- dir.c: the directory of this instance --------------------------------------- */

int nv_dir_open(struct zr_inst *d); /* removes those of dead runs, too */
/* after the last file is gone; also after an nv_dir_open that failed */
void nv_dir_close(struct zr_inst *d);

/* ---- file.c: objects as files ---------------------------------------------------- */

int nv_probe(struct zr_inst *d); /* direct, unit, mem_align */
uint64_t nv_free_bytes(const struct zr_inst *d);
int nv_make(struct zr_inst *d, const char *key, uint64_t bytes, uint64_t *object);
int nv_discard(struct zr_inst *d, uint64_t object);
static inline struct nv_object *nv_object(uint64_t object)
{
	return (struct nv_object *)(uintptr_t)object;
}
/* After a request was moved: fails it if the file is not what it was. */
void nv_examine(struct zr_inst *d, struct nv_request *r);

/* ---- thread.c: the I/O thread ---------------------------------------------------- */

void nv_init(struct zr_inst *d); /* before all else */
int nv_start(struct zr_inst *d);
void nv_stop(struct zr_inst *d); /* after nv_init, whatever failed since */

/* ---- request.c ------------------------------------------------------------------- */

/* Fails it; the first reason counts. */
__attribute__((format(printf, 2, 3))) void nv_refuse(struct nv_request *r, const char *format, ...);

/* ---- queue.c: requests ----------------------------------------------------------- */

/* object, off, bytes, mem, write */
int nv_post(struct zr_inst *d, const struct nv_request *want, uint64_t *ticket);
int nv_test(struct zr_inst *d, uint64_t ticket);
int nv_wait(struct zr_inst *d, uint64_t ticket);
int nv_drain(struct zr_inst *d);
void nv_wake(struct zr_inst *d); /* the I/O thread */
/* The I/O thread: */
int nv_accept(struct zr_inst *d); /* takes posted requests; 1: stop */
void nv_finish(struct zr_inst *d, struct nv_request *r);
/* ends everything posted, now and later */
void nv_break(struct zr_inst *d, const char *what, int error);

/* ---- chunk.c: the I/O thread ----------------------------------------------------- */

int nv_chunks(struct zr_inst *d);
struct nv_chunk *nv_next(struct zr_inst *d); /* to be moved, or NULL: none can be now */
/* `moved` bytes, or -errno, of the rest of c. 1: c has more to move; 0: c is over. */
int nv_settle(struct zr_inst *d, struct nv_chunk *c, int moved);

/* ---- ring.c, plain.c: how chunks move -------------------------------------------- */

/* NULL, or why there is none */
const char *nv_ring_open(struct zr_inst *d, char *room, size_t size);
void nv_ring_close(struct zr_inst *d);
void nv_ring_run(struct zr_inst *d);
void nv_plain_run(struct zr_inst *d);

#endif
