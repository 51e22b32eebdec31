/* SPDX-License-Identifier: Apache-2.0
 *
 * env.h - parts of the boot plugin `env`: ranks by environment variables, values in a directory
 * that all see.
 *
 * Files of an earlier run may lie in the directory, and rank 0 may come last. So a rank leaves a
 * hello with a number that it has just drawn, and believes a `run` file only if that repeats the
 * number; rank 0 goes on rewriting `run` from the hellos it sees until every rank has answered in
 * the directory zeroth-<id> of this run, where all the rest happens. Every file appears whole, by
 * rename.
 */
#ifndef ZR_BOOT_ENV_H
#define ZR_BOOT_ENV_H

#include <zeroth/boot.h>

#define MAX_RANKS 4096
#define MAX_VALUE 4096
#define MAX_KEY 64
#define PATH_ROOM 4096

/* What a rank says of itself. */
struct ze_hello {
	uint64_t draw;
	int32_t rank, world, local_rank, local_world; /* local_world 0: not known */
	char host[64];
};

struct env_opts {
	const char *directory;
	double timeout;
};

struct zr_inst {
	const struct zr_host *h;
	const struct env_opts *o;
	struct zr_boot_info info;
	struct ze_hello mine;
	struct ze_hello *all;  /* [world], NULL: one rank alone */
	uint64_t id;           /* of this run */
	unsigned char *here;   /* [world] scratch: ranks that a wait has seen */
	uint32_t fences;
};

/* file.c: paths are `directory`/NAME, or with `run` `directory`/zeroth-<id>/NAME */
int ze_make_run(struct zr_inst *b);   /* the directory of the run */
void ze_remove_run(struct zr_inst *b);
void ze_sweep(struct zr_inst *b);     /* removes the directories of earlier runs */
int ze_write(struct zr_inst *b, int run, const char *name, const void *data, uint64_t bytes);
/* bytes; -1: not there */
int64_t ze_read(struct zr_inst *b, int run, const char *name, void *data, uint64_t room);
void ze_remove(struct zr_inst *b, int run, const char *name);

/* wait.c */
struct ze_wish {
	/* 1, 0, or < 0; marks the ranks that it sees in b->here */
	int (*done)(struct zr_inst *b, struct ze_wish *w);
	const char *what;  /* "to join"; or with key NULL */
	const char *key;   /* a key is waited for, not ranks */
	void *data;
	int64_t bytes;
};
int ze_wait(struct zr_inst *b, struct ze_wish *w, double timeout);
double ze_now(void);

/* join.c */
int ze_join(struct zr_inst *b); /* fills all, id */

#endif
