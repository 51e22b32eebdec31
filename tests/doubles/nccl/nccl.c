/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.c - the double of NCCL; see double.h. A collective is what each rank sends to and receives
 * from each other, all at once, with sums at the end; it adds in descending order of ranks, as no
 * other does. A rank that is gone is not noticed, as between GPUs of a machine.
 */
#define _GNU_SOURCE
#include "double.h"

#include <fcntl.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RANKS  16 /* of a communicator at most */
#define SPLITS 16
#define BOX    (32u << 10)
#define MOVES  4096 /* of a group of calls at most */

/* Bytes on their way from one rank to another: put - got of them are in data. */
struct box {
	_Atomic uint64_t put, got;
	char data[BOX];
};

struct choice {
	_Atomic int made;
	int color, key;
};

struct area {
	_Atomic int came, leaving;
	struct choice choice[SPLITS][RANKS];
	struct box box[RANKS][RANKS]; /* from, to */
};

struct double_comm {
	char name[96];
	int n, rank;
	int splits, nonblocking;
	struct area *area;
	struct double_comm *made; /* by a split that is under way */
	int finalizing;
	_Atomic int aborted, users;
};

/* What a rank sends to a peer or receives from it. */
struct move {
	char *at;
	uint64_t bytes, done;
	int peer, receives;
};

/* An addition at the end: to = sum of n arrays. */
struct sum {
	char *to, *from;
	uint64_t n;
	ncclDataType_t type;
};

struct group {
	struct double_comm *comm;
	int n_moves, n_sums;
	struct move *move;
	struct sum *sum;
};

static _Thread_local struct group *open_group;
static _Thread_local cudaStream_t open_stream;
static _Thread_local int depth;

static void check_left(const struct double_comm *c);
static void forget(const struct double_comm *c);

const char *ncclGetErrorString(ncclResult_t e)
{
	return e == ncclInvalidUsage ? "invalid usage" : "an error of the double";
}

const char *ncclGetLastError(ncclComm_t comm)
{
	(void)comm;
	return "no more is known";
}

