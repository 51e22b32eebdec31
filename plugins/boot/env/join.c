/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - how the ranks find each other in a directory where earlier runs may have left files; see
 * env.h.
 */
#define _GNU_SOURCE
#include "env.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The file `run`: what rank 0 has seen. */
struct run {
	uint64_t magic, id;
	int32_t world, rsv;
	uint64_t draw[]; /* [world] of each rank, 0: not seen */
};
#define MAGIC 0x7a65726f74683100u

static uint64_t run_bytes(const struct zr_inst *b)
{
	return sizeof(struct run) + (uint64_t)b->mine.world * sizeof(uint64_t);
}

static const char *named(char *out, const char *what, int32_t rank)
{
	snprintf(out, 32, "%s-%d", what, rank);
	return out;
}

/* Rank 0: 1 if something in `run` is new. */
static int see_hellos(struct zr_inst *b, struct run *run)
{
	struct ze_hello h;
	char name[32];
	int news = 0;
	for (int32_t r = 0; r < b->mine.world; r++) {
		if (b->here[r] ||
		    ze_read(b, 0, named(name, "hello", r), &h, sizeof h) != sizeof h || h.rank != r)
			continue;
		news |= run->draw[r] != h.draw;
		run->draw[r] = h.draw;
	}
	return news;
}

/* Who has answered; the first answer of a rank is kept. */
static int see_answers(struct zr_inst *b)
{
	struct ze_hello h;
	char name[32];
	int all = 1;
	for (int32_t r = 0; r < b->mine.world; r++) {
		if (!b->here[r] &&
		    ze_read(b, 1, named(name, "joined", r), &h, sizeof h) == sizeof h) {
			b->all[r] = h;
			b->here[r] = 1;
		}
		all &= b->here[r];
	}
	return all;
}

static int gather(struct zr_inst *b, struct ze_wish *w)
{
	if (see_hellos(b, w->data)) {
		int rc = ze_write(b, 0, "run", w->data, run_bytes(b));
		if (rc)
			return rc;
	}
	return see_answers(b);
}

static int lead(struct zr_inst *b, struct run *run)
{
	struct ze_wish w = { .done = gather, .what = "to join", .data = run };
	char name[32];
	ze_sweep(b);
	b->id = b->mine.draw;
	*run = (struct run){ .magic = MAGIC, .id = b->id, .world = b->mine.world };
	int rc = ze_make_run(b);
	rc = rc ? rc : ze_write(b, 1, named(name, "joined", 0), &b->mine, sizeof b->mine);
	rc = rc ? rc : ze_wait(b, &w, b->o->timeout);
	ze_remove(b, 0, "run"); /* whoever did not answer comes too late */
	return rc;
}

/* Another rank: whether rank 0 knows this very process. */
static int is_known(struct zr_inst *b, struct ze_wish *w)
{
	struct run *run = w->data;
	int64_t n = ze_read(b, 0, "run", run, run_bytes(b)), at = b->mine.rank;
	char text[128];
	memset(b->here + 1, 1, (size_t)b->mine.world - 1);
	if (n < (int64_t)(sizeof *run + (uint64_t)(at + 1) * sizeof *run->draw) ||
	    run->magic != MAGIC || run->world <= at || run->draw[at] != b->mine.draw)
		return 0;
	if (run->world == b->mine.world)
		return 1;
	b->id = run->id;
	snprintf(text, sizeof text, "rank 0 is one of %d, rank %d one of %d", run->world,
		 b->mine.rank, b->mine.world);
	ze_write(b, 1, "stopped", text, strlen(text));
	return zr_fail(b->h, ZR_EINVAL, "%s", text);
}

static int answered(struct zr_inst *b, struct ze_wish *w)
{
	(void)w;
	return see_answers(b);
}

static int follow(struct zr_inst *b, struct run *run)
{
	struct ze_wish known = { .done = is_known, .what = "to come", .data = run },
		       all = { .done = answered, .what = "to join" };
	char name[32];
	int rc = ze_write(b, 0, named(name, "hello", b->mine.rank), &b->mine, sizeof b->mine);
	if (rc)
		return rc;
	memset(b->here, 0, (size_t)b->mine.world);
	rc = ze_wait(b, &known, b->o->timeout);
	ze_remove(b, 0, name);
	if (rc)
		return rc;
	b->id = run->id;
	rc = ze_write(b, 1, named(name, "joined", b->mine.rank), &b->mine, sizeof b->mine);
	return rc ? rc : ze_wait(b, &all, b->o->timeout);
}

int ze_join(struct zr_inst *b)
{
	uint64_t world = (uint64_t)b->mine.world;
	struct run *run = calloc(1, run_bytes(b));
	b->all = calloc(world, sizeof *b->all);
	b->here = calloc(world, 1);
	int rc = run && b->all && b->here ? 0 : zr_fail(b->h, ZR_ENOMEM, "no memory");
	if (!rc && getrandom(&b->mine.draw, sizeof b->mine.draw, 0) != sizeof b->mine.draw)
		rc = zr_fail(b->h, ZR_EIO, "no random numbers");
	b->mine.draw |= 1; /* 0 says nobody */
	if (!rc)
		rc = b->mine.rank == 0 ? lead(b, run) : follow(b, run);
	free(run);
	return rc;
}
