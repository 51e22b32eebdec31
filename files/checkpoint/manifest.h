/* SPDX-License-Identifier: Apache-2.0
 *
 * manifest.h - what a checkpoint says of itself, and which entries its files have. [main]
 *
 * A checkpoint is a directory with manifest.json and one safetensors file per rank that wrote it.
 * Each has one of as many equal parts of each unit as there are ranks: the one with the rank's
 * number or, of a unit whose state was split over fewer ranks, one that it held (zr_rank_part in
 * core/model/mesh.h). An entry is a stretch of one tensor's master or optimizer state, cut at
 * blocks, without padding, of at most entry_blocks blocks: "h.0.ln_1.weight/exp_avg@0" is one
 * dimension of elements, the last number that of the first. Masters are fp32. The __metadata__ of a
 * file has the XXH3-64 of each entry under its name; the manifest has that of each file's header,
 * and its own: so every byte is covered.
 *
 * The cursor of the data is the step, and so is that of the random numbers: both are functions of
 * (seed, step, slot).
 */
#ifndef ZR_FILES_MANIFEST_H
#define ZR_FILES_MANIFEST_H

#include <limits.h>
#include <unistd.h>
#include <zeroth/optimizer.h>
#include <zeroth/precision.h>

#include <math.h>

#include "core/model/layout.h"
#include "files/safetensors.h"

/* of the format; older ones are read. Version 2 is written with frozen tensors, 3 with units whose
 * state was split over some of the ranks, 4 with tensors that have persistent numbers, 5 with
 * optimizers that have scalars of the run, weights for evaluation or states by shape; else 1. */
#define ZR_CKPT_VERSION      5
#define ZR_CKPT_ENTRY_BLOCKS 2048 /* 4 Mi elements */
/* in meta: config.json of [model] path, as text */
#define ZR_META_CONFIG  "zeroth.config.json"
#define ZR_META_IGNORED "zeroth.ignored"    /* what of its files the model does not use */
#define ZR_META_PATH    "zeroth.path"       /* and the directory, absolute */
#define ZR_META_ADDED   "zeroth.add_tokens" /* and [model] add_tokens */
#define ZR_META_IDS     "zeroth.added_ids"  /* and their ids, with blanks between them */
#define ZR_META_ROWS    "zeroth.rows"       /* of the embedding there, where it has grown */
#define ZR_META_PREFIX  "zeroth.prefix"     /* and what may be before the names in its files */
#define ZR_DATA_FILE    "data.file "        /* in settings, and a number: which data it is */
/* the entry of rank 0 that has the loss of every step, fp32 */
#define ZR_CKPT_LOSSES "losses"
/* its entry of version 4 that has the persistent numbers of all tensors, fp32, in their order */
#define ZR_CKPT_PERSISTENT "persistent"

struct zr_ckpt_state {
	const char *name;
	int32_t dtype;        /* of an element; ZR_U8: a block is so many bytes: */
	uint32_t block_bytes; /* 0: as many as the tensor says, by its shape */
};
#define ZR_CKPT_STATES 64

struct zr_ckpt_optimizer {
	const char *id;
	uint32_t state_version;
	int32_t n_states;
	struct zr_ckpt_state *state;
	int32_t n_run; /* scalars of the run */
	const char *run_name[ZR_OPT_RUN];
	double run[ZR_OPT_RUN];
	int32_t evaluates; /* number of the state that evaluates, from 1; 0: none */
	int converts;      /* here: it takes states of other versions and types */
};

#define ZR_FROZEN_SAVED 1 /* it has no states */
/* nor entries: its values are in the directory that the model began with */
#define ZR_FROZEN_LEFT_OUT 2

struct zr_ckpt_file {
	uint64_t bytes, header; /* XXH3-64 of all before the data */
};

/* The best evaluation, and how long patience waits for a better one. */
struct zr_best {
	double loss;   /* the lowest of all evaluations, */
	int64_t step;  /* that after this step; -1: none gave a number */
	double lowest; /* of those every [train] eval_every steps; INFINITY: none gave one */
	int64_t since; /* how many of these came after it */
};
#define ZR_BEST_NONE ((struct zr_best){ .step = -1, .lowest = INFINITY })

struct zr_manifest {
	int64_t step, applied; /* as in struct zr_session */
	struct zr_best best;
	int64_t seed;
	int32_t world; /* ranks that wrote it */
	int32_t n_optimizers;
	int64_t entry_blocks;
	struct zr_scale scale;
	int64_t micro, slots, length; /* the batch */
	const char *model, *data;     /* ids of the plugins */
	const char *dtype;            /* of the compute copies, as safetensors has it */
	/* 32 or 24, in fp32, or 16: the compute copies are all there is */
	int32_t master_bits;
	/* of names and shapes, units as the session cuts them; the rest is not known */
	struct zr_layout layout;
	struct zr_ckpt_optimizer *optimizer;
	int32_t *optimizer_of; /* [n_tensors] */
	/* [n_tensors][ZR_CKPT_STATES] bytes per block of states by shape; NULL: there are none */
	uint32_t *by_shape;
	/* [n_tensors] over so many ranks its unit's state was split; 0: over all, or it was not */
	int32_t *ranks;
	uint8_t *frozen; /* [n_tensors] ZR_FROZEN_*; NULL: none is */
	/* [n_tensors] of ZR_FROZEN_LEFT_OUT: XXH3-64 of its values in fp32 */
	uint64_t *source;
	struct zr_ckpt_file *file; /* [world]; NULL: not known yet */
	json_t *settings;          /* {"optimizer.lr": "0.001"}: what changes results */
	int other_data;            /* of a training that goes on: its data may be another */
	json_t *plugins;           /* {"optimizer": "ID VERSION"} */
	json_t *meta;              /* {"n_layer": "12"}: the model's config.json */
	const char *config;        /* the resolved configuration as an INI */
	/* of one that was read: owns the above */
	json_t *root;
	struct zr_unit *units;
	struct zr_tensor *tensors;
};

