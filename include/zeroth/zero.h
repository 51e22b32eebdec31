/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/zero.h - STABLE. Role "zero", interface "zr.zero/1": a ZeRO stage is a policy. It says
 * over which group each unit's parameters, gradients and optimizer state are split. At each point
 * of the step it calls verbs with lists of units: gather, drop, reduce, update, publish. It gets no
 * pointer to data and sends no message.
 */
#ifndef ZEROTH_ZERO_H
#define ZEROTH_ZERO_H

#include <zeroth/plugin.h>
#if ZR_HEADERS_NEED < 4
#undef ZR_HEADERS_NEED
#define ZR_HEADERS_NEED 4
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Groups over which something is split. */
#define ZR_GROUP_SELF  0 /* not split: whole on every rank */
#define ZR_GROUP_NODE  1
#define ZR_GROUP_WORLD 2
/* Groups of operations between ranks (zeroth/comm.h), which groups() may not answer. */
#define ZR_GROUP_SEQUENCE 3 /* the ranks that share a sequence */
#define ZR_GROUP_EXPERT   4 /* the ranks over which experts are placed */
#define ZR_GROUP_CROSS    5 /* ranks of one place in all machines, or of the same experts */

/* FROZEN. */
struct zr_groups {
	int32_t param, grad, state; /* ZR_GROUP_* */
};

/* The unit that groups() is asked about. GROWABLE. */
struct zr_groups_of {
	uint32_t size;
	int32_t unit, n_units; /* its number, and how many there are */
	int32_t world;         /* ranks of the training */
	int64_t elements;      /* of the unit, padding included */
	const char *name;      /* of the unit, the host's own; since minor 4 */
};

/* programs */
#define ZR_PROG_MICRO      0 /* a micro-batch that is not the last of its step */
#define ZR_PROG_LAST_MICRO 1
#define ZR_PROG_UPDATE     2
#define ZR_PROG_EVAL       3 /* forward only */

/* Points at which the host asks the stage. */
#define ZR_AT_BEGIN  0 /* the program begins */
#define ZR_AT_END    1 /* the program ends; full copies that were not dropped stay resident */
#define ZR_AT_BEFORE 2 /* a use comes next */
#define ZR_AT_AFTER  3 /* a use has run */
#define ZR_AT_GRAD   4 /* the gradients of the listed units are complete for this micro-batch */
/* All ranks know the scalars of the update. The listed units are those that last_micro did not
 * update. A skipped step does not have this point. */
#define ZR_AT_UPDATE 5

/* Phases of a use. */
#define ZR_FORWARD   0
#define ZR_RECOMPUTE 1
#define ZR_BACKWARD  2

/* One node of the schedule: a layer that runs in one phase. GROWABLE. */
struct zr_use {
	uint32_t size;
	int32_t layer, phase;
	uint32_t n_units;
	const int32_t *units; /* owned by the host and valid as long as the program */
};

/* GROWABLE. */
struct zr_point {
	uint32_t size;
	int32_t program, at;
	int32_t use;          /* number of the use in this program; -1: none */
	const int32_t *units; /* those of the use, or those of ZR_AT_GRAD and ZR_AT_UPDATE */
	uint32_t n_units, rsv;
};

/* Tiers: the kinds of memory that hold bytes. A stage need not know them: the host makes a gather
 * read offloaded shards and an update read and write offloaded state. */
#define ZR_TIER_DEVICE 0
#define ZR_TIER_HOST   1
#define ZR_TIER_DISK   2

/* What a stage may do and ask during at(). One list makes one collective. GROWABLE. */
struct zr_stage {
	uint32_t size;
	int32_t n_units, n_uses; /* n_uses: of the current program */
	int32_t world;
	void *impl; /* the host's own */

	/* Verbs: 0, or a negative code that at() must return. */
	/* Gathers full copies from the shards of the param group. */
	int (*gather)(const struct zr_stage *, const int32_t *units, int32_t n);
	/* Frees the full copies. */
	int (*drop)(const struct zr_stage *, const int32_t *units, int32_t n);
	/* Accumulates gradients at their owners. */
	int (*reduce)(const struct zr_stage *, const int32_t *units, int32_t n);
	/* Runs the optimizer on sub-groups of `subgroup` elements; 0: on each unit as a whole. If
	 * needs_scalars() says 0, it may be called in last_micro, after the reduce of the units and
	 * the drop of their full copies. */
	int (*update)(const struct zr_stage *, const int32_t *units, int32_t n, int64_t subgroup);
	/* Sends updated parameters from their owners to the param group. */
	int (*publish)(const struct zr_stage *, const int32_t *units, int32_t n);

	/* Queries. */
	int64_t (*elements)(const struct zr_stage *, int32_t unit);
	const struct zr_use *(*use)(const struct zr_stage *, int32_t use);
	/* number of the use, -1: none */
	int32_t (*next_use)(const struct zr_stage *, int32_t unit, int32_t after);
	/* of full copies that a drop would free */
	int64_t (*live_elements)(const struct zr_stage *);
	/* 1: an update must wait until all gradients are known, because clipping or a loss scale
	 * depends on them. */
	int (*needs_scalars)(const struct zr_stage *);

	/* 1: a layer has run when ZR_AT_AFTER comes, and a reduce is over when it returns: one
	 * rank, whose processor is the device. Nothing then hides behind the next layer. */
	int32_t synchronous;
	int32_t rsv;

	/* Since minor 4. What `zeroth plan --program` calls the unit; the host's own. */
	const char *(*name)(const struct zr_stage *, int32_t unit);
};

/* GROWABLE. */
struct zr_zero_v1 {
	uint32_t size, rsv;
	/* [pure], but always called with an instance, since the answer may depend on options. Each
	 * unit may be split over other groups than the next. */
	int (*groups)(struct zr_inst *, const struct zr_groups_of *, struct zr_groups *out);
	/* [main] Calls verbs. What it does depends only on this program's points so far; the stage
	 * forgets them when the program ends. */
	int (*at)(struct zr_inst *, const struct zr_point *, const struct zr_stage *);
};

#ifdef __cplusplus
}
#endif
#endif
