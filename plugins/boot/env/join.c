/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - how the ranks of a run find each other beside other runs and what dead ones have left;
 * see env.h.
 */
#define _GNU_SOURCE
#include "env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- what others say ------------------------------------------------------------- */

/* Whether a hello can be of that rank of some world. */
static int makes_sense(const struct ze_hello *m, int32_t rank)
{
	if (m->rank != rank || m->world <= rank || m->world > MAX_RANKS ||
	    !memchr(m->host, 0, sizeof m->host))
		return 0;
	if (!m->local_world)
		return !m->local_rank;

	return m->local_rank >= 0 && m->local_rank < m->local_world && m->local_rank <= rank &&
	       m->local_world <= m->world - (rank - m->local_rank);
}

/* Takes the seats that are new into b->all: 1 if all ranks have theirs, 0 or < 0. */
static int see_seats(struct zr_inst *b)
{
	char name[NAME_ROOM], path[PATH_ROOM];
	int all = 1;

	for (int32_t r = 0; r < b->mine.world; r++) {
		struct ze_hello m;
		uint64_t bytes = 0;
		if (b->here[r])
			continue;

		int rc = ze_read_run(b, ze_name(name, "joined", r), &m, sizeof m, &bytes);
		if (rc < 0)
			return rc;
		if (rc && (bytes != sizeof m || !makes_sense(&m, r) || m.world != b->mine.world))
			return zr_fail(b->h, ZR_EINVAL, "%s: no rank %d of %d can have written it",
				       ze_path(b, b->run, name, path), r, b->mine.world);
		if (rc)
			b->all[r] = m;
		b->here[r] = (unsigned char)rc;
		all &= rc;
	}

	return all;
}

/* ---- rank 0 ---------------------------------------------------------------------- */

