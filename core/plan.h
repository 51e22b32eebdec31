/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h - bytes and offsets of everything a session holds, computed before anything is allocated. The session
 * allocates exactly this (invariant I2): one arena for the tier, cut into the regions below.
 */
#ifndef ZR_CORE_PLAN_H
#define ZR_CORE_PLAN_H

#include <stdio.h>

#include "core/error.h"

struct zr_setup;

enum zr_region_id {
	ZR_R_PARAM,       /* compute copies that are not also the master */
	ZR_R_MASTER,      /* fp32 master parameters */
	ZR_R_GRAD,        /* fp32 sums over the slots, at home */
	ZR_R_GRAD_BUFFER, /* a micro-batch's gradients on their way to the sum */
	ZR_R_LOCAL,       /* this rank's sums over its micro-batches, with reduction = local */
	ZR_R_GATHER,      /* full copies of units that are split */
	ZR_R_STATE,       /* of the optimizer */
	ZR_R_ACT,         /* activations */
	ZR_R_WORK,        /* scratch of operations, gradient of the activations */
	ZR_R_COMM,        /* contributions received from other ranks, where they cannot be read in place */
	ZR_R_BATCH,       /* tokens, losses, block sums, the exchange at the boundary */
	ZR_R_COUNT
};

struct zr_region {
	const char *what;
	uint64_t bytes;
	uint64_t offset; /* in the arena */
};

/* A place in a region. */
struct zr_spot {
	int32_t region;
	int32_t rsv;
	uint64_t at; /* bytes */
};

/* Where a unit's parts lie. "Whole" parts hold world * per blocks, so that an all-gather can work in place. */
struct zr_unit_memory {
	int64_t per, first, n;    /* home: blocks per rank, this rank's first, how many it really has */
	int64_t param_per;        /* blocks per rank of the parameters' group */
	int64_t state_block;      /* first block in the optimizer's state of this rank */
	struct zr_spot param;     /* compute copy: whole, or this rank's share of its group */
	struct zr_spot home;      /* compute copy of the home blocks; often inside param or master */
	struct zr_spot master;    /* whole, or the home blocks */
	struct zr_spot grad;      /* likewise */
	struct zr_spot local;     /* whole, with reduction = local */
};

/* Where a layer's buffers lie in their regions, for one program. */
struct zr_layer_place {
	uint64_t out, saved; /* bytes from the start of ZR_R_ACT */
};

struct zr_plan {
	struct zr_region region[ZR_R_COUNT];
	uint64_t total;          /* bytes of the arena */
	int direct;              /* 1: gradients are written straight into the sums (one slot in all) */
	int peers;               /* 1: ranks read each other's memory in place */
	struct zr_unit_memory *unit; /* [n_units] */
	int64_t state_blocks;    /* of this rank */
	uint64_t *state;         /* [n_states] bytes from the start of ZR_R_STATE */
	uint32_t *state_bytes;   /* [n_states] bytes per block */
	struct zr_layer_place *train, *eval; /* [n_layers] */
	uint64_t work_bytes;     /* of ZR_R_WORK; the activation gradient follows */
	uint64_t tokens, targets, loss_rows, loss_sum, sumsq, nonfinite, exchange; /* bytes from the start of ZR_R_BATCH */
};

int zr_plan_make(struct zr_setup *s, struct zr_plan *out, struct zr_error *err);
void zr_plan_free(struct zr_plan *p);

/* Bytes this process may still take: the smallest of MemAvailable, what its control groups leave, and the
 * address-space limit. */
uint64_t zr_memory_available(void);

#endif
