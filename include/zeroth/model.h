/* SPDX-License-Identifier: Apache-2.0
 *
 * zeroth/model.h - DRAFT. Role "model", interface "zr.model/1": declares units of parameters and a
 * sequence of layers, and computes the forward and backward of one layer with the device's
 * operations. The host owns all memory and decides what lies where at which time. A model sees
 * pointers for the length of one call and must not dereference them, since they may point to memory
 * that is not host-addressable. Interface "zr.pretrained/1": the model directories of Hugging Face
 * from which a training can start.
 */
#ifndef ZEROTH_MODEL_H
#define ZEROTH_MODEL_H

#include <zeroth/device.h>
#undef ZR_USES_MODEL
#define ZR_USES_MODEL ZR_DRAFT_MODEL

#ifdef __cplusplus
extern "C" {
#endif

#define ZR_INIT_NORMAL  1 /* N(mean, std) by position in the tensor */
#define ZR_INIT_CONST   2 /* mean everywhere */
#define ZR_INIT_UNIFORM 3 /* U(mean - std, mean + std) by position */

/* The weight of a linear map y = W x, as the tensor has it: rows are outputs, or inputs. Products
 * with it are matmul operations of the device, whose operand b it is; the gradient of it is the
 * operand d of one. Maps of a mixture's experts are ZR_MAP_OUT_IN, and operands b of
 * matmul_grouped and dw of matmul_grouped_dw. What is no weight of a linear map, an embedding or
 * the head, has ZR_MAP_NONE. */
#define ZR_MAP_NONE   0
#define ZR_MAP_OUT_IN 1
#define ZR_MAP_IN_OUT 2

#define ZR_TENSOR_FROZEN 1u /* not trained, whatever [train] freeze says */
#define ZR_TENSOR_ADDED  2u /* by an adapter: a model's files do not have it */
/* Its rows are looked up by tokens: in the first layer it is wte of the device's embedding, and the
 * gradient of it dwte. */
#define ZR_TENSOR_EMBEDDING 4u
/* In the last layer it is w of the device's head_loss, and the gradient of it dw. Of a head that is
 * the embedding the embedding alone says so. */
#define ZR_TENSOR_HEAD 8u

#define ZR_PERSISTENT_MOST (1 << 20) /* persistent numbers of all tensors of a model */

/* No factor of the queries or keys changes a score, as norms of them come behind. */
#define ZR_HEADS_NORMED 1u

/* Which outputs of a map, or which elements of a bias that is added to them, are queries and keys:
 * of query head h those from query + h * query_apart on, of key head g those from key +
 * g * key_apart on, head_dim each. Query head h goes with key head h * kv_heads / heads.
 * GROWABLE. */
struct zr_heads {
	uint32_t size, flags; /* ZR_HEADS_* */
	int32_t heads, kv_heads;
	int64_t head_dim;
	int64_t query, key; /* -1: none are here */
	int64_t query_apart, key_apart;
};

/* GROWABLE by zr_model_decl.tensor_stride. */
struct zr_tensor {
	/* canonical (Hugging Face's): "h.0.ln_1.weight"; owned by the model instance */
	const char *name;
	int64_t dims[4]; /* row-major, unused trailing ones 1 */
	int32_t ndim;
	int32_t init; /* ZR_INIT_* */
	double mean, std;
	int32_t map;    /* ZR_MAP_* */
	uint32_t flags; /* ZR_TENSOR_* */
	/* of an expert's map: the experts of a token, each a row of its products; else 0 */
	int32_t experts_per_token;
	/* How many persistent numbers, fp32, the tensor has; 0: none. They stay with it from step
	 * to step, as scales, running maxima or biases of a router do. They are no parameters: they
	 * have no gradient, no stage splits them, and no optimizer updates them. The host owns
	 * them, and every rank has all of them. Layers read them (zr_layer_call.persistent);
	 * zr_model_v1.renew alone writes them. Checkpoints have them, files of weights do not.
	 * Therefore a model that has some can be evaluated in its training, but neither sampled nor
	 * evaluated alone; and a training that begins with files of weights begins the numbers
	 * anew. */
	int32_t persistent;
	/* NULL: it makes no queries and no keys, or the model does not say. Owned by the model
	 * instance, as it may be of several tensors. */
	const struct zr_heads *heads;
	int32_t attention; /* with heads: the layer whose forward computes their scores */
	int32_t part;      /* in a layer of parts: ZR_PART_* whose backward gives its gradient */
};

/* Parameters that are gathered, reduced and released together. If [train] freeze names some of
 * them, core splits these off into units of their own. GROWABLE by unit_stride. */
struct zr_unit {
	const char *name; /* "h.0" */
	const struct zr_tensor *tensors;
	uint32_t n_tensors, rsv;
};

/* The first layer: it reads tokens, has no `in`, and passes no gradient on. */
#define ZR_LAYER_INPUT 1u
/* The last layer: it has no `out`. Training runs only its backward, which computes the loss too.
 * Evaluation runs only its forward, which computes the loss and keeps nothing. */
#define ZR_LAYER_LOSS 2u

/* How a layer may be cut along the rows of a sequence, where zr_model_decl.slices is above 1. */
#define ZR_CUT_WHOLE 0 /* not: a call has all rows */
#define ZR_CUT_ROWS  1 /* a row needs no other one: a call has the rows of a slice */
/* The same but for attention, which reads keys and values of the rows before: calls have parts. */
#define ZR_CUT_KEYS 2

/* Parts of a layer that is cut so. A call has one or several of them. */
#define ZR_PART_BEFORE 1u /* from its input to queries, keys and values */
#define ZR_PART_ATTEND 2u /* attention itself */
#define ZR_PART_AFTER  4u /* from what attention gives to the layer's output */
#define ZR_PART_SUMS   8u /* of a backward alone: what all queries gave to keys, between both */

/* A layer names the units it needs. The schedule is forward 0..n-1, then backward n-1..0. A unit
 * that several layers use is tied: its gradient is the sum of their contributions in backward
 * order. Layers below the lowest one with trainable parameters run no backward. GROWABLE by
 * layer_stride. */
struct zr_layer {
	const char *name;
	const int32_t *units;
	uint32_t n_units, flags;
	int32_t cut; /* ZR_CUT_* */
	/* Of a mixture: so many of its units, from units[first_expert] on, are its experts, one
	 * each, alike but for their names. 0: it has none that could be placed. Behind them, from
	 * units[first_beside] on, may be as many units of adapters, one beside each expert; 0:
	 * there are none. */
	int32_t first_expert, n_experts;
	int32_t first_beside;
};

/* Key of struct zr_model_decl's meta: why no class of transformers computes the model, so that it
 * is not exported. The name of an option is first in the text. */
#define ZR_META_MISFIT "zeroth.misfit"

/* GROWABLE; filled by declare(). The instance owns all that it points to. The canonical order of
 * parameters is the order of the units and, in each unit, of its tensors. */
struct zr_model_decl {
	uint32_t size;
	uint32_t n_units, n_layers;
	uint32_t unit_stride, layer_stride, tensor_stride;
	const struct zr_unit *units;
	const struct zr_layer *layers;
	int64_t vocabulary;
	int64_t context; /* longest sequence */
	/* of forward and backward, without recomputation, at length `context` */
	double flops_per_token;
	/* key, value, ..., NULL: written to the metadata of weights files, as config.json would say
	 * it, or ZR_META_MISFIT where none could */
	const char *const *meta;
	/* 1: gradients are of more than the mean loss of a micro-batch's tokens, as with losses of
	 * a mixture's routers: the loss layer's backward stores what is added as loss_sum[1]. With
	 * slices all of its calls store the same, that of the micro-batch; zr_layer_bytes.sums says
	 * from what. */
	uint32_t aux_loss, rsv;
	/* Set by the host before declare(): by how many ranks a sequence is shared, into how many
	 * slices it is cut; 0 and 1 are the same: nothing is cut. With slices a micro-batch is one
	 * sequence, and each layer is computed slice by slice, whatever the number of ranks is.
	 * And over how many ranks experts are placed, 0: over none. If it is above, layers that
	 * have experts are called part by part, see struct zr_home_call, of 1 rank too: the host
	 * may compute what they do elsewhere. A model that cannot sets it to 0. */
	int32_t sequence_ranks, slices, expert_ranks;
	/* Set by the host before declare(), 1: ranks that share a sequence may divide the heads of
	 * its attention. The model sets 0 if sequence_ranks does not divide the key heads of all
	 * its layers, or if it cannot; else calls are as struct zr_layer_call says of it. */
	int32_t by_heads;
	/* Set by the host before declare(): ZR_PRODUCTS_* of zeroth/precision.h. A model that
	 * computes the linear maps of its layers so sets has_products to 1; another one is refused
	 * where it is not ZR_PRODUCTS_WHOLE. */
	int32_t products, has_products;
};

/* Bytes of a layer for (batch, length). GROWABLE. */
struct zr_layer_bytes {
	uint32_t size;
	/* 1 + the tensor, a matrix that is its unit alone, whose gradient the backward also gives
	 * in rows; 0: none */
	uint32_t rows_of;
	/* its output: the input of the next layer, whose backward needs it too */
	uint64_t out;
	uint64_t saved;    /* kept from its forward to its backward */
	uint64_t work_fwd; /* scratch of one forward call */
	/* scratch of one backward call (with ZR_LAYER_LOSS also of the evaluation) */
	uint64_t work_bwd;
	uint64_t grad; /* gradient w.r.t. its output (for the loss layer: w.r.t. its input) */
	/* what it keeps of the tokens of a sequence for those that follow, when sampling: keys and
	 * values of attention; 0: nothing */
	uint64_t cache;
	/* Of a layer of parts, as much for each row, nothing between one row and the next: keys
	 * and values; their gradients, in fp32; what the backward of attention leaves for the part
	 * before it. */
	uint64_t keys, key_sums, held;
	/* By heads keys are queries, keys and values, and held has the same form. Of a row: bytes
	 * of each of its sections, in which heads follow each other. Of all rows: what attention
	 * gives; what it keeps of a share of the heads. */
	uint64_t section[3], attended, attend_kept;
	/* With slices, of the layer whose output the loss layer reads: so many bytes, from byte
	 * sums_at of the output on, are fp64 sums over the rows of the slice, which its forward
	 * leaves there in a training. The loss layer gets those of all slices as `slot_sums`. */
	uint64_t sums_at, sums;
	/* Of a layer whose experts are placed: experts of a token; elements of a row that an expert
	 * reads, and of one that it gives; where in `saved` the offsets of all rounds are. */
	int64_t experts_per_token, expert_width;
	uint64_t offsets_at;
	/* Set by the host before bytes(), 1: it would call the layer with ZR_CALL_LEAN. Set by the
	 * model, 1: it can, and saved, work_fwd and work_bwd are those of such calls. */
	uint32_t wants_lean, is_lean;
	/* Set by the host before bytes(), 1: it calls the layer with ZR_CALL_TOUCHING. */
	uint32_t touching, rsv;
};

/* ---- experts over ranks ----------------------------------------------------------
 * `ranks` ranks divide the experts of a layer: rank r of them has experts [r * here, (r + 1) *
 * here). The tokens of a call are taken in rounds of ZR_HOME_ROUND, the last one of what is left.
 * In a round each rank sends the rows of its tokens to the ranks that have their experts, sorted by
 * expert and in an expert by token; those compute, and send back what their experts made of each
 * row. A place is an expert of a token; a round has tokens * experts_per_token of them.
 *
 * Forward: SORT, then SEND, HOME, TAKE of each round, then END. Backward: the same. `work` stays as
 * it is from one of these calls to the next. */
#define ZR_HOME_ROUND 2048

#define ZR_HOME_SORT 1 /* all that comes before the experts; the forward says who has which token */
#define ZR_HOME_SEND 2 /* the rows of a round, in the order of its places */
#define ZR_HOME_HOME 3 /* what this rank's experts make of the rows that came */
#define ZR_HOME_TAKE 4 /* the round's part of what a token's experts made */
#define ZR_HOME_END  5 /* all that comes behind the experts */

/* Memory of the device, but for `later`; NULL where a part has no use for it. HOME has parameters
 * of experts and their gradients, what is here, and `work` with nothing in it; `ops` and all of
 * that may be the host's. In the backward
 * `rows` are inputs of experts, as in the forward, and `grads` gradients of what a token's sum
 * became. GROWABLE. */
struct zr_home_call {
	uint32_t size;
	int32_t part;          /* ZR_HOME_* */
	int32_t round, rank;   /* of `ranks` */
	int32_t ranks, here;   /* here: experts of each */
	int64_t first, tokens; /* of the round: its first token, how many */
	int64_t came;          /* HOME: rows that came, those of rank 0 first */
	/* HOME: [ranks * here + 1] where among the rows that came those begin that rank g / here
	 * has for this rank's expert g % here; the gradients of these alone go to dparam of the
	 * layer's expert number g, and of what is beside it */
	const int32_t *offsets;
	/* HOME, backward: [ranks * here] in host memory, 1: an earlier round had rows of g, to
	 * whose gradient this round's is added; else it is stored */
	const uint8_t *later;
	void *sent_rows, *sent_grads; /* SEND: [places][expert_width] */
	float *sent_weights;          /* SEND, backward: [places] what each place weighs */
	const void *rows, *grads;     /* HOME: [came][expert_width] */
	const float *weights;         /* HOME, backward: [came] */
	/* HOME: [came][expert_width] what experts give; in the backward fp32, the gradient w.r.t.
	 * their inputs */
	void *made;
	float *made_weights;       /* HOME, backward: [came] gradient w.r.t. the weights */
	const void *back;          /* TAKE: [places][expert_width] as `made` of them */
	const float *back_weights; /* TAKE, backward: [places] */
};

/* What a token gets does not depend on how many are in the call: to sample with a cache gives the
 * same bits as without, where the device's products can (ZR_MM_EACH_ROW). */
#define ZR_CALL_EACH_ROW 1u

/* What the forward saves is dropped, and made again by a second forward just before the backward,
 * whose output nobody reads: `out` is NULL there. So that one ends where the backward needs no
 * more, and all three may keep less in `saved`: what the backward can make again from the rest
 * costs no more there than it would before. The same bits. */
#define ZR_CALL_LEAN 2u

/* The tensors of a unit lie one behind the other in the order of their declaration, each from a
 * multiple of ZR_BLOCK elements on, and so do their gradients, wanted of all of them or of none. So
 * a product may have several weights as one operand. All calls of a layer have it, or none. An
 * adapter that looks for weights among the operands of products takes it away. */
#define ZR_CALL_TOUCHING 4u

/* One call. GROWABLE. Tensors are those of the layer's units, in order, numbered through. */
struct zr_layer_call {
	uint32_t size;
	int32_t layer;
	int32_t training;      /* 0: evaluation, no dropout */
	int32_t dtype;         /* of parameters and activations: ZR_F32, ZR_BF16, ZR_F16 */
	int64_t batch, length; /* B, T */
	/* [B*T], device memory; a target may be negative: none, ZR_PADDING: no token */
	const int32_t *tokens, *targets;
	const void *in; /* output of the layer before */
	void *out;      /* this layer's output */
	void *saved, *work;
	/* backward: on entry the gradient w.r.t. out, on return that w.r.t. in, in the same buffer;
	 * the loss layer gets none and only returns one */
	void *grad;
	const void *const *param; /* [tensors] */
	/* [tensors] backward: fp32 gradients, = or += as `accumulate` says. A NULL pointer means
	 * that the tensor is frozen and that its gradient is not wanted. */
	float *const *dparam;
	/* [tensors] 0: store, the first contribution of a micro-batch; 1: add */
	const uint8_t *accumulate;
	float *loss_rows;  /* [B*T] loss layer: loss of each token */
	double *loss_sum;  /* loss layer: fp64 sum of them, stored; [1]: see zr_model_decl */
	float grad_scale;  /* loss layer: d(objective)/d(loss of one token) */
	uint32_t flags;    /* ZR_CALL_* */
	struct zr_rng rng; /* seed, step, slot; the model sets site = layer*8 + n */
	const struct zr_ops *ops;
	struct zr_stream *stream;
	/* backward, n_rows > 0: nothing but rows [first_row, first_row + n_rows) of the gradient
	 * of zr_layer_bytes.rows_of, whose dparam, the only one, points to the first of them.
	 * `work` and `grad` are as the call for everything else left them, just before. */
	int64_t first_row, n_rows;
	/* [B*T], device memory, NULL: a sequence is one document, all targets count alike. Where in
	 * its sequence a token's document starts, the token's position in it, the target's
	 * weight. */
	const int32_t *starts, *positions;
	const float *weights;
	/* [B*T] loss layer, evaluation: the target's weight where it is the likeliest token, as in
	 * zr_op_head_loss, else 0; NULL: not wanted */
	float *right_rows;
	/* Sampling: zr_layer_bytes.cache bytes that the layer alone writes and reads, in which it
	 * finds what it kept of the `past` tokens before these, and leaves what it keeps of these;
	 * past + T is at most the length of bytes(). NULL, past = 0: nothing is kept. The batch is
	 * one sequence then; `positions` are given, from `past` on. */
	void *cache;
	int64_t past;
	/* d(objective)/d(what the model adds to the loss of this micro-batch): the objective has
	 * the mean of that over the micro-batches of a step */
	float aux_scale;
	/* Where these rows lie among those of their slot, as a whole on one rank: rows of the slot,
	 * which means over a slot's tokens divide by; the number of the first row here, from which
	 * dropout counts; which share of the heads is here, see below. Where nothing is cut
	 * slot_rows is batch * length, and the others are 0. Dimensions of tensors, and batch and
	 * length, are of what is here. */
	int32_t head_share;
	int64_t slot_rows, slot_first;
	/* [tensors] where the zr_tensor.persistent numbers of each are, as the last renew() left
	 * them: device memory of the host, aligned as fp32 numbers are, for the length of the call.
	 * NULL in the table: this tensor has none. NULL instead of the table: no tensor of the
	 * model has any. Layers do not write the numbers, so they are the same in all calls of a
	 * step (forward, backward, computed again) and in the evaluations after the step before. */
	const float *const *persistent;
	/* [heads] forward of a layer that zr_tensor.attention names: where its attention raises the
	 * largest scores, zr_op_attention.max_scores; NULL: not wanted */
	float *max_scores;
	/* With slices: batch is 1, length the rows of a slice, which are rows slot_first to
	 * slot_first + length of the sequence's slot_rows. All that points to rows points to those
	 * of the slice, but `starts`, which points to that of the sequence's first row. `positions`
	 * are given.
	 *
	 * parts: ZR_PART_* that the call computes of a layer of ZR_CUT_KEYS; 0: it has no parts, or
	 * nothing is cut. A forward comes as BEFORE of each slice and then ATTEND | AFTER of each,
	 * or, slices in ascending order, as all three at once. A backward comes as AFTER | ATTEND
	 * of each slice, and then SUMS | BEFORE of each. By heads each part is a call of its own.
	 *
	 * Device memory for the length of the call, zr_layer_bytes says how much for each row:
	 * keys: of the rows here; the forward of BEFORE writes them, and backwards find them again.
	 * all_keys: of rows 0 to slot_first + length, for ATTEND; with all parts at once they are
	 * the same memory. key_sums: the backward of ATTEND stores what the queries here give to
	 * the keys and values of rows 0 to slot_first + length; SUMS reads what all queries gave to
	 * those of the rows here, and rounds it. held: from the backward of ATTEND to that of
	 * BEFORE.
	 *
	 * By heads ATTEND and SUMS are called for all slices on each rank, and have share
	 * `head_share` of sequence_ranks equal ones of the heads: keys, all_keys, key_sums and held
	 * are of these heads then. attended: ATTEND writes it, for these heads; AFTER reads it, of
	 * all heads. dattended: the gradient w.r.t. it, from the backward of AFTER to that of
	 * ATTEND. kept: what ATTEND keeps for its backward. */
	uint32_t parts, rsv3;
	void *keys;
	const void *all_keys;
	float *key_sums;
	void *held, *attended, *dattended, *kept;
	/* [slices][zr_layer_bytes.sums], backward of the loss layer: the sums of all slices, first
	 * of 0, then of slices - 1, 1, slices - 2 and so on, on whatever rank they are: what is
	 * added in this order has the same bits on every rank. NULL: there are none. */
	const double *slot_sums;
	/* Of a layer whose experts are placed: the part of it that is to be computed; NULL: all of
	 * it, with its experts here. `param` of experts that are elsewhere is NULL. */
	const struct zr_home_call *home;
};

/* The end of a step, for zr_model_v1.renew. GROWABLE. All of it is the same on all ranks, and
 * whatever their number. */
struct zr_renewal {
	uint32_t size;
	int32_t n_tensors; /* of the declaration */
	/* updates of the weights so far, with this step's; 0: the training begins, and all
	 * persistent numbers are 0 */
	int64_t step;
	double loss; /* mean over the tokens of the step, of all ranks; of step 0: 0 */
	/* [n_tensors] in canonical order, where the zr_tensor.persistent numbers of each are, to
	 * read and to write: host memory, for the length of the call; NULL: it has none */
	float *const *persistent;
};

/* GROWABLE. */
struct zr_model_v1 {
	uint32_t size, rsv;
	int (*declare)(struct zr_inst *, struct zr_model_decl *); /* [main] */
	/* [main] Bytes that layer `layer` needs with activations of `dtype`. `ops` answers
	 * workspace queries. */
	int (*bytes)(struct zr_inst *, int32_t layer, int64_t batch, int64_t length, int32_t dtype,
		     const struct zr_ops *ops, struct zr_layer_bytes *out);
	int (*forward)(struct zr_inst *, const struct zr_layer_call *);  /* [step] */
	int (*backward)(struct zr_inst *, const struct zr_layer_call *); /* [step] */
	/* (optional) [step] For sampling: the fp32 logits [vocabulary] of row `row` of the loss
	 * layer's input. An operation of the device writes them, so `logits` is device memory, or
	 * host memory if the device has host_ops. */
	int (*logits)(struct zr_inst *, const struct zr_layer_call *, int64_t row, float *logits);
	/* (optional, needed where a tensor has persistent numbers) [step] Writes the persistent
	 * numbers, on every rank alike: once when a training begins, which is step 0, and once
	 * after each step that changed the weights. A step that is skipped leaves them. The new
	 * numbers follow from the struct and from constants, and from nothing that one rank alone
	 * knows, so that no result depends on the number of ranks. A failure ends the training.
	 * Ranks whose numbers differ save no checkpoint. What layers measure does not come here in
	 * this version. */
	int (*renew)(struct zr_inst *, const struct zr_renewal *);
};

/* ---- interface "zr.pretrained/1", optional beside "zr.model/1" -------------------
 * Which model directories of Hugging Face the plugin reads: config.json becomes options, and the
 * tensors in the safetensors files beside it become parameters. They have the names of the
 * parameters, after a prefix perhaps, and the shapes and the element order that declare() gives.
 * This is constant data, so that the host finds the plugin that reads a directory without calling
 * any. */

#define ZR_KEY_ASK 1u /* the host also calls accepts() */
/* The option does not get the value: it is for the INI to decide. Where the two differ a line says
 * what the file has and what counts. */
#define ZR_KEY_NAMED 2u
/* The option gets the value where the INI gives it none, and no key before this one. */
#define ZR_KEY_DEFAULT 4u

/* A key of config.json. GROWABLE by key_stride. */
struct zr_config_key {
	/* "rope_scaling.factor" is in a nested object; of a list every element counts, or where
	 * `values` is NULL all of it as one text, "[1,2]" */
	const char *name;
	const char *option; /* the option that gets the value; NULL: none */
	/* The accepted values, separated by blanks; NULL: any. "silu", or "true=yes" where the
	 * option gets `yes`, or "true=" where it gets nothing. */
	const char *values;
	const char *def; /* the value of a missing key; NULL: none */
	/* values of model_type to which the key applies, separated by blanks; NULL: all */
	const char *types;
	uint32_t flags, rsv;
	const char *null; /* the value of a null; NULL: it says nothing, `def` neither */
};

/* GROWABLE. */
struct zr_pretrained_v1 {
	uint32_t size;
	uint32_t n_keys, key_stride, rsv;
	const struct zr_config_key *keys;
	const char *const *types; /* values of model_type that it reads; ends with NULL */
	/* Options, separated by blanks, that say the same as config.json and are refused beside a
	 * directory. */
	const char *presets;
	const char *prefix; /* may stand before the canonical names in the files; "": none */
	/* Patterns, separated by blanks, of tensors that may be in the files although the model
	 * does not use them. "HEAD=TENSOR" is the head of a model whose head is its embedding:
	 * TENSOR by another name where that is not there. Where both are there and differ the
	 * host takes tie_word_embeddings for false. */
	const char *ignored;
	/* (optional) [pure] Called for a key with ZR_KEY_ASK that has a value: fails with a text
	 * that says what this value would need. In opts all keys are applied, and `auto` is not
	 * resolved yet. */
	int (*accepts)(const struct zr_host *, const void *opts, const char *key,
		       const char *value);
};

#ifdef __cplusplus
}
#endif
#endif
