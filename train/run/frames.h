/* SPDX-License-Identifier: Apache-2.0
 *
 * frames.h - what `zeroth launch` and its agents on other machines say to each other, over the
 * standard input and output of a remote shell.
 *
 *   launcher                              agent
 *                                         a line: ZR_FRAMES_HELLO and the version of zeroth
 *   PORT    only to the first machine ->  PORT    one that is free there
 *   JOB     what to train             ->  OUT, ERR what the ranks print, as it comes
 *   SIGNAL  for the ranks                 BEAT    often: that it is there, how far it is
 *                                         END     why the ranks ended; the last one
 *
 * Each frame is a head and its bytes. The end of the input asks an agent to end its ranks.
 */
#ifndef ZR_TRAIN_RUN_FRAMES_H
#define ZR_TRAIN_RUN_FRAMES_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "train/beat.h"
#include "train/run/supervise.h"

#define ZR_FRAMES_HELLO "zeroth-agent 1 "
#define ZR_FRAMES_MOST  (1u << 20) /* bytes of one */

enum zr_frame_kind {
	ZR_FRAME_PORT = 1, /* to an agent: nothing; from it: int32_t, or -errno */
	ZR_FRAME_JOB,      /* struct zr_frame_job, and texts behind it */
	ZR_FRAME_SIGNAL,   /* int32_t */
	ZR_FRAME_OUT,      /* text */
	ZR_FRAME_ERR,      /* text */
	ZR_FRAME_BEAT,     /* struct zr_frame_beat */
	ZR_FRAME_END       /* struct zr_frame_end */
};

struct zr_frame_head {
	uint32_t kind, bytes;
};

/* Ranks [first, first + n) of `world`. Behind it are texts, each with its zero: the directory,
 * n_variables of the environment as NAME=value, n_words of the command line. */
struct zr_frame_job {
	int32_t first, n, world, n_variables, n_words;
};

struct zr_frame_beat {
	uint64_t count;
	int64_t steps, saved, batch, micro, latest;
	int32_t there;
	char dir[PATH_MAX], checkpoints[PATH_MAX];
};

struct zr_frame_end {
	struct zr_frame_beat beat;
	struct zr_crew_end end;
	int32_t code;
};

/* What has arrived of a descriptor that does not block. */
struct zr_frames {
	int fd;
	char *data; /* owned: [ZR_FRAMES_MOST] and a head; NULL until the first call */
	size_t used;
};

/* Writes a whole frame. 0; -1: nobody reads any more. */
int zr_frame_write(int fd, int kind, const void *data, size_t bytes);

/* Reads what there is. 1; 0: nothing more now; -1: the other side has gone, or there is no
 * memory. */
int zr_frames_fill(struct zr_frames *f);

/* The first whole frame: its head, with its bytes behind it until zr_frames_drop. NULL: there is
 * none yet. *broken: what came is no frame. */
const struct zr_frame_head *zr_frames_first(const struct zr_frames *f, int *broken);
void zr_frames_drop(struct zr_frames *f, size_t bytes); /* the first bytes */
void zr_frames_free(struct zr_frames *f);

/* Whether an agent can have sent it: numbers with which a restart can reckon. */
int zr_frame_is_beat(const struct zr_frame_beat *b);
/* Between the beat of this process and a frame. */
void zr_frame_from_beat(const struct zr_beat *b, struct zr_frame_beat *out);
void zr_frame_to_beat(const struct zr_frame_beat *in, struct zr_beat *b);

#endif
