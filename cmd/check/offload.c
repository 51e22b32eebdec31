/* SPDX-License-Identifier: Apache-2.0
 *
 * offload.c - tests of stores: what they give back is what a copy in memory has.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zeroth/offload.h>

#include "cmd/check/check.h"

enum { OBJECTS = 3, BYTES = 300000, ROUNDS = 120, MOST = 8 };

struct store {
	struct zr_try t;
	const struct zr_offload_v1 *v;
	struct zr_tier_info info;
	uint64_t object[OBJECTS];
	char *shadow[OBJECTS];
	uint64_t state; /* of random numbers */
};

static uint64_t draw(struct store *s, uint64_t below)
{
	s->state = s->state * 6364136223846793005u + 1442695040888963407u;
	return (s->state >> 33) % below;
}

static void make(struct store *s, int i)
{
	struct zr_check *c = s->t.c;

	zr_must(&s->t,
		ZR_CALL(c, ZR_MAIN, "make", s->v->make(s->t.inst, "check", BYTES, &s->object[i])));
	s->shadow[i] = calloc(1, BYTES);
	if (!s->shadow[i])
		zr_check_lacks(c, "memory");
}

/* Without objects. */
static void open_empty(struct zr_check *c, struct store *s)
{
	const struct zr_tier_info empty = { .size = sizeof empty };

	*s = (struct store){ .t = { .c = c }, .v = c->vtbl, .state = 1 + c->seed };
	zr_try_open(c, &s->t);
	struct zr_tier_info *lent =
		zr_lend(c, "struct zr_tier_info", &empty, sizeof empty, sizeof empty);
	zr_must(&s->t, ZR_CALL(c, ZR_MAIN, "info", s->v->info(s->t.inst, lent)));
	memcpy(&s->info, lent, sizeof s->info);
	zr_area_free(c, lent);
	if (!(s->info.mem_ok & ZR_MEM_HOST))
		zr_check_skip(c, "it takes no host memory");
	if (!s->info.max_inflight)
		zr_check_fail(c, "max_inflight is 0; no request could ever be posted");
	if (s->info.align & (s->info.align - 1))
		zr_check_fail(c, "align is %" PRIu64 ", expected a power of two", s->info.align);
}

static void open_store(struct zr_check *c, struct store *s)
{
	open_empty(c, s);
	for (int i = 0; i < OBJECTS; i++)
		make(s, i);
}

static void close_store(struct zr_check *c, struct store *s)
{
	for (int i = 0; i < OBJECTS; i++)
		zr_must(&s->t,
			ZR_CALL(c, ZR_MAIN, "discard", s->v->discard(s->t.inst, s->object[i])));
	zr_try_close(&s->t);
}

static void wait_for(struct store *s, uint64_t ticket)
{
	struct zr_check *c = s->t.c;
	if (ticket && draw(s, 2))
		ZR_CALL(c, ZR_STEP, "test", s->v->test(s->t.inst, ticket));
	zr_must(&s->t, ZR_CALL(c, ZR_STEP, "wait", s->v->wait(s->t.inst, ticket)));
}

/* A part of an object, written from or read into memory that ends at a guard page. */
static void move(struct store *s, int writes)
{
	struct zr_check *c = s->t.c;
	const int i = (int)draw(s, OBJECTS);
	uint64_t off = draw(s, BYTES), n = draw(s, BYTES - off + 1), ticket = 0;

	if (draw(s, 2)) { /* as the store likes it */
		const uint64_t align = s->info.align ? s->info.align : 1;
		off = off / align * align;
		n = n / align * align;
	}

	char *buffer = zr_area_new(c, writes ? "what is written" : "what is read into", n ? n : 1,
				   draw(s, 2) ? 4096 : 1);
	for (uint64_t k = 0; k < n; k++)
		buffer[k] = (char)draw(s, 256);
	if (writes) {
		memcpy(s->shadow[i] + off, buffer, n);
		zr_area_protect(c, buffer, 1);
		zr_must(&s->t,
			ZR_CALL(c, ZR_STEP, "write",
				s->v->write(s->t.inst, s->object[i], off, buffer, n, &ticket)));
	} else {
		zr_must(&s->t,
			ZR_CALL(c, ZR_STEP, "read",
				s->v->read(s->t.inst, s->object[i], off, buffer, n, &ticket)));
	}

	wait_for(s, ticket);
	zr_blame(c, writes ? "write" : "read");
	if (!writes && memcmp(buffer, s->shadow[i] + off, n))
		zr_check_fail(c,
			      "%" PRIu64 " bytes at %" PRIu64 " of an object are not those that "
			      "were written last, or zeros",
			      n, off);
	zr_area_free(c, buffer);
}

