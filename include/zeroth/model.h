/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/model.h - DRAFT. Role "model", interface "zr.model/1": declares units of parameters and a
 * sequence of layers, and computes the forward and backward of one layer with the device's operations.
 * The host owns all memory and decides what is where when; a model sees only pointers for one call, and must not
 * follow them: they may be to memory that only operations of the device can touch.
 * Interface "zr.pretrained/1": model directories of Hugging Face that it can begin with.
 */
#ifndef ZEROTH_MODEL_H
#define ZEROTH_MODEL_H

#include <zeroth/device.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_INIT_NORMAL 1 /* N(mean, std) by position in the tensor */
#define ZR_INIT_CONST 2  /* mean everywhere */

/* GROWABLE by zr_model_decl.tensor_stride. */
struct zr_tensor {
	const char *name;  /* canonical (Hugging Face's): "h.0.ln_1.weight"; owned by the model instance */
	int64_t dims[4];   /* row-major, unused trailing ones 1 */
	int32_t ndim;
	int32_t init;      /* ZR_INIT_* */
	double mean, std;
};

/* Parameters that are gathered, reduced and released together; where [train] freeze takes some of them, core cuts those out as
 * units of their own. GROWABLE by unit_stride. */
struct zr_unit {
	const char *name; /* "h.0" */
	const struct zr_tensor *tensors;
	uint32_t n_tensors, rsv;
};

#define ZR_LAYER_INPUT 1u /* the first: reads tokens, has no `in` and no gradient to pass on */
#define ZR_LAYER_LOSS 2u  /* the last: no `out`; training runs only its backward, which computes the loss
			   * too; evaluation runs only its forward (loss, nothing kept) */

/* A layer names the units it needs; the schedule is forward 0..n-1, then backward n-1..0. A unit used by
 * several layers is tied: its gradient is the sum in backward order. Below the lowest layer with something to train
 * there is no backward. GROWABLE by layer_stride. */
struct zr_layer {
	const char *name;
	const int32_t *units;
	uint32_t n_units, flags;
};

/* GROWABLE; filled by declare(), everything it points to is owned by the instance. Canonical order of
 * parameters = units in order, tensors in order. */
struct zr_model_decl {
	uint32_t size;
	uint32_t n_units, n_layers;
	uint32_t unit_stride, layer_stride, tensor_stride;
	const struct zr_unit *units;
	const struct zr_layer *layers;
	int64_t vocabulary;
	int64_t context;         /* longest sequence */
	double flops_per_token;  /* of forward and backward, without recomputation, at length `context` */
	const char *const *meta; /* key, value, ..., NULL: written to config.json-like metadata of weights files */
};

/* Bytes of a layer for (batch, length). GROWABLE. */
struct zr_layer_bytes {
	uint32_t size, rsv;
	uint64_t out;      /* its output, the next layer's input and kept for that one's backward */
	uint64_t saved;    /* kept from its forward to its backward */
	uint64_t work_fwd; /* scratch of one forward call */
	uint64_t work_bwd; /* scratch of one backward call (with ZR_LAYER_LOSS also of the evaluation) */
	uint64_t grad;     /* gradient w.r.t. its output (for the loss layer: w.r.t. its input) */
};

/* One call. GROWABLE. Tensors are those of the layer's units, in order, numbered through. */
struct zr_layer_call {
	uint32_t size;
	int32_t layer;
	int32_t training;      /* 0: evaluation, no dropout */
	int32_t dtype;         /* of parameters and activations: ZR_F32, ZR_BF16, ZR_F16 */
	int64_t batch, length; /* B, T */
	const int32_t *tokens, *targets; /* [B*T], device memory */
	const void *in;        /* output of the layer before */
	void *out;             /* this layer's output */
	void *saved, *work;
	void *grad;            /* backward: on entry the gradient w.r.t. out, on return w.r.t. in (same buffer; loss layer: only return) */
	const void *const *param; /* [tensors] */
	float *const *dparam;     /* [tensors] backward: fp32 gradients; = or += as accumulate says. NULL: that one is frozen,
				   * nobody wants its gradient */
	const uint8_t *accumulate; /* [tensors] 0: first contribution of this micro-batch, store; 1: add */
	float *loss_rows;      /* [B*T] loss layer: loss of each token */
	double *loss_sum;      /* loss layer: fp64 sum of them, stored */
	float grad_scale;      /* loss layer: d(objective)/d(loss of one token) */
	uint32_t rsv;
	struct zr_rng rng;     /* seed, step, slot; the model sets site = layer*8 + n */
	const struct zr_ops *ops;
	struct zr_stream *stream;
};

/* GROWABLE. */
struct zr_model_v1 {
	uint32_t size, rsv;
	int (*declare)(struct zr_inst *, struct zr_model_decl *); /* [main] */
	/* [main] Bytes needed by layer `layer` with activations of `dtype`. ops answers workspace queries. */
	int (*bytes)(struct zr_inst *, int32_t layer, int64_t batch, int64_t length, int32_t dtype, const struct zr_ops *ops,
		     struct zr_layer_bytes *out);
	int (*forward)(struct zr_inst *, const struct zr_layer_call *);  /* [step] */
	int (*backward)(struct zr_inst *, const struct zr_layer_call *); /* [step] */
	/* (optional) [step] For sampling: logits [vocabulary] in fp32 of row `row` of the loss layer's input, written by an
	 * operation of the device: to memory of its own, or of the host where it takes that (host_ops). */
	int (*logits)(struct zr_inst *, const struct zr_layer_call *, int64_t row, float *logits);
};

/* ---- interface "zr.pretrained/1", optional beside "zr.model/1" -------------------------------------------------
 * Which model directories of Hugging Face the plugin reads: config.json becomes options, the tensors in the
 * safetensors beside it parameters. Those keep their names but for a prefix, and have the shapes and the element
 * order that declare() says. Constant data, so that the host can look for a reader without calling any. */

#define ZR_KEY_ASK 1u /* accepts() is asked as well */

/* A key of config.json. A value that is null says nothing unless `values` has null. GROWABLE by key_stride. */
struct zr_config_key {
	const char *name;   /* "rope_scaling.factor": of an object inside; of a list every element counts */
	const char *option; /* that gets the value; NULL: none */
	const char *values; /* blank separated: no others are accepted. "silu", or "true=yes" for what the option gets. NULL: any */
	const char *def;    /* what a missing key means; NULL: nothing */
	const char *types;  /* blank separated values of model_type that this is about; NULL: all */
	uint32_t flags, rsv;
};

/* GROWABLE. */
struct zr_pretrained_v1 {
	uint32_t size;
	uint32_t n_keys, key_stride, rsv;
	const struct zr_config_key *keys;
	const char *const *types; /* values of model_type that it reads; ends with NULL */
	const char *presets;      /* options that would say the same again, and are refused beside a directory; blank separated */
	const char *prefix;       /* that names in the files may have before the canonical one; "": none */
	const char *ignored;      /* patterns of tensors that may be in the files, and that the model does without; blank separated */
	/* (optional) [pure] Of a key with ZR_KEY_ASK that has a value: fails with what that would need instead. opts: all
	 * keys are applied, `auto` is not resolved. */
	int (*accepts)(const struct zr_host *, const void *opts, const char *key, const char *value);
};

#ifdef __cplusplus
}
#endif
#endif
