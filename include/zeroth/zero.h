/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/zero.h - DRAFT. Role "zero", interface "zr.zero/1": a ZeRO stage is a policy. It says over which
 * group each unit's parameters, gradients and optimizer state are split, and answers points of the step
 * with verbs on lists of units. It sees no pointer and sends no message.
 */
#ifndef ZEROTH_ZERO_H
#define ZEROTH_ZERO_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

/* groups over which something is split */
#define ZR_GROUP_SELF 0  /* whole on every rank */
#define ZR_GROUP_NODE 1
#define ZR_GROUP_WORLD 2

/* FROZEN. */
struct zr_groups {
	int32_t param, grad, state; /* ZR_GROUP_* */
};

/* programs */
#define ZR_PROG_MICRO 0      /* a micro-batch that is not the last of its step */
#define ZR_PROG_LAST_MICRO 1
#define ZR_PROG_UPDATE 2
#define ZR_PROG_EVAL 3       /* forward only */

/* points */
#define ZR_AT_BEGIN 0  /* of a program */
#define ZR_AT_END 1    /* params kept over it are resident */
#define ZR_AT_BEFORE 2 /* a use */
#define ZR_AT_AFTER 3
#define ZR_AT_GRAD 4   /* the listed units' last contribution of this micro-batch is in */
#define ZR_AT_UPDATE 5 /* the scalars are agreed: the listed units are those that last_micro did not update; absent from a skipped step */

/* phases of a use */
#define ZR_FORWARD 0
#define ZR_RECOMPUTE 1
#define ZR_BACKWARD 2

/* One entry of the schedule. GROWABLE. */
struct zr_use {
	uint32_t size;
	int32_t layer, phase;
	uint32_t n_units;
	const int32_t *units; /* owned by the host, lives as the program */
};

/* GROWABLE. */
struct zr_point {
	uint32_t size;
	int32_t program, at;
	int32_t use;          /* number of the use in this program; -1 where there is none */
	const int32_t *units; /* of the use, or those whose gradient is in */
	uint32_t n_units, rsv;
};

/* tiers: where bytes live. A stage need not know: a gather reads offloaded shares, an update its staged pieces. */
#define ZR_TIER_DEVICE 0
#define ZR_TIER_HOST 1
#define ZR_TIER_DISK 2

/* What a stage may do and ask, valid during at(). One list = one collective. GROWABLE. */
struct zr_stage {
	uint32_t size;
	int32_t n_units, n_uses; /* n_uses: of the current program */
	int32_t world;
	void *impl;              /* the host's own */

	/* verbs: 0 or a negative code that at() passes on */
	int (*gather)(const struct zr_stage *, const int32_t *units, int32_t n);  /* param group -> full copy */
	int (*drop)(const struct zr_stage *, const int32_t *units, int32_t n);    /* free the full copy */
	int (*reduce)(const struct zr_stage *, const int32_t *units, int32_t n);  /* fold gradients at their home */
	/* optimizer; elements per piece, 0: whole. In last_micro where needs_scalars() says 0: after the units' reduce and the
	 * drop of their full copies. */
	int (*update)(const struct zr_stage *, const int32_t *units, int32_t n, int64_t piece);
	int (*publish)(const struct zr_stage *, const int32_t *units, int32_t n); /* home -> param group */

	/* queries */
	int64_t (*elements)(const struct zr_stage *, int32_t unit);
	const struct zr_use *(*use)(const struct zr_stage *, int32_t use);
	int32_t (*next_use)(const struct zr_stage *, int32_t unit, int32_t after); /* number of the use, -1: none */
	int64_t (*live_elements)(const struct zr_stage *); /* of full copies that a drop would free */
	int (*needs_scalars)(const struct zr_stage *);     /* 1: an update must wait for what all gradients decide */
};

/* GROWABLE. */
struct zr_zero_v1 {
	uint32_t size, rsv;
	/* [pure], but always with an instance: options may decide */
	int (*groups)(struct zr_inst *, int32_t unit, int64_t elements, struct zr_groups *out);
	/* [main] Answers depend on the program so far and nothing else; what is remembered of it ends with it. */
	int (*at)(struct zr_inst *, const struct zr_point *, const struct zr_stage *);
};

#ifdef __cplusplus
}
#endif
#endif