void zr_test_offload(struct zr_check *c)
{
	struct store s;
	open_store(c, &s);
	for (int i = 0; i < ROUNDS; i++)
		move(&s, i > 6 && draw(&s, 2));
	close_store(c, &s);
}

void zr_compute_offload(struct zr_check *c, struct zr_results *r)
{
	struct store s;

	open_store(c, &s);
	char *buffer = zr_area_new(c, "what is read into", BYTES, 4096);
	for (int i = 0; i < 8; i++)
		move(&s, i % 2 == 0);
	for (int i = 0; i < OBJECTS; i++) {
		uint64_t ticket = 0;
		zr_must(&s.t, ZR_CALL(c, ZR_STEP, "read",
				      s.v->read(s.t.inst, s.object[i], 0, buffer, BYTES, &ticket)));
		wait_for(&s, ticket);
		zr_result_add(c, r, "read", buffer, BYTES, "object %d", i);
		free(s.shadow[i]);
	}

	close_store(c, &s);
	zr_area_free(c, buffer);
	zr_area_free(c, s.t.opts);
	zr_area_free(c, s.t.h);
}

/* As many requests as it allows, one more, and an end without waiting. */
void zr_test_offload_limits(struct zr_check *c)
{
	struct store s;
	uint64_t ticket[MOST] = { 0 }, more = 0;

	open_store(c, &s);
	const uint64_t n = s.info.max_inflight < MOST ? s.info.max_inflight : MOST;
	const uint64_t each = BYTES / MOST / 4096 * 4096;
	char *buffer = zr_area_new(c, "what is written", each * MOST, 4096);
	memset(buffer, 7, each * MOST);
	for (uint64_t i = 0; i < n; i++)
		zr_must(&s.t, ZR_CALL(c, ZR_STEP, "write",
				      s.v->write(s.t.inst, s.object[0], i * each, buffer + i * each,
						 each, &ticket[i])));
	s.t.code = 0;
	int rc = ZR_CALL(c, ZR_STEP, "write",
			 s.v->write(s.t.inst, s.object[1], 0, buffer, each, &more));
	if (rc && rc != ZR_EAGAIN)
		zr_may_fail(&s.t, rc);
	for (uint64_t i = n; i-- > 0;)
		wait_for(&s, ticket[i]);
	if (!rc)
		wait_for(&s, more);
	for (uint64_t i = 0; i < n; i++)
		zr_must(&s.t, ZR_CALL(c, ZR_STEP, "read",
				      s.v->read(s.t.inst, s.object[0], i * each, buffer + i * each,
						each, &ticket[i])));
	zr_must(&s.t, ZR_CALL(c, ZR_MAIN, "drain", s.v->drain(s.t.inst)));
	close_store(c, &s);
}

/* ---- faults ---------------------------------------------------------------------- */

enum { ROOM = 100000 }; /* bytes of a file, when the disk is full */

/* The system refuses or cuts writes beyond so many bytes of a file, as on a full disk. */
static void limit_files(struct zr_check *c, rlim_t bytes)
{
	struct rlimit of;
	getrlimit(RLIMIT_FSIZE, &of);
	of.rlim_cur = bytes < of.rlim_max ? bytes : of.rlim_max;
	if (setrlimit(RLIMIT_FSIZE, &of))
		zr_check_skip(c, "the system gives no limit of files");
}

/* Writes all of an object. Returns 0, or the code of what failed. */
static int write_all(struct store *s, int i, char *buffer, int value)
{
	struct zr_check *c = s->t.c;
	uint64_t ticket = 0;

	memset(buffer, value, BYTES);
	s->t.code = 0;
	int rc = ZR_CALL(c, ZR_STEP, "write",
			 s->v->write(s->t.inst, s->object[i], 0, buffer, BYTES, &ticket));
	if (!zr_may_fail(&s->t, rc)) {
		s->t.code = 0;
		rc = ZR_CALL(c, ZR_STEP, "wait", s->v->wait(s->t.inst, ticket));
		zr_may_fail(&s->t, rc);
	}

	return rc;
}

