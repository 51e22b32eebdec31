/* SPDX-License-Identifier: Apache-2.0
 *
 * offload.c - tests of stores: what they give back is what a copy in memory has.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
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

static void open_store(struct zr_check *c, struct store *s)
{
	const struct zr_tier_info empty = { .size = sizeof empty };
	*s = (struct store){ .t = { .c = c }, .v = c->vtbl, .state = 1 };
	zr_try_open(c, &s->t);
	struct zr_tier_info *lent = zr_lend(c, "struct zr_tier_info", &empty, sizeof empty,
					    sizeof empty);
	zr_must(&s->t, ZR_CALL(c, ZR_MAIN, "info", s->v->info(s->t.inst, lent)));
	memcpy(&s->info, lent, sizeof s->info);
	zr_area_free(c, lent);
	if (!(s->info.mem_ok & ZR_MEM_HOST))
		zr_check_skip(c, "it takes no host memory");
	if (!s->info.max_inflight)
		zr_check_fail(c, "max_inflight is 0; no request could ever be posted");
	if (s->info.align & (s->info.align - 1))
		zr_check_fail(c, "align is %" PRIu64 ", expected a power of two", s->info.align);
	for (int i = 0; i < OBJECTS; i++) {
		zr_must(&s->t, ZR_CALL(c, ZR_MAIN, "make",
				       s->v->make(s->t.inst, "check", BYTES, &s->object[i])));
		s->shadow[i] = calloc(1, BYTES);
		if (!s->shadow[i])
			zr_check_skip(c, "no memory for the test");
	}
}

static void close_store(struct zr_check *c, struct store *s)
{
	for (int i = 0; i < OBJECTS; i++)
		zr_must(&s->t, ZR_CALL(c, ZR_MAIN, "discard",
				       s->v->discard(s->t.inst, s->object[i])));
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
	char *buffer = zr_area(c, writes ? "what is written" : "what is read into", n ? n : 1,
			       draw(s, 2) ? 4096 : 1);
	for (uint64_t k = 0; k < n; k++)
		buffer[k] = (char)draw(s, 256);
	if (writes) {
		memcpy(s->shadow[i] + off, buffer, n);
		zr_area_protect(c, buffer, 1);
		zr_must(&s->t, ZR_CALL(c, ZR_STEP, "write",
				       s->v->write(s->t.inst, s->object[i], off, buffer, n,
						   &ticket)));
	} else {
		zr_must(&s->t, ZR_CALL(c, ZR_STEP, "read",
				       s->v->read(s->t.inst, s->object[i], off, buffer, n,
						  &ticket)));
	}
	wait_for(s, ticket);
	zr_blame(c, writes ? "write" : "read");
	if (!writes && memcmp(buffer, s->shadow[i] + off, n))
		zr_check_fail(c, "%" PRIu64 " bytes at %" PRIu64 " of an object are not those that "
			      "were written last, or zeros", n, off);
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

/* As many requests as it allows, one more, and an end without waiting. */
void zr_test_offload_limits(struct zr_check *c)
{
	struct store s;
	uint64_t ticket[MOST] = { 0 }, more = 0;
	open_store(c, &s);
	const uint64_t n = s.info.max_inflight < MOST ? s.info.max_inflight : MOST;
	const uint64_t each = BYTES / MOST / 4096 * 4096;
	char *buffer = zr_area(c, "what is written", each * MOST, 4096);
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
