/* SPDX-License-Identifier: Apache-2.0
 *
 * env.h - parts of the boot plugin `env`: ranks by environment variables, who meet over TCP (tcp.h)
 * or, if one is given, in a directory that all see.
 *
 * Others may write in that directory, as in /tmp. So all that happens lies in one of this user's
 * own in it, the meeting, zeroth-UID of mode 0700: who can write there may act as the user anyway.
 * Owner and mode of directories and files are checked, links are not followed, and a file is read
 * only if it is a regular one with the nonce that the reader expects.
 *
 * Several runs may meet in it at once, files of dead ones may lie there, and rank 0 may come last:
 *
 *   hello-R-DRAW    rank R says that it is there; DRAW is a random number that it has just drawn
 *   welcome-R-DRAW  rank 0 answers with the id of its run, the number that it has drawn. The first
 *                   rank 0 to do so has that rank
 *   run-ID/         of one run. Here rank R takes its seat, the file joined-R, which only one can
 *                   have; who comes second draws another number and says hello again
 *
 * All else of a run happens in run-ID. A file appears whole, by link, which does nothing if there
 * is one of that name. The directory zeroth-UID stays, empty, when all runs are over.
 */
#ifndef ZR_BOOT_ENV_H
#define ZR_BOOT_ENV_H

#include <stdatomic.h>
#include <zeroth/boot.h>

#define MAX_RANKS 4096
#define MAX_VALUE 4096
#define MAX_KEY   64
#define NAME_ROOM 256
#define PATH_ROOM 4096

/* What a rank says of itself. */
struct ze_hello {
	uint64_t draw;
	uint64_t job;     /* hash of what the launcher calls its job, 0: it does not say */
	uint64_t machine; /* hash of what tells whose process numbers are meant, 0: not known */
	int32_t rank, world, local_rank, local_world; /* local_world 0: not known */
	int32_t pid, rsv;
	char host[64];
};

struct env_opts {
	const char *directory;
	double timeout;
	const char *address, *interface, *token; /* "": what the launcher says, any, none */
	int64_t port;                            /* 0: what the launcher says */
};

struct zt_client;
struct zt_server;
struct zt_place;

/* Says where rank 0 listens, and the secret that all ranks share: token[ZT_TOKEN + 1]. *listening
 * is -1; rank 0 may make it a socket that listens there. */
typedef int ze_find(struct zr_inst *b, struct zt_place *place, char *token, int *listening);

struct zr_inst {
	const struct zr_host *h;
	const struct env_opts *o;
	struct zr_boot_info info;
	struct ze_hello mine;
	struct ze_hello *all;   /* [world], NULL: one rank alone */
	uint64_t id;            /* of this run, 0: not known yet */
	int meeting, run;       /* open directories, -1: not open */
	_Atomic uint32_t begun; /* files that this rank has begun to write */
	unsigned char *here;    /* [world] scratch: ranks that a wait has seen */
	struct ze_hello misfit; /* the last rank seen that has another world; its world 0: none */
	uint32_t fences;
	ze_find *find;
	struct zt_client *tcp;    /* NULL: they meet in a directory */
	struct zt_server *server; /* of rank 0 */
};

/* role.c */
struct zr_inst *ze_new(const struct zr_host *h, const void *opts); /* NULL: it has failed */
void ze_destroy(struct zr_inst *b);
/* The ranks meet, once `mine` and `find` are set. */
int ze_take_ranks(struct zr_inst *b);
extern const struct zr_boot_v1 ze_vtbl;

/* place.c: the directories */
int ze_open_meeting(struct zr_inst *b);
int ze_make_run(struct zr_inst *b);              /* as rank 0: that of b->id */
int ze_open_run(struct zr_inst *b, uint64_t id); /* 1, 0: there is none, or < 0 */
void ze_close(struct zr_inst *b);
/* Descriptor of the run directory `name` of the meeting, if it is this user's alone, or -1. */
int ze_enter_run(const struct zr_inst *b, const char *name);
/* a name in the meeting or the run for messages */
const char *ze_path(const struct zr_inst *b, int dir, const char *name, char *out);

/* file.c: `dir` is the meeting or the run; a file says the nonce that it was written with */
/* 0 or errno, EEXIST for a name that is there already; fails nothing. [any] */
int ze_try_write(struct zr_inst *b, int dir, uint64_t nonce, const char *name, const void *data,
		 uint64_t bytes);
/* 1 written, 0 there is one already, < 0 */
int ze_write(struct zr_inst *b, int dir, uint64_t nonce, const char *name, const void *data,
	     uint64_t bytes);
/* in the run, where a file of that name is a failure */
int ze_write_new(struct zr_inst *b, const char *name, const void *data, uint64_t bytes);
/* ZE_TORN: no whole file of this nonce; ZE_REFUSED: none that this user wrote for itself;
 * ZE_FAILED: it cannot be read */
enum { ZE_ABSENT, ZE_READ, ZE_TORN, ZE_REFUSED, ZE_FAILED };
/* One of these, and why[NAME_ROOM] has the reason for the last two; at most `room` bytes of
 * data. */
int ze_try_read(int dir, uint64_t nonce, const char *name, void *data, uint64_t room,
		uint64_t *bytes, char *why);
/* as above, but what is refused is a failure */
int ze_read(struct zr_inst *b, int dir, uint64_t nonce, const char *name, void *data, uint64_t room,
	    uint64_t *bytes);
/* in the run: 1, 0: not there, < 0 */
int ze_read_run(struct zr_inst *b, const char *name, void *data, uint64_t room, uint64_t *bytes);
int ze_is_there(struct zr_inst *b, const char *name); /* in the run: 1, 0 or < 0 */
void ze_remove(int dir, const char *name);

/* sweep.c */
void ze_sweep(const struct zr_inst *b); /* removes what dead runs have left in the meeting */
void ze_remove_run(struct zr_inst *b);

/* wait.c */
struct ze_wish {
	/* 1, 0, or < 0; marks the ranks that it sees in b->here */
	int (*done)(struct zr_inst *b, struct ze_wish *w);
	const char *what; /* "to join"; or with key NULL */
	const char *key;  /* a key is waited for, not ranks */
	void *data;
	uint64_t bytes;
	int stops; /* who waits too long tells the others of the run */
};
int ze_wait(struct zr_inst *b, struct ze_wish *w, double timeout);
/* Tells the other ranks why this one stops; the first reason stands. [any] */
void ze_stop(struct zr_inst *b, const char *why);

/* name.c: names of files, and who a process is */
const char *ze_name(char *out, const char *what, int32_t rank); /* of the run */
const char *ze_name_drawn(char *out, const char *what, int32_t rank, uint64_t draw);
const char *ze_name_run(char *out, uint64_t id);
/* Whether a name was made by ze_name_drawn or ze_name_run. */
int ze_is_drawn(const char *name, const char *what, int32_t *rank, uint64_t *draw);
int ze_is_run(const char *name, uint64_t *id);
void ze_name_process(struct ze_hello *m);
/* Whether it is a process of this machine that has ended. [any] */
int ze_has_ended(const struct zr_inst *b, const struct ze_hello *m);
uint64_t ze_hash(uint64_t hash, const char *text); /* `hash`: of what comes before, 0: nothing */

/* join.c */
int ze_join(struct zr_inst *b); /* fills all, id */
void ze_leave(struct zr_inst *b);
/* 1: a rank has stopped the run, or has ended on this machine without leaving; why[room] says
 * which one. 0: none that is known. [any] */
int ze_stopped(const struct zr_inst *b, char *why, uint64_t room);

#endif
