/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.h - a session's state to files and back, at the end of a step. Every function is
 * collective over the ranks unless it says otherwise. [main]
 *
 * A rank writes the part it answers for, in the format of manifest.h; rank 0 makes the directory,
 * and gives it its name when all files are durable. A checkpoint that cannot be written is an error
 * in the log and in the statistics, and training goes on; these functions fail only where ranks
 * cannot talk to each other any more, or are not the same any more.
 *
 * With async, a thread writes entries from where they lie while the next micro-batches run: state
 * changes only in an update, and before that changes a sub-group whose entries are not written yet
 * they are copied, ZR_CKPT_COPIES bytes at most, or waited for. State without an address that the
 * host can read is saved synchronously.
 */
#ifndef ZR_FILES_CHECKPOINT_H
#define ZR_FILES_CHECKPOINT_H

#include "core/session.h"
#include "files/checkpoint/dir.h"

#define ZR_CKPT_COPIES (64u << 20)

struct zr_saver;

struct zr_saver_stats {
	int64_t saved, failed;
	int64_t last;   /* step of the last one saved; -1: none */
	uint64_t bytes; /* of its files */
	double seconds; /* from the first saved one's start to its end, and of all others */
	double stall;   /* of that, training waited */
	char why[512];  /* the last failure */
};

/* dir: as rank 0 has it. */
int zr_saver_open(struct zr_session *s, const char *dir, const struct zr_checkpoint_opts *o,
		  struct zr_saver **out, struct zr_error *err);
/* Saves the session as it is. losses: [s->step] fp32, one per step; they stay where they are until
 * it is saved. With keep_best the checkpoint of best->step is called `best`, if there is one. */
int zr_saver_save(struct zr_saver *v, const float *losses, const struct zr_best *best,
		  struct zr_error *err);
/* Between two steps: ends an asynchronous save that all ranks have written. */
int zr_saver_poll(struct zr_saver *v, struct zr_error *err);
int zr_saver_finish(struct zr_saver *v, struct zr_error *err);            /* waits for it */
const struct zr_saver_stats *zr_saver_stats_of(const struct zr_saver *v); /* not collective */
/* not collective; what is not finished is abandoned; NULL is fine */
void zr_saver_close(struct zr_saver *v);

/* Fills a session that was just opened from `path`: a checkpoint, or a directory of them. Of a
 * directory the one that `latest` names or, where that is not whole, the newest whole one before
 * it; what is passed over is logged. *step: that of the checkpoint, or -1 where the directory has
 * none. losses: room for one of each step in [train] steps. It takes ZR_READER_BYTES beside the
 * session while it reads. */
int zr_checkpoint_load(struct zr_session *s, const char *path, float *losses, struct zr_best *best,
		       int64_t *step, struct zr_error *err);
/* to names that `here` has; or NULL */
extern void (*zr_renamed_settings)(json_t *saved, const json_t *here);

/* replicas.c: from now on checkpoints leave the frozen tensors out, whose values are those of the
 * files that the model began with: a checkpoint has their hashes only. Before anything is loaded or
 * saved. */
int zr_checkpoint_leave_out(struct zr_session *s, struct zr_error *err);

/* describe.c: the meta of a manifest, as strings: what the model says of itself, and the directory
 * that it began with. *meta is NULL afterwards where memory ended. */
void zr_describe_model(const struct zr_setup *p, json_t **meta);

/* ---- inside ---- */

/* describe.c: a manifest of the session; what it points to lives as long as the session, or until
 * it is freed. */
int zr_describe_session(const struct zr_session *s, struct zr_manifest *out, struct zr_error *err);

/* What ranks tell each other about a checkpoint. All members int64_t or text. */
struct zr_ckpt_word {
	int64_t code; /* 0, or ZR_E* */
	int64_t done;
	int64_t bytes, hash;
	char text[992];
};
/* words: [world], in rank order. Returns the first with a code, or NULL, in *bad. */
int zr_ckpt_share(struct zr_session *s, const struct zr_ckpt_word *mine, struct zr_ckpt_word *words,
		  const struct zr_ckpt_word **bad, struct zr_error *err);
void zr_ckpt_say(struct zr_ckpt_word *w, const struct zr_error *e); /* code and text of a failure */

/* entry_data.c: blocks [from, from + n) of an entry as they are in the file: returns where, which
 * may be `out` (room for n blocks of fp32); NULL: it failed. work: room for as much again, for data
 * that only requests reach. */
const void *zr_entry_get(struct zr_session *s, const struct zr_ckpt_entry *e, int64_t from,
			 int64_t n, void *out, void *work, struct zr_error *err);
/* The other way round, with padding, zero. */
int zr_entry_put(struct zr_session *s, const struct zr_ckpt_entry *e, int64_t from, int64_t n,
		 void *data, struct zr_error *err);
/* So many bytes in any region, as the host reads them: in place, or fetched to buf; NULL: it
 * failed. */
const void *zr_spot_get(struct zr_session *s, struct zr_spot spot, uint64_t bytes, void *buf,
			struct zr_error *err);
int zr_entries_visible(const struct zr_session *s); /* all has an address that the host can read */
/* bytes of so many of its blocks */
uint64_t zr_entry_offset(const struct zr_session *s, const struct zr_ckpt_entry *e, int64_t blocks);

/* replicas.c: whether all ranks still have the same in what each has whole: what differs is the
 * error, on all of them. *bad: the word of a rank that could not look, or NULL. */
int zr_replicas_compare(struct zr_session *s, struct zr_ckpt_word *words,
			const struct zr_ckpt_word **bad, struct zr_error *err);

#endif