/* Welcomes the rank of a hello, unless another run is meant or has it already. */
static int answer(struct zr_inst *b, const char *name, int32_t rank, uint64_t draw)
{
	char reply[NAME_ROOM];
	struct ze_hello m;
	uint64_t bytes = 0;

	ze_name_drawn(reply, "welcome", rank, draw);
	if (!faccessat(b->meeting, reply, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;

	int rc = ze_read(b, b->meeting, draw, name, &m, sizeof m, &bytes);
	if (rc < 0)
		return rc;
	if (rc != ZE_READ || bytes != sizeof m || m.draw != draw || !makes_sense(&m, rank) ||
	    m.job != b->mine.job)
		return 0;
	if (m.world != b->mine.world) {
		b->misfit = m;
		return 0;
	}

	rc = ze_write(b, b->meeting, draw, reply, &b->id, sizeof b->id);
	if (rc < 0)
		return rc;

	/* a rank that another run seated meanwhile takes no second answer back */
	if (faccessat(b->meeting, name, F_OK, AT_SYMLINK_NOFOLLOW))
		ze_remove(b->meeting, reply);
	return 0;
}

static int answer_all(struct zr_inst *b)
{
	int fd = openat(b->meeting, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = NULL;

	if (fd >= 0)
		d = fdopendir(fd);
	struct dirent *e;
	int32_t rank;
	uint64_t draw;
	if (!d) {
		rc = zr_fail(b->h, ZR_EIO, "directory %s: cannot be listed: %s", b->o->directory,
			     strerror(errno));
		if (fd >= 0)
			close(fd);
		return rc;
	}

	while (!rc && (e = readdir(d)))
		if (ze_is_drawn(e->d_name, "hello", &rank, &draw) && rank > 0 &&
		    rank < b->mine.world && !b->here[rank])
			rc = answer(b, e->d_name, rank, draw);
	closedir(d);
	return rc;
}

static int gather(struct zr_inst *b, struct ze_wish *w)
{
	(void)w;
	int rc = see_seats(b);
	if (rc)
		return rc;

	return answer_all(b);
}

static int lead(struct zr_inst *b)
{
	struct ze_wish w = { .done = gather, .what = "to join", .stops = 1 };
	char name[NAME_ROOM];

	b->id = b->mine.draw;
	int rc = ze_make_run(b);
	if (rc)
		return rc;

	ze_sweep(b);
	rc = ze_write_new(b, ze_name(name, "joined", 0), &b->mine, sizeof b->mine);
	if (rc)
		return rc;

	return ze_wait(b, &w, b->o->timeout);
}

/* ---- other ranks ----------------------------------------------------------------- */

static int draw_number(struct zr_inst *b)
{
	if (getrandom(&b->mine.draw, sizeof b->mine.draw, 0) != sizeof b->mine.draw)
		return zr_fail(b->h, ZR_EIO, "no random numbers");
	b->mine.draw |= 1; /* 0 is no id */
	return 0;
}

static int say_hello(struct zr_inst *b)
{
	char name[NAME_ROOM], path[PATH_ROOM];
	int rc = draw_number(b);
	if (rc)
		return rc;

	ze_name_drawn(name, "hello", b->mine.rank, b->mine.draw);
	rc = ze_write(b, b->meeting, b->mine.draw, name, &b->mine, sizeof b->mine);
	if (rc == 0)
		return zr_fail(b->h, ZR_EIO, "%s is there already",
			       ze_path(b, b->meeting, name, path));

	return rc < 0 ? rc : 0;
}

/* The answer goes last: without a hello nobody writes a second one. */
static void take_back_hello(struct zr_inst *b)
{
	char name[NAME_ROOM];
	ze_remove(b->meeting, ze_name_drawn(name, "hello", b->mine.rank, b->mine.draw));
	ze_remove(b->meeting, ze_name_drawn(name, "welcome", b->mine.rank, b->mine.draw));
}

/* Takes the seat in the run of that id: 1, 0 if another process has it or the run is over, < 0. */
static int take_seat(struct zr_inst *b, uint64_t id)
{
	char name[NAME_ROOM];
	int rc = ze_open_run(b, id);
	if (rc <= 0)
		return rc;

	rc = ze_write(b, b->run, b->id, ze_name(name, "joined", b->mine.rank), &b->mine,
		      sizeof b->mine);
	if (rc > 0)
		return rc;

	close(b->run);
	b->run = -1;
	b->id = 0;
	return rc;
}

static int find_seat(struct zr_inst *b, struct ze_wish *w)
{
	char name[NAME_ROOM];
	uint64_t id = 0, bytes = 0;

	(void)w;
	memset(b->here + 1, 1, (size_t)b->mine.world - 1);
	ze_name_drawn(name, "welcome", b->mine.rank, b->mine.draw);
	int rc = ze_read(b, b->meeting, b->mine.draw, name, &id, sizeof id, &bytes);
	if (rc == ZE_ABSENT || rc < 0)
		return rc;
	if (rc == ZE_READ && bytes == sizeof id && id) {
		rc = take_seat(b, id);
		if (rc)
			return rc;
	}

	take_back_hello(b);
	return say_hello(b);
}

static int all_seated(struct zr_inst *b, struct ze_wish *w)
{
	(void)w;
	return see_seats(b);
}

static int follow(struct zr_inst *b)
{
	struct ze_wish seat = { .done = find_seat, .what = "to come" },
		       all = { .done = all_seated, .what = "to join", .stops = 1 };
	int rc = say_hello(b);
	if (rc)
		return rc;

	rc = ze_wait(b, &seat, b->o->timeout);
	take_back_hello(b);
	if (rc)
		return rc;

	return ze_wait(b, &all, b->o->timeout);
}

/* ---- life ------------------------------------------------------------------------ */

int ze_join(struct zr_inst *b)
{
	const uint64_t world = (uint64_t)b->mine.world;

	b->all = calloc(world, sizeof *b->all);
	b->here = calloc(world, 1);
	if (!b->all || !b->here)
		return zr_fail(b->h, ZR_ENOMEM, "no memory");

	ze_name_process(&b->mine);
	int rc = ze_open_meeting(b);
	if (!rc)
		rc = draw_number(b);
	if (rc)
		return rc;

	if (b->mine.rank == 0)
		rc = lead(b);
	else
		rc = follow(b);
	if (rc)
		ze_stop(b, "it could not join the run"); /* unless it has said more already */

	return rc;
}

static int is_marked(const struct zr_inst *b, const char *what, int32_t rank)
{
	char name[NAME_ROOM], why[NAME_ROOM], data[MAX_VALUE];
	uint64_t bytes;
	return ze_try_read(b->run, b->id, ze_name(name, what, rank), data, sizeof data, &bytes,
			   why) == ZE_READ;
}

/* The last one of those who have taken their seats removes what the run has left in the
 * meeting. */
void ze_leave(struct zr_inst *b)
{
	char name[NAME_ROOM];

	if (b->run < 0 ||
	    ze_try_write(b, b->run, b->id, ze_name(name, "left", b->mine.rank), "", 0))
		return;

	for (int32_t r = 0; r < b->mine.world; r++)
		if (is_marked(b, "joined", r) && !is_marked(b, "left", r))
			return;

	ze_remove_run(b);
}

int ze_stopped(const struct zr_inst *b, char *why, uint64_t room)
{
	char text[1024], unread[NAME_ROOM];
	uint64_t bytes = 0;
	if (b->run < 0)
		return 0;

	if (ze_try_read(b->run, b->id, "stopped", text, sizeof text - 1, &bytes, unread) ==
	    ZE_READ) {
		text[bytes] = 0;
		snprintf(why, room, "%s", text);
		return 1;
	}

	for (int32_t r = 0; r < b->mine.world; r++) {
		if (!ze_has_ended(b, &b->all[r]) || is_marked(b, "left", r))
			continue;
		snprintf(why, room, "rank %d on %s has ended", r, b->all[r].host);
		return 1;
	}
	return 0;
}
