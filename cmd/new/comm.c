/* @ID@ - a comm for zeroth: moves data between ranks. See zeroth-plugin(7) and zeroth/comm.h, which
 * is a DRAFT: a plugin of this role loads in the release whose headers it was built with.
 *
 * As it is written here: ranks of one machine, over memory that they share. Operations run in the
 * order in which they were posted, each when it is waited for, in pieces: every rank puts a piece
 * of what it sends where all can see it, meets the others, takes what it needs, and meets them
 * again. */
#define _GNU_SOURCE
#include <zeroth/boot.h>
#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PIECE       65536 /* bytes that a rank shows to one other at a time */
#define RANKS       64    /* at most */
#define OUTSTANDING 64    /* operations that were posted and not waited for, at most */

/* What a user may set in [comm]. */
struct opts {
	double timeout;
};

/* Name, type, flags, default, least and greatest value, unit, and a sentence for people. */
static const struct zr_opt options[] = {
	ZR_OPT(struct opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others ends the run."),
};

/* In shared memory: what a rank shows to others. */
struct seat {
	_Atomic uint64_t met[3];  /* how often it came to a meeting of each group */
	struct zr_comm_op doing;  /* of its pointers nobody makes use */
	int64_t count;            /* of the segment that it works on */
	char piece[RANKS][PIECE]; /* for each rank of the group */
};

struct area {
	_Atomic int aborted; /* 1: somebody writes why, 2: it is there */
	char why[512];
	struct seat seat[];
};

struct zr_inst {
	const struct zr_host *h;
	const struct opts *o;
	struct area *area; /* NULL: one rank alone */
	uint64_t bytes, received, met[3];
	int32_t first[3], size[3]; /* of the groups ZR_GROUP_* that this rank belongs to */
	int fd;
	zr_ticket posted, done; /* numbers of the last operations */
	uint64_t waits;         /* bit t % OUTSTANDING: ticket t is to be waited for */
	struct zr_comm_op op[OUTSTANDING];
};

/* ---- meeting --------------------------------------------------------------------- */

static struct seat *seat_of(struct zr_inst *c, int32_t group, int32_t rank)
{
	return &c->area->seat[c->first[group] + rank];
}

static void stop_all(struct zr_inst *c, const char *why)
{
	int none = 0;
	if (!c->area || !atomic_compare_exchange_strong(&c->area->aborted, &none, 1))
		return;

	snprintf(c->area->why, sizeof c->area->why, "rank %d stopped: %s", c->h->rank, why);
	atomic_store(&c->area->aborted, 2);
}

/* Waits a second for why: who writes it may have died. */
static int stopped(struct zr_inst *c)
{
	const struct timespec nap = { 0, 1000000 };
	for (int i = 0; i < 1000 && atomic_load(&c->area->aborted) != 2; i++)
		nanosleep(&nap, NULL);
	int written = atomic_load(&c->area->aborted) == 2;
	return zr_fail(c->h, ZR_EPEER, "%s", written ? c->area->why : "another rank stopped");
}

/* Returns when all ranks of the group have come as often as this one. */
static int meet(struct zr_inst *c, int32_t group)
{
	const struct timespec nap = { 0, 50000 };
	uint64_t often = ++c->met[group];
	double waited = 0;

	atomic_store(&c->area->seat[c->h->rank].met[group], often);
	for (int32_t r = 0; r < c->size[group]; r++)
		while (atomic_load(&seat_of(c, group, r)->met[group]) < often) {
			char text[80];
			if (atomic_load(&c->area->aborted))
				return stopped(c);

			nanosleep(&nap, NULL);
			waited += 1e-9 * (double)nap.tv_nsec;
			snprintf(text, sizeof text, "it waited %g s for rank %d", waited,
				 c->first[group] + r);
			if (waited > c->o->timeout)
				stop_all(c, text);
		}
	return atomic_load(&c->area->aborted) ? stopped(c) : ZR_OK;
}

/* ---- operations ------------------------------------------------------------------ */

static int64_t bytes_of(int32_t dtype)
{
	switch (dtype) {
	case ZR_U8:
		return 1;
	case ZR_F16:
	case ZR_BF16:
		return 2;
	case ZR_F32:
	case ZR_I32:
		return 4;
	default:
		return 8;
	}
}

static void add_elements(int32_t dtype, void *sum, const void *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (dtype == ZR_F32)
			((float *)sum)[i] += ((const float *)x)[i];
		else if (dtype == ZR_F64)
			((double *)sum)[i] += ((const double *)x)[i];
		else
			((uint64_t *)sum)[i] += ((const uint64_t *)x)[i];
}

/* All ranks must be at the same operation: a wrong program shows here and not in its results. */
static int compare(struct zr_inst *c, const struct zr_comm_op *op, int64_t count)
{
	for (int32_t r = 0; r < c->size[op->group]; r++) {
		const struct seat *s = seat_of(c, op->group, r);
		const struct zr_comm_op *o = &s->doing;
		char text[400];
		if (o->kind == op->kind && o->dtype == op->dtype && o->n_seg == op->n_seg &&
		    o->root == op->root && s->count == count &&
		    !memcmp(&o->tag, &op->tag, sizeof o->tag))
			continue;
		snprintf(text, sizeof text,
			 "step %lld, operation %d: kind %d of %lld elements of "
			 "type %d here, but on rank %d step %lld, operation %d: kind %d of %lld of "
			 "type %d",
			 (long long)op->tag.step, op->tag.op, op->kind, (long long)count, op->dtype,
			 c->first[op->group] + r, (long long)o->tag.step, o->tag.op, o->kind,
			 (long long)s->count, o->dtype);
		stop_all(c, text);
		return stopped(c);
	}

	return ZR_OK;
}

/* n elements of a segment, from the one at `at` of each part on. */
static void show(struct zr_inst *c, const struct zr_comm_op *op, const struct zr_comm_seg *s,
		 int64_t at, int64_t n)
{
	struct seat *mine = &c->area->seat[c->h->rank];
	int64_t e = bytes_of(op->dtype);
	int parts = op->kind == ZR_COMM_REDUCE_SCATTER || op->kind == ZR_COMM_ALL_TO_ALL;
	const char *from = (const char *)s->send + at * e;

	for (int32_t r = 0; r < (parts ? c->size[op->group] : 1); r++)
		memcpy(mine->piece[r], from + r * s->count * e, (size_t)(n * e));
}

static void take(struct zr_inst *c, const struct zr_comm_op *op, const struct zr_comm_seg *s,
		 int64_t at, int64_t n)
{
	int64_t e = bytes_of(op->dtype);
	int32_t me = c->h->rank - c->first[op->group];
	int parts = op->kind == ZR_COMM_REDUCE_SCATTER || op->kind == ZR_COMM_ALL_TO_ALL;
	int sums = op->kind == ZR_COMM_REDUCE_SCATTER || op->kind == ZR_COMM_ALL_REDUCE;
	char *to = (char *)s->recv + at * e;

	for (int32_t r = 0; r < c->size[op->group]; r++) {
		const char *piece = seat_of(c, op->group, r)->piece[parts ? me : 0];
		if (op->kind == ZR_COMM_BROADCAST && r != op->root)
			continue;

		c->received += r == me ? 0 : (uint64_t)(n * e);
		if (sums && r) /* in the order of the ranks: the same bits for all */
			add_elements(op->dtype, to, piece, n);
		else if (sums || op->kind == ZR_COMM_BROADCAST)
			memcpy(to, piece, (size_t)(n * e));
		else
			memcpy(to + r * s->count * e, piece, (size_t)(n * e));
	}
}

static int run_operation(struct zr_inst *c, const struct zr_comm_op *op)
{
	struct seat *mine = &c->area->seat[c->h->rank];
	int moves = op->kind != ZR_COMM_BARRIER && op->kind != ZR_COMM_FENCE;

	mine->doing = *op;
	for (int32_t i = 0; i < op->n_seg || !i; i++) {
		struct zr_comm_seg none = { 0 };
		const struct zr_comm_seg *s = i < op->n_seg ? &op->seg[i] : &none;
		int64_t at = 0, most = moves ? PIECE / bytes_of(op->dtype) : INT64_MAX;
		mine->count = s->count;
		do {
			int64_t n = s->count - at < most ? s->count - at : most;
			if (moves)
				show(c, op, s, at, n);
			int rc = meet(c, op->group);
			if (!rc)
				rc = compare(c, op, s->count);
			if (!rc && moves)
				take(c, op, s, at, n);
			if (!rc)
				rc = meet(c, op->group); /* before a piece changes */
			if (rc)
				return rc;

			at += n;
		} while (at < s->count);
	}

	return ZR_OK;
}

/* What a rank of one has to do: its own part comes to where it belongs. */
static void run_alone(const struct zr_comm_op *op)
{
	for (int32_t i = 0; i < op->n_seg && op->kind <= ZR_COMM_ALL_TO_ALL; i++)
		if (op->seg[i].count)
			memmove(op->seg[i].recv, op->seg[i].send,
				(size_t)(op->seg[i].count * bytes_of(op->dtype)));
}

/* ---- the interface --------------------------------------------------------------- */

static int post(struct zr_inst *c, const struct zr_comm_op *op, zr_ticket *ticket)
{
	*ticket = 0;
	if (op->kind < ZR_COMM_ALL_GATHER || op->kind > ZR_COMM_FENCE || op->group < 0 ||
	    op->group > ZR_GROUP_WORLD)
		return zr_fail(c->h, ZR_EINVAL, "no operation has kind %d, or no group number %d",
			       op->kind, op->group);
	if (c->area && atomic_load(&c->area->aborted))
		return stopped(c);
	if (c->size[op->group] == 1) {
		run_alone(op);
		return ZR_OK;
	}

	if (c->waits >> (c->posted + 1) % OUTSTANDING & 1)
		return ZR_EAGAIN; /* no failure: wait for an older one first */
	*ticket = ++c->posted;
	c->op[*ticket % OUTSTANDING] = *op;
	c->waits |= (uint64_t)1 << *ticket % OUTSTANDING;
	return ZR_OK;
}

/* Runs what was posted up to the ticket. All ranks post the same in the same order, so none waits
 * for one that never comes. */
static int wait_for(struct zr_inst *c, zr_ticket ticket)
{
	int rc = ZR_OK;

	if (!ticket)
		return ZR_OK;

	while (c->done < ticket && !rc)
		rc = run_operation(c, &c->op[++c->done % OUTSTANDING]);
	c->waits &= ~((uint64_t)1 << ticket % OUTSTANDING);
	if (rc)
		return rc;
	return atomic_load(&c->area->aborted) ? stopped(c) : ZR_OK;
}

static int test(struct zr_inst *c, zr_ticket ticket)
{
	return c->done >= ticket;
}

static void stop(struct zr_inst *c, const char *why)
{
	stop_all(c, why);
}

static uint64_t bytes_sent(struct zr_inst *c)
{
	return c->received;
}

/* ---- joining --------------------------------------------------------------------- */

/* Rank 0 makes memory without a name; the others open it through its process. */
static int join(struct zr_inst *c)
{
	const struct zr_host *h = c->h;
	struct zr_inst *boot_inst = NULL;
	const struct zr_boot_v1 *boot = h->get ? h->get(h, "zr.boot/1", &boot_inst) : NULL;
	char path[64] = "";

	if (!boot || !boot->put || !boot->get)
		return zr_fail(h, ZR_ENOTSUP,
			       "boot offers nothing through which %d ranks could "
			       "meet",
			       h->world);
	if (h->world > RANKS)
		return zr_fail(h, ZR_EINVAL, "%d ranks: at most %d", h->world, RANKS);

	c->bytes = sizeof *c->area + (uint64_t)h->world * sizeof(struct seat);
	if (!h->rank) {
		c->fd = memfd_create("@ID@", MFD_CLOEXEC);
		snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), c->fd);
		if (c->fd < 0 || ftruncate(c->fd, (off_t)c->bytes))
			return zr_fail(h, ZR_ENOMEM, "no shared memory: %s", strerror(errno));
		if (boot->put(boot_inst, "comm.@ID@", path, sizeof path))
			return zr_fail(h, ZR_EPEER, "boot does not take where the ranks meet");
	} else {
		if (boot->get(boot_inst, "comm.@ID@", path, sizeof path, c->o->timeout))
			return zr_fail(h, ZR_EPEER, "rank 0 does not say where the ranks meet");

		c->fd = open(path, O_RDWR | O_CLOEXEC);
		if (c->fd < 0)
			return zr_fail(h, ZR_EIO, "%s: %s", path, strerror(errno));
	}

	void *map = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (map == MAP_FAILED)
		return zr_fail(h, ZR_ENOMEM, "no shared memory: %s", strerror(errno));

	c->area = map;
	return meet(c, ZR_GROUP_WORLD); /* all have it open: rank 0 may end now */
}

