/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - bytes and offsets of everything a session holds, computed before anything is
 * allocated. The session allocates exactly this (invariant I2): an arena of device memory and
 * one of host memory, and one object of an [offload.X] store for each region that lives there.
 */
#ifndef ZR_CORE_PLAN_H
#define ZR_CORE_PLAN_H

#include <stdio.h>

#include "core/base/error.h"
#include "core/model/mesh.h"

struct zr_setup;
struct zr_setup_facts;

/* Who holds a region. The last four are the sections [offload.X], in this order. */
enum zr_store {
	ZR_STORE_DEVICE, /* arenas of core */
	ZR_STORE_HOST,
	ZR_STORE_OPTIMIZER,
	ZR_STORE_GRADIENT,
	ZR_STORE_PARAM,
	ZR_STORE_ACTIVATION,
	ZR_STORES
};
#define ZR_OFFLOADS (ZR_STORES - ZR_STORE_OPTIMIZER)

/* What lies together: ZR_R_ and its name, what people call it, what it is. */
#define ZR_REGIONS(R)                                                                              \
	R(PARAM, "parameters") /* compute copies that are not also the master */                   \
	R(PARAM_OFFLOADED, "offloaded parameters") /* of split units, in [offload.param] */        \
	R(MASTER, "master parameters")                                                             \
	R(GRAD, "gradients")               /* fp32 sums over the slots, at their owners */         \
	R(GRAD_BUFFER, "gradient buffers") /* a micro-batch's gradients on their way to the sum */ \
	R(PARTS, "parts of gradients")     /* and of those that come in parts the parts so far */  \
	R(LOCAL, "local gradients")        /* this rank's sums, with reduction = local */          \
	R(MICRO_SUMS, "micro-batch sums")  /* on a device, until they go to the sums */            \
	R(WAITING, "partial sums")         /* of trees over several micro-batches */               \
	R(GATHER, "gathered parameters")   /* of units that are split */                           \
	R(STATE, "optimizer state")                                                                \
	R(ACT, "activations")                                                                      \
	R(ACT_OFFLOADED, "offloaded activations") /* in [offload.activation] */                    \
	R(WORK, "workspace")                      /* scratch of operations, tables of an update */ \
	R(COMM, "communication") /* what ranks sent, where not read in place, or the sum */        \
	R(BATCH, "batch")        /* tokens and losses */                                           \
	R(HOST, "host tables")   /* what core reads: losses, block sums, the exchange */           \
	R(STAGING, "staging") /* sub-groups between tiers; sums from disk to what adds to them */  \
	R(CHUNK, "staging") /* near masters: some blocks in fp32, parts of matrices on the way */  \
	R(MEASURE, "workspace")                  /* block sums where only the device can write */  \
	R(GRAD_BOUNCE, "gradients on their way") /* on the host, if copies alone reach */          \
	R(BOUNCE, "transfers") /* what passes through host memory, see core/program/route.h */     \
	R(HOST_COMM, "communication") /* on its way between such a device and other ranks */       \
	R(CACHE, "key-value cache")   /* what layers keep of the tokens before, when sampling */   \
	R(WHOLE, "whole matrices")    /* a matrix, its work memory */                              \
	R(PERSISTENT, "persistent numbers") /* of tensors, all of them on every rank */            \
	R(SCORES, "largest scores")         /* of heads, where only the device can write */

#define ZR_REGION_ID(id, what) ZR_R_##id,
enum zr_region_id { ZR_REGIONS(ZR_REGION_ID) ZR_R_COUNT };

struct zr_region {
	const char *what;
	uint64_t bytes;
	uint64_t offset; /* in its arena; the same for all whose places are those of buffers */
	/* bytes from there on among which it has its places: its own, or of all buffers */
	uint64_t room;
	uint64_t added; /* bytes that it adds to what others take: less where it shares */
	int32_t store;  /* ZR_STORE_* */
	int32_t tier;   /* ZR_TIER_* of that store */
};

/* A place in a region. */
struct zr_spot {
	int32_t region;
	int32_t buffer; /* of the lowered program that it is in, as in zr_operand; 0: none */
	uint64_t at;    /* bytes */
};

