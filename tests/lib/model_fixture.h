/* SPDX-License-Identifier: Apache-2.0
 *
 * model_fixture.h - runs a model on a device as core would, for tests: buffers of exactly the
 * declared sizes, parameters and tokens by a hash that tests/golden/make_gpt2.py and make_llama.py
 * compute too.
 *
 * A failing call prints its text and aborts.
 */
#ifndef ZR_MODEL_FIXTURE_H
#define ZR_MODEL_FIXTURE_H

#include <zeroth/model.h>

#include "testhost.h"

/* Text options of the model beside the tiny default: pairs, ends with NULL. */
struct fixture_setup {
	const char *model; /* "model/llama"; NULL: "model/gpt2" */
	int workers;
	int32_t dtype;
	int64_t batch, length;
	const char *options[25];
	/* options of adapter/lora in front of it, as above; none: no adapter */
	const char *adapter[9];
	int separate; /* the model's pointers are to memory that only operations can touch */
	/* of the sequence, as declare() is told; then slices_fixture.h runs the model; 0: whole */
	int slices;
	int touching; /* tensors of a unit lie one behind the other; not with `separate` */
};

/* A buffer of this process and its place on a device with separate memory. */
struct fixture_twin {
	char *host, *device;
	uint64_t bytes;
};

struct fixture {
	struct fixture_setup s;
	struct zr_host *host;
	const struct zr_desc *dev_desc, *desc, *adapter_desc;
	void *dev_opts, *opts, *adapter_opts;
	struct zr_inst *dev, *base, *model; /* model: what is in front of base, or base itself */
	const struct zr_device_v1 *dev_v;
	struct fixture_twin twin[64];
	int n_twins;
	const struct zr_ops *ops;
	const struct zr_model_v1 *v;
	struct zr_model_decl d;
	int n_tensors;
	const struct zr_tensor **tensor; /* [n_tensors] canonical order */
	/* elements of each, and where it starts in value and gradient */
	int64_t *numel, *start;
	int64_t total; /* elements of all */
	/* [total] parameters in fp32; fixture_load() after changing them */
	float *value;
	float *gradient;     /* [total] */
	void **param;        /* [n_tensors] in dtype */
	void **out, **saved; /* [n_layers] */
	uint64_t *out_bytes, *saved_bytes;
	void *work, *grad;
	uint64_t work_bytes, grad_bytes;
	int32_t *tokens, *targets;   /* [B*T] */
	int32_t *starts, *positions; /* [B*T] used if documents is 1, as are weights */
	float *weights;
	int documents;
	float *loss_rows;   /* [B*T] */
	double loss_sum[2]; /* as in zr_layer_call */
	struct zr_rng rng;
	float scale; /* of the gradient, 1: that of the mean loss */
};

/* vocabulary 97, width 24, 3 heads, 2 layers, context 16, unless options say otherwise */
struct fixture *fixture_new(struct fixture_setup s);
void fixture_free(struct fixture *r);

uint64_t fixture_hash(uint64_t stream, uint64_t element);
void fixture_load(struct fixture *r); /* value -> param */
/* inputs by `stream`, targets by stream + 1; at first 1000 */
void fixture_tokens(struct fixture *r, uint64_t stream);

/* Cuts each sequence into documents of 5, 1 and 7 tokens, in turn, of which the second sequence
 * begins with the second. Every third row has no target, the others a weight of 0, 1/2, 1 or
 * 3/2. */
void fixture_documents(struct fixture *r);

#define FIXTURE_TENSORS 64 /* of a layer, at most */

/* What the tables of a call have, and the canonical numbers of its tensors. */
struct fixture_tensors {
	const void *param[FIXTURE_TENSORS];
	float *dparam[FIXTURE_TENSORS];
	uint8_t accumulate[FIXTURE_TENSORS];
	int number[FIXTURE_TENSORS], n;
};

const struct zr_unit *fixture_unit(const struct fixture *r, int32_t unit);
const struct zr_layer *fixture_layer(const struct fixture *r, uint32_t layer);
/* A call of a layer with all rows, whose gradients go to r->gradient. */
struct zr_layer_call fixture_call(struct fixture *r, uint32_t layer, int training,
				  struct fixture_tensors *t);
void *fixture_room(uint64_t bytes); /* of NaN; the caller frees */

/* Mean loss by forward of all layers and backward of the last (training, with what the model adds
 * to it) or its forward (evaluation). */
double fixture_loss(struct fixture *r, int training);
/* The same and all gradients of the mean; stored, or with `add` added to r->gradient. */
double fixture_step(struct fixture *r, int add);
/* Derivative of the mean loss in the direction of hashed +-1 on elements [lo, hi), from losses at
 * `at`, h of it away; and what a gradient [total] says it is. r->value is another afterwards. */
double fixture_difference(struct fixture *r, uint64_t direction, int64_t lo, int64_t hi,
			  const float *at, double h);
double fixture_along(const float *gradient, uint64_t direction, int64_t lo, int64_t hi);
void fixture_logits(struct fixture *r, int64_t row, float *logits); /* after fixture_loss(r, 0) */

#endif
