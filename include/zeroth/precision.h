/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/precision.h - DRAFT. Role "precision", interface "zr.precision/1": which types, and a pure state
 * machine of the loss scale. The host casts, scales, counts non-finite values and agrees over ranks.
 */
#ifndef ZEROTH_PRECISION_H
#define ZEROTH_PRECISION_H

#include <zeroth/plugin.h>
#undef ZR_DRAFT_USED
#define ZR_DRAFT_USED ZR_DRAFT_REVISION

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_STEP_APPLY 0 /* update */
#define ZR_STEP_SKIP 1  /* leave everything as it is, log it */
#define ZR_STEP_STOP 2  /* end the run: exit 5, naming the first non-finite tensor */

/* how the fp32 value of a parameter is kept between steps */
#define ZR_MASTER_FP32 0  /* beside the 16-bit compute copy */
#define ZR_MASTER_SPLIT 1 /* as the bf16 copy and the 16 bits it lacks: the same 32 bits in 4 bytes instead of 6 */
#define ZR_MASTER_NONE 2  /* not at all: the bf16 copy is all there is, rounded stochastically after each update */

/* GROWABLE; filled by info(). */
struct zr_precision_info {
	uint32_t size;
	int32_t dtype;      /* parameters and activations */
	int32_t comm_dtype; /* gradients on the wire, `auto` of communication_data_type */
	int32_t master;     /* ZR_MASTER_*; SPLIT and NONE with ZR_BF16 only */
	int32_t scaled;     /* 1: there is a loss scale, which the host then shows */
};

/* The loss-scale record: everything the machine remembers; checkpoints save it. FROZEN. */
struct zr_scale {
	double scale;
	int64_t step;          /* steps seen */
	int64_t last_overflow; /* step of the last one, -1: none */
	int64_t hysteresis;    /* overflows left before the scale falls */
};

/* GROWABLE. */
struct zr_precision_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_precision_info *); /* [main] */
	int (*start)(struct zr_inst *, struct zr_scale *);          /* [pure] the first record */
	/* [pure] After a step computed with s->scale: what to do with it in *action; *s becomes the next record. */
	int (*next)(struct zr_inst *, struct zr_scale *s, int32_t overflow, int32_t *action);
};

#ifdef __cplusplus
}
#endif
#endif
