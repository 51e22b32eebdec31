/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.h - a rank's file of a checkpoint, written by the calling thread or by one of its own
 * while training goes on.
 */
#ifndef ZR_FILES_CKPT_WRITER_H
#define ZR_FILES_CKPT_WRITER_H

#include "files/checkpoint/checkpoint.h"

struct zr_ckpt_writer;

/* dir: of the checkpoint. dir, m and losses are borrowed until zr_writer_close. zr_writer_run fills
 * m->file[rank]. */
int zr_writer_open(struct zr_session *s, const struct zr_manifest *m, const char *dir,
		   const float *losses, struct zr_ckpt_writer **out, struct zr_error *err);

/* Writes this rank's part and reads it back. Any one thread calls it, once. It remembers what fails
 * for zr_writer_close. */
void zr_writer_run(struct zr_ckpt_writer *w);

/* [step] While another thread is in zr_writer_run: returns when the present values of the sub-group
 * are written, or copied. Returns the seconds that this took. */
double zr_writer_before_update(struct zr_ckpt_writer *w, const struct zr_subgroup *p);

/* [step] Lets zr_writer_run in another thread end early, as failed. */
void zr_writer_stop(struct zr_ckpt_writer *w);

/* After zr_writer_run: sets *result to the size and the hash of the part, or to what failed, and
 * frees w. */
void zr_writer_close(struct zr_ckpt_writer *w, struct zr_ckpt_word *result);

#endif