/* A kind of data that an update reads or writes sub-group by sub-group; states follow. */
enum { ZR_D_MASTER, ZR_D_GRAD, ZR_D_LOWP, ZR_D_STATE };

/* Where a unit's parts lie. "Whole" parts hold world * per blocks, so that an all-gather can
 * work in place. */
struct zr_unit_memory {
	struct zr_share own;  /* the blocks whose gradients this rank adds */
	struct zr_share held; /* the blocks whose master and state it holds */
	/* those of them that it alone saves, and counts in sums over parameters */
	struct zr_share counted;
	int64_t param_per; /* blocks per rank of the parameters' group */
	/* 1: the compute copy is in ZR_R_PARAM_OFFLOADED: a layer needs it gathered, in a group of
	 * one too */
	int offloaded;
	struct zr_spot param; /* compute copy: whole, or this rank's share of its group */
	union {               /* of the held blocks */
		struct zr_spot datum[ZR_D_STATE]; /* by ZR_D_* */
		struct {
			struct zr_spot master;    /* nothing with master = none */
			struct zr_spot grad;      /* sums; until the last contribution is added
						   * those of this rank's own blocks */
			struct zr_spot held_copy; /* compute copy; often inside param or master */
		};
	};
	struct zr_spot local; /* whole, with reduction = local */
	/* of the own blocks, where the device adds up micro-batches whose sums lie elsewhere */
	struct zr_spot micro_sum;
	/* sums of the own blocks that wait for the other half of a tree, level by level */
	struct zr_spot waiting;
	struct zr_spot parts; /* whole, of a gradient that comes in parts */
	int64_t part;         /* blocks of one; 0: it comes whole */
};

/* Consecutive blocks that this rank holds, and that one optimizer updates, with states of as many
 * bytes per block. */
struct zr_block_run {
	int32_t unit, optimizer;
	int32_t tensor;   /* the first of theirs */
	int64_t first, n; /* blocks of the unit */
};

#define ZR_PAGE 4096u /* disks want places of whole pages */

/* Sets of buffers for sub-groups whose data is out of reach of what updates it. */
struct zr_staging {
	int64_t blocks;            /* a sub-group has at most */
	uint64_t ranks;            /* over which any unit's state is split, at most */
	int32_t sets, least;       /* least: without which nothing is beside another */
	int32_t ahead;             /* sub-groups read before their turn */
	int32_t early;             /* before the update begins, in the backward: into all sets */
	int32_t n_data;            /* kinds */
	uint64_t set_bytes, bytes; /* of one set; of all of them */
};
#define ZR_CHUNK     64
#define ZR_HOST_COMM (8u << 20) /* most bytes of ZR_R_HOST_COMM, for up to 65,536 ranks */

#define ZR_SUMS_AT_ONCE 64 /* over parameters, in one exchange */

/* Sums over whole parameters: width 0 where no optimizer has any. */
struct zr_partial_plan {
	uint32_t width; /* sums per tensor: the most of any optimizer */
	/* bytes from the start of ZR_R_HOST: [n_tensors][width] exact, as doubles; those of one
	 * call; what ranks exchange */
	uint64_t sums, totals, call, arrived;
};

/* Tensors that are updated as whole matrices; the w-th of them by rank w modulo their number. */
struct zr_whole_plan {
	int32_t *tensor, n;
	int64_t chunk;    /* blocks that travel at a time */
	uint64_t message; /* bytes of them, at most */
	uint64_t work;    /* bytes from the start of the buffer, where the matrix is */
	uint64_t work_bytes;
};

/* Heads of a layer whose scores [train] qk_clip bounds, 0: none. Where its first largest score is
 * among those of all layers; where its first factor is, of its queries, which those of its keys
 * follow. */
struct zr_clip_layer {
	int32_t heads, kv_heads;
	int64_t score, factor;
};

struct zr_clip_plan {
	struct zr_clip_layer *layer; /* [n_layers]; NULL: no scores are bounded */
	int64_t scores, factors;     /* of all layers; of scores an even number */
	/* bytes from the start of ZR_R_HOST: the largest scores, of this rank and then of all; what
	 * ranks exchange. From that of struct zr_plan's scalars: the factors. */
	uint64_t largest, arrived, factor;
};

