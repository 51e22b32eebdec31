/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/data.h - STABLE. Role "data", interface "zr.data/1": the tokens of each micro-batch, as a
 * pure function of (seed, step, slot). A slot is the place of a micro-batch in the global batch.
 * Neither the number of ranks nor a restart changes what is learned.
 */
#ifndef ZEROTH_DATA_H
#define ZEROTH_DATA_H

#include <zeroth/plugin.h>
#if ZR_HEADERS_NEED < 4
#undef ZR_HEADERS_NEED
#define ZR_HEADERS_NEED 4
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_SPLIT_TRAIN 0
#define ZR_SPLIT_VAL   1

/* A sequence holds documents, of which no token sees another one; not every token is a target. */
#define ZR_DATA_DOCUMENTS 1u

#define ZR_NO_TARGET (-1)

/* GROWABLE; filled by info(), which is called again after prepare(). */
struct zr_data_info {
	uint32_t size;
	uint32_t flags;       /* ZR_DATA_* */
	int64_t vocabulary;   /* every token is below this; 0 if the files do not say */
	int64_t train_tokens; /* 0: none */
	int64_t val_tokens;
	char describe[160]; /* one line for people: "jargon.txt.gz: 1.6 M bytes, 5 % held out" */
	int64_t train_sequences; /* of an epoch, once prepared; 0: not told */
	int64_t val_sequences;
};

/* One micro-batch. GROWABLE. */
struct zr_batch {
	uint32_t size;
	int32_t split; /* ZR_SPLIT_* */
	uint64_t seed;
	int64_t step;              /* 0-based; 0 for ZR_SPLIT_VAL */
	int64_t slot;              /* ZR_SPLIT_VAL: 0-based number of the evaluation batch */
	int64_t slots;             /* slots per step */
	int64_t sequences, length; /* B, T */
	int32_t *inputs, *targets; /* [B*T] each, in host memory; the plugin writes them, targets[i]
				    * being the token after inputs[i] */
	/* [B*T] each, written where info() says ZR_DATA_DOCUMENTS, else NULL; targets may be
	 * ZR_NO_TARGET or ZR_PADDING then */
	int32_t *starts;    /* where in its sequence the token's document starts */
	int32_t *positions; /* of the token in its document, below the model's context */
	/* of the target, finite and not negative; 0 where there is none */
	float *weights;
	/* ZR_SPLIT_VAL: 0: sequences go round; 1: they do not, and may end early: rows behind the
	 * last token have ZR_NO_TARGET, whatever info() says, and any token */
	int32_t once, rsv;
};

/* A file of the data: what a checkpoint remembers, so that no training goes on with another by
 * mistake. GROWABLE. */
struct zr_data_file {
	uint32_t size;
	uint32_t sampled; /* 0: the hash is of all bytes; 1: of samples, and the number of bytes */
	const char *name; /* for messages; owned by the instance */
	int64_t bytes;    /* as they are learned: of a compressed file, decompressed */
	uint64_t hash;    /* the same for the same bytes, whatever the name and the place */
	/* set by who asks: 1: the hash must be of all bytes, however long that takes; see
	 * `sampled` for whether it is */
	uint32_t whole, rsv;
};

/* A number that tells people what the data consists of. GROWABLE. */
struct zr_data_count {
	uint32_t size, rsv;
	const char *name; /* owned by the instance */
	int64_t value;
	int64_t of; /* what it is a part of; 0: of nothing */
};

struct zr_look;

/* GROWABLE. */
struct zr_data_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_data_info *); /* [main] */
	/* [main] Checks that sequences of `length` tokens can be drawn and, where that is cheap to
	 * know, that every token is below `vocabulary`. Fails with a text (too short, ...). Called
	 * once before training. */
	int (*prepare)(struct zr_inst *, int64_t length, int64_t vocabulary);
	/* [step] Fills a batch; the same request always gives the same tokens. Fails with value,
	 * file and position of a token that is not below the vocabulary that prepare() was
	 * given. */
	int (*batch)(struct zr_inst *, const struct zr_batch *);
	/* (optional) [pure] Text of a token: writes at most 16 bytes to out and returns their
	 * number. Needs no instance. */
	int (*decode)(const void *opts, int32_t token, char *out);
	/* (optional) [pure] Tokens of a text: writes at most `max` and returns how many there are
	 * in all. */
	int64_t (*encode)(const void *opts, const char *text, int64_t bytes, int32_t *out,
			  int64_t max);
	/* (optional) [main] The i-th file, from 0, of what is learned and then of what evaluates,
	 * in the order in which they are read; a name of NULL behind the last. Called before a
	 * training resumes and when it is saved: what takes long is done once. */
	int (*file)(struct zr_inst *, uint32_t i, struct zr_data_file *);
	/* (optional, but not with ZR_DATA_DOCUMENTS) [step] The sum of all weights of step `step`,
	 * over its `slots` slots, or of the evaluation batch `slot`: loss and gradients are divided
	 * by it. Known before any batch is filled; `slot` does not matter in training, and the
	 * arrays are NULL. */
	int (*targets)(struct zr_inst *, const struct zr_batch *, double *sum);
	/* (optional) [main] The i-th number, from 0, about what is learned (split = ZR_SPLIT_TRAIN)
	 * or evaluates; a name of NULL behind the last. Called after prepare(). */
	int (*count)(struct zr_inst *, int32_t split, uint32_t i, struct zr_data_count *);
	/* (optional) [main] Documents as the plugin made them, for people: zeroth/look.h. What is
	 * shown is what batch() gives, or it fails. Called after prepare(). */
	int (*look)(struct zr_inst *, const struct zr_look *);
};

#ifdef __cplusplus
}
#endif
#endif