/* ---- as a file ---- */

int zr_manifest_frozen(const struct zr_manifest *m, int32_t tensor); /* ZR_FROZEN_*, or 0 */

/* Returned owned; NULL: out of memory. The first line has the hash of the others. */
char *zr_manifest_text(const struct zr_manifest *m);

/* Whether one that was read is `m`, and its text the one that was written. */
int zr_manifest_same(const struct zr_manifest *m, const char *text, const struct zr_manifest *back,
		     struct zr_error *err);

/* path: for messages. A damaged one, or one of a newer version, is an error. On failure there is
 * nothing to free. */
int zr_manifest_parse(const char *text, size_t bytes, const char *path, struct zr_manifest *out,
		      struct zr_error *err);
int zr_manifest_read(const char *dir, struct zr_manifest *out, struct zr_error *err);
static inline void zr_ckpt_close(int fd)
{
	if (fd >= 0)
		close(fd);
}
void zr_manifest_free(struct zr_manifest *m); /* read, or described */

/* Whether training can go on from `saved` as `here` says: what must be equal and is not is refused
 * by name. What changes the results from here on is logged, if `log`. */
int zr_manifest_accepts(const struct zr_manifest *here, const struct zr_manifest *saved, int log,
			struct zr_error *err);

/* ---- entries ---- */

/* Entries that are of no one tensor have these instead of its number. */
#define ZR_ENTRY_LOSSES     (-1)
#define ZR_ENTRY_PERSISTENT (-2)

struct zr_ckpt_entry {
	int32_t tensor;        /* or, below 0, ZR_ENTRY_* */
	int32_t state;         /* of its optimizer; -1: the master */
	int64_t first, blocks; /* of the tensor */
	int64_t elements;
	uint64_t at, bytes; /* in the data of the file */
};

/* Of a state by shape of a tensor; of so much of any state of it. */
uint32_t *zr_ckpt_by_shape(const struct zr_manifest *m, int32_t tensor, int32_t state);
uint64_t zr_ckpt_state_bytes(const struct zr_manifest *m, int32_t tensor, int32_t state,
			     int64_t blocks, int64_t elements);
static inline int zr_ckpt_is_by_shape(const struct zr_ckpt_state *st)
{
	return st->dtype == ZR_U8 && !st->block_bytes;
}
/* All entries of a rank's file, in order: unit by unit, tensor by tensor. Returned owned; NULL: out
 * of memory. */
struct zr_ckpt_entry *zr_entries(const struct zr_manifest *m, int32_t rank, int64_t *n);
/* The entry as a tensor, its name written to `name`; elements of ZR_U8 are bytes. */
#define ZR_ENTRY_NAME 512
struct zr_st_tensor zr_entry_tensor(const struct zr_manifest *m, const struct zr_ckpt_entry *e,
				    char name[ZR_ENTRY_NAME]);

#define ZR_CKPT_NAME 64
const char *zr_ckpt_file_name(int32_t rank, int32_t world, char name[ZR_CKPT_NAME]);
const char *zr_hex(uint64_t v, char text[17]); /* 16 digits: hashes as the files have them */

int zr_ckpt_dir(const char *path); /* opened; -1: errno. One that is called step-... is no link. */
/* opened, -1: errno */
int zr_ckpt_file_path(const struct zr_manifest *m, const char *dir, int32_t rank,
		      char path[PATH_MAX]);
/* Opens a rank's file and checks that it is the one the manifest means: size, header. */
int zr_ckpt_open(const struct zr_manifest *m, const char *dir, int32_t rank, struct zr_st *out,
		 struct zr_error *err);

/* The tensor of an entry in its file, and the hash it was written with, as text; it is as the
 * manifest declares it. Texts belong to the file. [any] */
struct zr_ckpt_found {
	const struct zr_st_tensor *tensor;
	const char *hash;
	char name[ZR_ENTRY_NAME];
};
int zr_ckpt_find(const struct zr_manifest *m, const struct zr_st *file,
		 const struct zr_ckpt_entry *e, struct zr_ckpt_found *out, struct zr_error *err);
/* or it is damaged */
int zr_ckpt_same(const struct zr_st *file, const struct zr_ckpt_found *f, uint64_t hash,
		 struct zr_error *err);

#endif
