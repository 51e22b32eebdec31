/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/precision.h - STABLE. Role "precision", interface "zr.precision/1": the element types of a
 * training, and the loss scale as a pure state machine. The host casts, scales, counts non-finite
 * values and combines the counts of all ranks.
 */
#ifndef ZEROTH_PRECISION_H
#define ZEROTH_PRECISION_H

#include <zeroth/plugin.h>
#if ZR_HEADERS_NEED < 4
#undef ZR_HEADERS_NEED
#define ZR_HEADERS_NEED 4
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_STEP_APPLY 0 /* update */
#define ZR_STEP_SKIP  1 /* change nothing and log it */
#define ZR_STEP_STOP  2 /* end the run: exit 5, naming the first non-finite tensor */

/* How the fp32 value of a parameter is kept between steps. */
/* Beside the 16-bit compute copy: 6 bytes. */
#define ZR_MASTER_FP32 0
/* As the bf16 compute copy and the 16 bits that it lacks: the same 32 bits in 4 bytes. */
#define ZR_MASTER_SPLIT 1
/* Not at all: only the bf16 copy exists, and each update rounds it stochastically. */
#define ZR_MASTER_NONE 2
/* As the bf16 compute copy and 8 bits more: rounded to 24 bits after each update, in 3 bytes. */
#define ZR_MASTER_SPLIT24 3
/* Since minor 4: split where all optimizers update such masters as they are kept, and where their
 * copies are, else in fp32: the same bits. */
#define ZR_MASTER_AUTO 4

/* How products with the weights of a layer's linear maps are computed. */
#define ZR_PRODUCTS_WHOLE 0 /* in `dtype` */
/* Since minor 5, with dtype ZR_BF16 only: operands of 16 bits are rounded to numbers of 8 bits,
 * E4M3 (Micikevicius et al. 2022), which a row of activations or gradients, or an output of the
 * weight (an input, in the backward), scales by a power of two of its own. All else is as it was:
 * gradients of weights, embeddings, the head, norms, attention, routers, experts. */
#define ZR_PRODUCTS_FP8 1
/* The same, but that gradients are rounded to numbers of E5M2. */
#define ZR_PRODUCTS_FP8_E5M2_GRADIENTS 2

/* GROWABLE; filled by info(). */
struct zr_precision_info {
	uint32_t size;
	int32_t dtype;      /* parameters and activations */
	int32_t comm_dtype; /* gradients sent between ranks, if communication_data_type is `auto` */
	int32_t master;     /* ZR_MASTER_*; all but FP32 with ZR_BF16 only */
	int32_t scaled;     /* 1: there is a loss scale, and the host shows it */
	int32_t products;   /* ZR_PRODUCTS_* */
};

/* All that the state machine remembers. Checkpoints save it. FROZEN. */
struct zr_scale {
	double scale;          /* finite, above 0 */
	int64_t step;          /* steps seen */
	int64_t last_overflow; /* step of the last overflow, -1: none */
	int64_t hysteresis;    /* overflows left before the scale falls */
};

/* GROWABLE. */
struct zr_precision_v1 {
	uint32_t size, rsv;
	int (*info)(struct zr_inst *, struct zr_precision_info *); /* [main] */
	/* [pure] fills the first record */
	int (*start)(struct zr_inst *, struct zr_scale *);
	/* [pure] Called after a step that was computed with s->scale: stores in *action what to do
	 * with the step, and advances *s. */
	int (*next)(struct zr_inst *, struct zr_scale *s, int32_t overflow, int32_t *action);
};

#ifdef __cplusplus
}
#endif
#endif