static void read_all(struct store *s, int i, char *buffer, int value, const char *when)
{
	struct zr_check *c = s->t.c;
	uint64_t ticket = 0;

	memset(buffer, 0x55, BYTES);
	zr_must(&s->t, ZR_CALL(c, ZR_STEP, "read",
			       s->v->read(s->t.inst, s->object[i], 0, buffer, BYTES, &ticket)));
	zr_must(&s->t, ZR_CALL(c, ZR_STEP, "wait", s->v->wait(s->t.inst, ticket)));
	zr_blame(c, "write");
	for (int k = 0; k < BYTES; k++)
		if (buffer[k] != value)
			zr_check_fail(c, "%s, and byte %d of the object is not what was written",
				      when, k);
}

void zr_test_offload_no_space(struct zr_check *c)
{
	struct store s;

	signal(SIGXFSZ, SIG_IGN);
	open_empty(c, &s);
	char *buffer = zr_area_new(c, "what is written", BYTES, 4096);
	make(&s, 0);
	limit_files(c, ROOM);
	s.t.code = 0;
	int rc = ZR_CALL(c, ZR_MAIN, "make", s.v->make(s.t.inst, "check", BYTES, &s.object[1]));
	if (!zr_may_fail(&s.t, rc)) { /* it needs none of this room, or notices later */
		if (!write_all(&s, 1, buffer, 3))
			read_all(&s, 1, buffer, 3,
				 "on a full disk the write of an object that was "
				 "made there succeeded");
		zr_must(&s.t, ZR_CALL(c, ZR_MAIN, "discard", s.v->discard(s.t.inst, s.object[1])));
	}

	for (int i = 0; i < 2; i++) /* a failure is told each time */
		if (!write_all(&s, 0, buffer, 5 + i))
			read_all(&s, 0, buffer, 5 + i, "on a full disk the write succeeded");
	limit_files(c, RLIM_INFINITY);
	make(&s, 1);
	for (int i = 0; i < 2; i++) {
		if ((rc = write_all(&s, i, buffer, 8 + i)))
			zr_check_fail(c, "when there is room again, it fails with code %d: %s", rc,
				      s.t.text);
		read_all(&s, i, buffer, 8 + i, "when there is room again, the write succeeded");
	}

	zr_must(&s.t, ZR_CALL(c, ZR_MAIN, "drain", s.v->drain(s.t.inst)));
	zr_try_close(&s.t); /* with two objects */
}

/* Each allocation that make() needs fails once. */
void zr_test_offload_no_memory(struct zr_check *c)
{
	struct store s;

	open_empty(c, &s);
	for (int64_t nth = 1, rc = 1; rc && nth < 100; nth++) {
		const int64_t held = zr_imports_held(), blocks = s.t.held;
		uint64_t object;
		s.t.code = 0;
		zr_imports_refuse(nth);
		rc = ZR_CALL(c, ZR_MAIN, "make", s.v->make(s.t.inst, "check", BYTES, &object));
		zr_imports_refuse(0);
		if (!zr_may_fail(&s.t, (int)rc))
			zr_must(&s.t,
				ZR_CALL(c, ZR_MAIN, "discard", s.v->discard(s.t.inst, object)));
		else if (zr_imports_held() > held || s.t.held > blocks)
			zr_check_fail(c,
				      "when allocation %" PRId64 " fails, it does not give back "
				      "what it took",
				      nth);
	}

	zr_try_close(&s.t);
}

static void die_writing(struct zr_check *c, int32_t rank, int32_t world, void *shared)
{
	struct store s;
	uint64_t ticket = 0;

	(void)rank, (void)world, (void)shared;
	open_store(c, &s);
	char *buffer = zr_area_new(c, "what is written", BYTES, 4096);
	for (int i = 0; i < OBJECTS; i++)
		write_all(&s, i, buffer, 9);
	s.v->write(s.t.inst, s.object[0], 0, buffer, BYTES, &ticket);
	raise(SIGKILL);
}

/* What a killed process had written is nobody's: the next begins with zeros, on the same disk. */
void zr_test_offload_killed(struct zr_check *c)
{
	struct store s;

	for (int i = 0; i < 3; i++)
		zr_check_killed(c, NULL, die_writing);
	open_store(c, &s);
	char *buffer = zr_area_new(c, "what is read into", BYTES, 4096);
	for (int i = 0; i < OBJECTS; i++)
		read_all(&s, i, buffer, 0,
			 "after another process was killed, a new object was made");
	close_store(c, &s);
	if (rmdir(c->scratch))
		zr_check_fail(c, "files of killed processes stay in the run directory; give them "
				 "no name (O_TMPFILE), or remove them in create");
}