struct zr_plan {
	struct zr_region region[ZR_R_COUNT];
	uint64_t arena[2]; /* bytes of ZR_STORE_DEVICE and ZR_STORE_HOST */
	uint64_t kept;     /* of host memory that stores allocate for what lies there */
	struct zr_staging staging;
	/* 1: gradients are written straight into the sums (one slot in all) */
	int direct;
	/* 1: comm adds what ranks send, by a reduce-scatter, where else core folds what an
	 * all-to-all brought */
	int scatter;
	/* what adds there in an order of its own; NULL: comm in rank order, as core would */
	const char *sums;
	/* 1: the device adds up the micro-batches of a step in ZR_R_MICRO_SUMS; their sums go to
	 * ZR_R_GRAD with the last one */
	int device_sums;
	/* 1: the device stores sums on the host without ZR_R_GRAD_BOUNCE */
	int stored_directly;
	struct zr_unit_memory *unit; /* [n_units] */
	/* [n_runs] unit by unit; those of unit u from first_run[u] to first_run[u + 1] */
	struct zr_block_run *run;
	int32_t n_runs, *first_run;
	/* [n_runs][n_states] bytes from the start of ZR_R_STATE to the first block's */
	uint64_t *state;
	uint32_t *state_bytes;   /* [n_tensors][n_states] bytes per block; 0: it has none */
	uint64_t act_grad_bytes; /* gradient of the activations, which layers hand to each other */
	/* Bytes from the start of ZR_R_BATCH. Starts, positions and weights are there where the
	 * data has documents. Where sampling has the logits is loss_sum; loss_bytes, their size. */
	uint64_t tokens, targets, starts, positions, weights, loss_rows, right_rows, loss_sum,
		loss_bytes;
	/* likewise of ZR_R_HOST: tokens to loss_sum again where the host cannot reach the device */
	uint64_t host_batch;
	/* likewise of ZR_R_HOST: the persistent numbers where the host cannot reach the device */
	uint64_t host_persistent;
	uint64_t sumsq, nonfinite; /* likewise, and of ZR_R_MEASURE */
	/* likewise: a struct zr_boundary of each rank; a struct zr_decided; a struct zr_scalars for
	 * each parameter group */
	uint64_t exchange, decided, scalars;
	uint64_t scalars_bytes; /* with what follows them */
	struct zr_clip_plan clip;
	struct zr_partial_plan partial;
	struct zr_whole_plan whole;
};

/* Fills s->plan, and lowers all programs, whose buffers are a part of it. */
int zr_plan_make(struct zr_setup *s, struct zr_error *err);

/* ways.c: stores and tiers of all regions, and by which way gradients go; in which order comm adds
 * them, refused where the section says what it does not do. */
void zr_stores_choose(const struct zr_setup *s, struct zr_plan *p);
/* why not even [train] accumulate_on = device lets a device add up micro-batches; NULL: it does */
const char *zr_why_no_device_sums(const struct zr_setup_facts *f, const struct zr_plan *p);
int zr_sums_choose(const struct zr_setup *s, struct zr_plan *p, struct zr_error *err);

/* staging.c: sets of buffers, once everything else has its place. */
void zr_staging_size(const struct zr_setup *s, struct zr_plan *p);

/* update/runs.c: fills the runs, and places the states. */
void zr_runs_place(const struct zr_setup *s, struct zr_plan *p);

/* update/partial.c: takes bytes of ZR_R_HOST from `at` on; returns where they end. */
uint64_t zr_partial_place(const struct zr_setup *s, struct zr_partial_plan *p, uint64_t at);

/* update/whole.c: an error where what a rank holds of a state does not fill the 64 bytes that the
 * next one begins at. */
int zr_whole_check(const struct zr_setup *s, struct zr_error *err);
void zr_whole_place(struct zr_setup *s, struct zr_whole_plan *p, int64_t chunk);

/* Blocks of a tensor's unit whose master and state a rank holds: n may be 0. */
struct zr_share zr_rank_holds(const struct zr_setup_facts *f, int32_t tensor, int rank);
void zr_plan_free(struct zr_plan *p);

/* Bytes this process may still take: the smallest of MemAvailable, what its control groups
 * leave, and the address-space limit. */
uint64_t zr_memory_available(void);

#endif