ncclResult_t ncclGetVersion(int *version)
{
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

/* ---- communicators --------------------------------------------------------------- */

static void leave_comm(struct double_comm *c)
{
	if (atomic_fetch_sub(&c->users, 1) != 1)
		return;
	if (c->area)
		munmap(c->area, sizeof *c->area);
	shm_unlink(c->name);
	free(c);
}

/* The area of that name, which all of its ranks make; who comes last takes the name away. */
static ncclResult_t join(struct double_comm *c, int n, int rank)
{
	int fd = shm_open(c->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (n > RANKS || fd < 0 || ftruncate(fd, sizeof *c->area))
		return ncclSystemError;

	void *p = mmap(NULL, sizeof *c->area, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return ncclSystemError;

	c->area = p;
	c->n = n;
	c->rank = rank;
	if (atomic_fetch_add(&c->area->came, 1) + 1 == n)
		shm_unlink(c->name);
	return ncclInProgress;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	static _Atomic int made;
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	snprintf(id->internal, sizeof id->internal, "/double-of-nccl-%d-%d-%ld", (int)getpid(),
		 atomic_fetch_add(&made, 1), t.tv_nsec);
	return ncclSuccess;
}

static struct double_comm *new_comm(const ncclConfig_t *config)
{
	struct double_comm *c = calloc(1, sizeof *c);
	if (!c)
		abort();
	atomic_store(&c->users, 1);
	c->nonblocking = config && config->blocking == 0;
	return c;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	struct double_comm *c = *comm = new_comm(config);
	snprintf(c->name, sizeof c->name, "%.90s", id.internal);
	return join(c, n, rank);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int rank, int n_ids,
				      ncclUniqueId *ids, ncclConfig_t *config)
{
	for (int i = 0; i < n_ids; i++)
		if (strncmp(ids[i].internal, "/double-of-nccl-", 16) ||
		    (i && !strcmp(ids[i].internal, ids[0].internal)))
			return ncclInvalidArgument;
	return ncclCommInitRankConfig(comm, n, ids[0], rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
			   ncclConfig_t *config)
{
	if (comm->splits == SPLITS)
		return ncclInvalidUsage;

	struct choice *own = &comm->area->choice[comm->splits++][comm->rank];
	own->color = color;
	own->key = key;
	atomic_store(&own->made, 1);
	*made = NULL;
	if (color == NCCL_SPLIT_NOCOLOR)
		return ncclSuccess;

	*made = comm->made = new_comm(config);
	snprintf(comm->made->name, sizeof comm->made->name, "%.60s.%d.%d", comm->name, comm->splits,
		 color);
	return ncclSuccess;
}

/* Once all have chosen, those of a color are the ranks of the new one, by their keys. */
static ncclResult_t end_split(struct double_comm *c)
{
	struct choice *choice = c->area->choice[c->splits - 1], *own = &choice[c->rank];
	int n = 0, rank = 0;
	for (int r = 0; r < c->n; r++)
		if (!atomic_load(&choice[r].made))
			return ncclInProgress;
	for (int r = 0; r < c->n; r++) {
		n += choice[r].color == own->color;
		rank += choice[r].color == own->color &&
			(choice[r].key < own->key || (choice[r].key == own->key && r < c->rank));
	}

	struct double_comm *made = c->made;
	c->made = NULL;
	ncclResult_t e = join(made, n, rank);
	return e == ncclInProgress ? ncclSuccess : e;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *e)
{
	const int came = atomic_load(&c->area->came);
	*e = ncclSuccess;
	if (came < c->n)
		*e = ncclInProgress;
	else if (c->finalizing && atomic_load(&c->area->leaving) < c->n)
		*e = ncclInProgress;
	else if (c->made)
		*e = end_split(c);
	return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
	check_left(c);
	c->finalizing = 1;
	atomic_fetch_add(&c->area->leaving, 1);
	return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
	leave_comm(c);
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
	atomic_store(&c->aborted, 1);
	forget(c);
	leave_comm(c);
	return ncclSuccess;
}

/* ---- registered memory ----------------------------------------------------------- */

/* Of all communicators; comm NULL: free. */
static struct range {
	struct double_comm *comm;
	char *at;
	size_t bytes;
} ranges[4 * SPLITS];
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

static void misused(const char *what)
{
	fprintf(stderr, "double of NCCL: %s\n", what);
	abort();
}

/* Whether any has a part of [p, p + bytes), or all of it. c: those of one communicator; NULL: of
 * all. */
static int is_registered(const struct double_comm *c, const void *p, size_t bytes, int whole)
{
	const uintptr_t at = (uintptr_t)p, end = at + bytes;
	int found = 0;

	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		const struct range *r = &ranges[i];
		const uintptr_t first = (uintptr_t)r->at, last = first + r->bytes;
		const int has_all = at >= first && end <= last;
		const int has_some = at < last && first < end;
		if (r->comm && (!c || r->comm == c))
			found |= whole ? has_all : has_some;
	}
	pthread_mutex_unlock(&ranges_lock);
	return found;
}

static int registers(const struct double_comm *c)
{
	return is_registered(c, NULL, SIZE_MAX / 2, 0);
}

static int is_mapped(const char *at)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char in;
	return !mincore((void *)((uintptr_t)at / page * page), 1, &in);
}

void double_check_freed(const void *p, size_t bytes)
{
	if (is_registered(NULL, p, bytes, 0))
		misused("memory is freed that is registered");
}

/* With ZR_DOUBLE_REGISTERED: what a communicator moves is registered with it, if any is. */
static void check_moved(struct double_comm *c, const void *p, size_t bytes)
{
	if (getenv("ZR_DOUBLE_REGISTERED") && bytes && registers(c) &&
	    !is_registered(c, p, bytes, 1))
		misused("memory is moved that is not registered");
}

static void check_left(const struct double_comm *c)
{
	if (registers(c))
		misused("a communicator ends that has registered memory");
}

/* An aborted communicator forgets what is registered. */
static void forget(const struct double_comm *c)
{
	pthread_mutex_lock(&ranges_lock);
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
		if (ranges[i].comm == c)
			ranges[i].comm = NULL;
	pthread_mutex_unlock(&ranges_lock);
}

ncclResult_t ncclCommRegister(ncclComm_t c, void *p, size_t bytes, void **handle)
{
	size_t i = 0;
	if (getenv("ZR_DOUBLE_REFUSES") || !bytes)
		return ncclInvalidUsage;

	pthread_mutex_lock(&ranges_lock);
	while (i < sizeof ranges / sizeof *ranges && ranges[i].comm)
		i++;
	if (i == sizeof ranges / sizeof *ranges)
		misused("too much is registered");
	ranges[i] = (struct range){ c, p, bytes };
	*handle = &ranges[i];
	pthread_mutex_unlock(&ranges_lock);
	return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t c, void *handle)
{
	struct range *r = handle;
	if (!r || r->comm != c)
		misused("memory is deregistered that is not registered");
	if (!is_mapped(r->at))
		misused("memory is deregistered that is freed");
	r->comm = NULL;
	return ncclSuccess;
}

/* ---- moves, in the thread of a stream -------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* As much as goes; returns its bytes. */
static uint64_t push(struct box *b, struct move *m)
{
	const uint64_t put = atomic_load(&b->put), room = BOX - (put - atomic_load(&b->got));
	const uint64_t at = put % BOX, n = least(least(room, m->bytes - m->done), BOX - at);
	memcpy(b->data + at, (char *)double_real(m->at) + m->done, n);
	atomic_store(&b->put, put + n);
	return n;
}

static uint64_t pull(struct box *b, struct move *m)
{
	const uint64_t got = atomic_load(&b->got), there = atomic_load(&b->put) - got;
	const uint64_t at = got % BOX, n = least(least(there, m->bytes - m->done), BOX - at);
	memcpy((char *)double_real(m->at) + m->done, b->data + at, n);
	atomic_store(&b->got, got + n);
	return n;
}

/* One look at all moves; between two ranks they go one after the other. Returns how many are left,
 * *moved: whether any byte went. */
static int look(const struct group *g, int *moved)
{
	struct area *area = g->comm->area;
	char busy[2][RANKS] = { { 0 } };
	int left = 0;
	for (int i = 0; i < g->n_moves; i++) {
		struct move *m = &g->move[i];
		if (m->done == m->bytes || busy[m->receives][m->peer]) {
			left += m->done < m->bytes;
			continue;
		}

		uint64_t n = m->receives ? pull(&area->box[m->peer][g->comm->rank], m) :
					   push(&area->box[g->comm->rank][m->peer], m);
		m->done += n;
		*moved |= n != 0;
		left += m->done < m->bytes;
		busy[m->receives][m->peer] = m->done < m->bytes;
	}
	return left;
}

static void add_up(const struct sum *s, int ranks)
{
	for (uint64_t k = 0; k < s->n; k++) {
		float f = 0;
		int64_t i = 0;
		for (int r = ranks - 1; r >= 0; r--) {
			const uint64_t at = (uint64_t)r * s->n + k;
			if (s->type == ncclFloat32)
				f += ((float *)s->from)[at];
			else if (s->type == ncclInt32)
				i += ((int32_t *)s->from)[at];
			else
				i = (int64_t)((uint64_t)i + (uint64_t)((int64_t *)s->from)[at]);
		}
		if (s->type == ncclFloat32)
			((float *)double_real(s->to))[k] = f;
		else if (s->type == ncclInt32)
			((int32_t *)double_real(s->to))[k] = (int32_t)i;
		else
			((int64_t *)double_real(s->to))[k] = i;
	}
}

static void run_group(void *arg)
{
	struct group *g = *(struct group **)arg;
	int left = 1, moved;
	while (left && !atomic_load(&g->comm->aborted)) {
		moved = 0;
		left = look(g, &moved);
		if (left && !moved)
			nanosleep(&(struct timespec){ 0, 20000 }, NULL);
	}

	for (int i = 0; i < g->n_sums; i++) {
		if (!left)
			add_up(&g->sum[i], g->comm->n);
		free(g->sum[i].from);
	}
	leave_comm(g->comm);
	free(g->move);
	free(g->sum);
	free(g);
}

/* ---- calls ----------------------------------------------------------------------- */

static uint64_t size_of(ncclDataType_t type)
{
	if (type == ncclUint8 || type == ncclInt8)
		return 1;
	if (type == ncclFloat16 || type == ncclBfloat16)
		return 2;
	return type == ncclInt64 || type == ncclFloat64 ? 8 : 4;
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	struct group *g = open_group;
	if (--depth || !g)
		return ncclSuccess;

	const int nonblocking = g->comm->nonblocking;
	open_group = NULL;
	double_enqueue(open_stream, run_group, &g, sizeof g); /* which frees g */
	return nonblocking ? ncclInProgress : ncclSuccess;
}

/* The group that is being written, of one communicator and stream. */
static struct group *group_of(struct double_comm *c, cudaStream_t s)
{
	if (!open_group) {
		open_group = calloc(1, sizeof *open_group);
		if (!open_group)
			abort();
		open_group->move = malloc(MOVES * sizeof *open_group->move);
		open_group->sum = malloc(MOVES * sizeof *open_group->sum);
		open_group->comm = c;
		open_stream = s;
		atomic_fetch_add(&c->users, 1);
	}
	if (!open_group->move || !open_group->sum || open_group->comm != c || open_stream != s ||
	    open_group->n_moves >= MOVES || open_group->n_sums >= MOVES)
		abort();
	return open_group;
}

static void add_move(struct group *g, const void *at, uint64_t bytes, int peer, int receives)
{
	g->move[g->n_moves++] = (struct move){ (char *)(uintptr_t)at, bytes, 0, peer, receives };
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t s)
{
	check_moved(comm, from, n * size_of(type));
	ncclGroupStart();
	add_move(group_of(comm, s), from, n * size_of(type), peer, 0);
	return ncclGroupEnd();
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t s)
{
	check_moved(comm, to, n * size_of(type));
	ncclGroupStart();
	add_move(group_of(comm, s), to, n * size_of(type), peer, 1);
	return ncclGroupEnd();
}

/* From each rank to each: what is for a rank begins `step` bytes behind what is for the one
 * before. */
static void all_to_all(struct group *g, const void *from, uint64_t step, void *to, uint64_t bytes)
{
	for (int r = 0; r < g->comm->n; r++) {
		add_move(g, (const char *)from + (uint64_t)r * step, bytes, r, 0);
		add_move(g, (char *)to + (uint64_t)r * bytes, bytes, r, 1);
	}
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type,
			   ncclComm_t comm, cudaStream_t s)
{
	check_moved(comm, from, n * size_of(type));
	check_moved(comm, to, (size_t)comm->n * n * size_of(type));
	ncclGroupStart();
	all_to_all(group_of(comm, s), from, 0, to, n * size_of(type));
	return ncclGroupEnd();
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
			   ncclComm_t comm, cudaStream_t s)
{
	if (comm->rank == root)
		check_moved(comm, from, n * size_of(type));
	check_moved(comm, to, n * size_of(type));
	ncclGroupStart();
	struct group *g = group_of(comm, s);
	for (int r = 0; r < comm->n && comm->rank == root; r++)
		add_move(g, from, n * size_of(type), r, 0);
	add_move(g, to, n * size_of(type), root, 1);
	return ncclGroupEnd();
}

static ncclResult_t reduce(const void *from, uint64_t step, void *to, size_t n, ncclDataType_t type,
			   ncclComm_t comm, cudaStream_t s)
{
	const uint64_t bytes = n * size_of(type);
	if (type != ncclFloat32 && type != ncclInt32 && type != ncclInt64)
		return ncclInvalidArgument;

	check_moved(comm, from, step ? (size_t)comm->n * step : bytes);
	check_moved(comm, to, bytes);
	ncclGroupStart();
	struct group *g = group_of(comm, s);
	char *parts = malloc((uint64_t)comm->n * bytes + 1);
	if (!parts)
		abort();
	all_to_all(g, from, step, parts, bytes);
	g->sum[g->n_sums++] = (struct sum){ to, parts, n, type };
	return ncclGroupEnd();
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
	(void)op;
	return reduce(from, 0, to, n, type, comm, s);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
	(void)op;
	return reduce(from, n * size_of(type), to, n, type, comm, s);
}