static void destroy(struct zr_inst *c)
{
	if (c->area)
		munmap(c->area, c->bytes);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

/* opts and h outlive the instance. */
static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *c = calloc(1, sizeof *c);
	int rc = ZR_OK;

	if (!c)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	*c = (struct zr_inst){ .h = h, .o = opts, .fd = -1 };
	c->first[ZR_GROUP_SELF] = h->rank;
	c->size[ZR_GROUP_SELF] = 1;
	c->first[ZR_GROUP_NODE] = h->rank - h->local_rank;
	c->size[ZR_GROUP_NODE] = h->local_world;
	c->size[ZR_GROUP_WORLD] = h->world;
	if (h->world > 1)
		rc = join(c);
	if (rc)
		destroy(c);
	else
		*out = c;
	return rc;
}

static const struct zr_comm_v1 vtbl = {
	.size = sizeof vtbl,
	.post = post,
	.test = test,
	.wait = wait_for,
	.abort = stop,
	.bytes_sent = bytes_sent,
};
static const struct zr_iface ifaces[] = { { "zr.comm/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "comm",
	.id = "@ID@",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "Ranks of one machine, in lock step over shared memory.",
	.ifaces = ifaces,
	.opts = options,
	.n_opts = sizeof options / sizeof *options,
	.opt_stride = sizeof *options,
	.opts_size = sizeof(struct opts),
	.create = create,
	.destroy = destroy,
};
ZR_PLUGIN(&desc);
