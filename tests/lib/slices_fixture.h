/* SPDX-License-Identifier: Apache-2.0
 *
 * slices_fixture.h - runs a model of a fixture with `slices` as core does with [train] slices: one
 * sequence, slice by slice, blocks by their parts. Buffers are as in model_fixture.c; they are of
 * memory of this process. A call that writes gradients of another part's tensors, or leaves some
 * of its own, prints it and aborts.
 */
#ifndef ZR_SLICES_FIXTURE_H
#define ZR_SLICES_FIXTURE_H

#include "model_fixture.h"

enum slices_order {
	SLICES_TOGETHER, /* forwards of all parts of a slice at once, ascending; backwards too */
	SLICES_APART,    /* forwards of a part of all slices; ascending */
	SLICES_BACK,     /* the same, descending */
	SLICES_ORDERS
};

struct slices {
	struct fixture *r;
	int n;                        /* slices */
	int64_t rows;                 /* of each */
	struct zr_layer_bytes *bytes; /* [layers] of a slice */
	char **out, **saved;          /* [layers][n] */
	char **keys;                  /* [layers] of the sequence */
	float **key_sums;             /* [layers] of the sequence, of all queries */
	char **grad, **held;          /* [n] */
	float **given;                /* [n] what a slice's queries give to keys up to its own */
	float **gradient;             /* [n] what a slice gives to those of parameters */
	float *before;                /* the same, before a call */
	int32_t **writer;             /* [n][units] the layer that stored gradients first; -1 */
	double (*loss)[2];            /* [n] as zr_layer_call.loss_sum */
	char *sums;                   /* as zr_layer_call.slot_sums */
};

/* Of a fixture with tokens, and with documents if it is to have some. */
struct slices *slices_new(struct fixture *r);
void slices_free(struct slices *z);

/* Mean loss and, in r->gradient, all gradients of it, added in the order of slices. */
double slices_step(struct slices *z, enum slices_order order);
/* The same of slice s alone, from what the step before left of keys and of their gradients; all
 * else of other slices is overwritten. */
void slices_alone(struct slices *z, int s);

#endif
