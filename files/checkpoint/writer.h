/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.h - a rank's file of a checkpoint, written by the calling thread or by one of its own
 * while training goes on.
 */
#ifndef ZR_FILES_CKPT_WRITER_H
#define ZR_FILES_CKPT_WRITER_H

#include "files/checkpoint/checkpoint.h"

struct zr_ckpt_writer;

/* dir: of the checkpoint. It, m and losses stay until the end; m->file[rank] is filled. */
int zr_writer_open(struct zr_session *s, const struct zr_manifest *m, const char *dir,
		   const float *losses, struct zr_ckpt_writer **out, struct zr_error *err);

/* Writes all of it and reads it back; to be called once, by any one thread. What fails is
 * remembered. */
void zr_writer_run(struct zr_ckpt_writer *w);

/* [step] With zr_writer_run in another thread: returns when what the sub-group has now is written,
 * or copied. Seconds that it took. */
double zr_writer_before_update(struct zr_ckpt_writer *w, const struct zr_subgroup *p);

/* [step] Lets zr_writer_run in another thread end early, as failed. */
void zr_writer_stop(struct zr_ckpt_writer *w);

/* After zr_writer_run: size and hash, or what failed. Frees it. */
void zr_writer_close(struct zr_ckpt_writer *w, struct zr_ckpt_word *result);

#endif
