/* SPDX-License-Identifier: Apache-2.0
 *
 * options_core.c - the sections of core itself, declared as plugins declare theirs.
 */
#include "core/config/config.h"

/* ZR_LOG_* in order */
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
static const char *const comm_types[] = { "auto",
					  [ZR_F32] = "fp32",
					  [ZR_BF16] = "bf16",
					  [ZR_F16] = "fp16",
					  [ZR_SENT_MXINT8] = "mxint8",
					  NULL };
static const char *const gather_types[] = { "auto", "mxint8", NULL };
static const char *const onward[] = { "auto", "yes", "no", NULL };  /* ZR_ONWARD_* in order */
static const char *const reductions[] = { "slots", "local", NULL }; /* ZR_REDUCE_* in order */

static const char *const attentions[] = { "auto", "heads", "keys", NULL }; /* ZR_SEQUENCE_* */

/* ZR_ACCUMULATE_* in order */
static const char *const places[] = { "auto", "device", "tier", NULL };

/* ZR_EXPERTS_ON_* in order */
static const char *const expert_places[] = { "device", "host", NULL };

#define MOST (1 << 24) /* two of these times the ranks fit 63 bits */
#define AUTO_COUNT(f, doc, unit)                                                                   \
	ZR_OPT(struct zr_train_opts, f, ZR_T_COUNT, ZR_O_AUTO | ZR_O_NUMERIC, "auto", 1, MOST,     \
	       unit, doc)
#define TRAIN(f, T, flags, def, min, unit, doc)                                                    \
	ZR_OPT(struct zr_train_opts, f, T, flags, def, min, ZR_HI, unit, doc)

static const struct zr_opt train[] = {
	AUTO_COUNT(train_batch_size,
		   "Sequences per optimizer step over all ranks. Of this, micro_batch_size and "
		   "gradient_accumulation_steps two are given and the third follows.",
		   "sequences"),
	AUTO_COUNT(micro_batch_size, "Sequences per rank and micro-batch.", "sequences"),
	AUTO_COUNT(gradient_accumulation_steps, "Micro-batches per rank and optimizer step.", ""),
	AUTO_COUNT(sequence_length, "Tokens per training sequence; auto is the model's context.",
		   "tokens"),
	TRAIN(steps, ZR_T_COUNT, ZR_O_NUMERIC, "1000", 1, "", "Optimizer steps attempted."),
	ZR_OPT(struct zr_train_opts, epochs, ZR_T_F64, ZR_O_NUMERIC, "0", 0, 1e6, "",
	       "How often the data is gone through: steps follow from it; 0 is as often as steps "
	       "say."),
	TRAIN(eval_every, ZR_T_COUNT, 0, "100", 0, "steps",
	      "Steps between evaluations on the held-out part; 0 is never."),
	ZR_OPT(struct zr_train_opts, eval_every_ratio, ZR_T_F64, 0, "0", 0, 1, "",
	       "The share of all steps that eval_every is, rounded up to whole ones; 0: eval_every "
	       "says it."),
	TRAIN(eval_batches, ZR_T_COUNT, 0, "16", 1, "",
	      "Micro-batches per evaluation on the held-out part, at most all of it."),
	TRAIN(eval_weights, ZR_T_BOOL, 0, "yes", 0, "",
	      "Evaluations, and the weights that a training leaves, use what the optimizer has for "
	      "that, such as an average of them; so do samples and exports of checkpoints. The "
	      "training goes on with its own. Without effect where an optimizer has none. Not with "
	      "qk_clip nor [precision] master = split24 or none."),
	TRAIN(patience, ZR_T_COUNT, 0, "0", 0, "evaluations",
	      "Ends after so many, of those every eval_every steps, without a lower loss than "
	      "before; 0 is never."),
	ZR_OPT(struct zr_train_opts, best_by, ZR_T_STR, 0, "", 0, 0, "",
	       "The NAME of the [eval.NAME] whose loss patience and keep_best go by; empty is the "
	       "held-out part of [data]."),
	TRAIN(seed, ZR_T_I64, ZR_O_NUMERIC, "1234", 0, "",
	      "Seed of initial weights, order of data and dropout."),
	ZR_OPT_ENUM(struct zr_train_opts, communication_data_type, ZR_O_NUMERIC, "auto", comm_types,
		    "What gradients are rounded to before they are summed over ranks; auto is the "
		    "precision's choice. mxint8: codes of 8 bits and an exponent for each 32 of "
		    "them (OCP MXINT8, 1.03 bytes an element), which owners add in fp32; on any "
		    "number of ranks, one too. Not with sum_group, slices nor gradient_part_size."),
	ZR_OPT_ENUM(struct zr_train_opts, gather_data_type, ZR_O_NUMERIC, "auto", gather_types,
		    "What gathers of parameters carry; auto is their own type. mxint8: codes as "
		    "of communication_data_type, half the bytes of bf16. A training then computes "
		    "with weights that are rounded so after each update, whoever holds them, in "
		    "every stage and on one rank, too; masters are as exact as before, and "
		    "exports, `zeroth eval` and `zeroth sample` read them. Frozen tensors stay as "
		    "they are (see [model] store). Needs [precision] plugin = bf16 with masters "
		    "in fp32. For networks that are slower than the computing: `zeroth plan` says "
		    "which."),
	ZR_OPT_ENUM(struct zr_train_opts, reduction, ZR_O_NUMERIC, "slots", reductions,
		    "slots: the owner of a block adds every micro-batch's gradient in slot order, "
		    "so that bits do not depend on the number of ranks; local: each rank sums its "
		    "micro-batches first and sends once per step."),
	TRAIN(sum_group, ZR_T_COUNT, ZR_O_NUMERIC, "1", 1, "slots",
	      "With reduction = slots: gradients of so many micro-batches in a row, a power of "
	      "two, are added as a balanced binary tree before the owner adds them to its sum; "
	      "1 is one after the other. A machine whose ranks hold a whole part of a tree sends "
	      "the sum of that part. It divides the micro-batches of a step, and divides the "
	      "number of ranks or is a multiple of it."),
	TRAIN(slices, ZR_T_COUNT, ZR_O_NUMERIC, "1", 1, "",
	      "A power of two above 1 cuts each sequence into so many slices of equal length, "
	      "which layers compute one after the other: their scratch memory is that of a slice, "
	      "and ranks may share a sequence (sequence_ranks). Gradients of slices are added as "
	      "a balanced binary tree, so that bits depend on slices and not on sequence_ranks. "
	      "Needs micro_batch_size = 1 and divides sequence_length; not for reduction = local."),
	TRAIN(sequence_ranks, ZR_T_COUNT, 0, "1", 1, "ranks",
	      "So many neighbouring ranks, a power of two, share the sequence of a micro-batch: "
	      "each has slices / sequence_ranks of its slices, and memory for their activations "
	      "alone. It divides the number of ranks, and is at most slices. The same bits."),
	ZR_OPT_ENUM(struct zr_train_opts, sequence, 0, "auto", attentions,
		    "How ranks that share a sequence divide a layer's attention. heads: rows are "
		    "exchanged for heads and back, so that each rank has all rows of its share of "
		    "the heads (DeepSpeed's Ulysses); sequence_ranks divides the key heads. keys: "
		    "keys and values of the whole sequence come to each rank, for its own queries. "
		    "auto: heads where they divide. The same bits."),
	ZR_OPT_ENUM(struct zr_train_opts, accumulate_on, 0, "auto", places,
		    "Where a device has a memory of its own and the sums of gradients lie "
		    "elsewhere: device: it adds the micro-batches of a step in its memory, and "
		    "their sum leaves it once; tier: each of them goes where the sums lie, and is "
		    "added there; auto: on the device, if its memory has room on all ranks and "
		    "gradients come there. The same bits. Not for reduction = local, nor for "
		    "gradients in parts, where auto is tier."),
	ZR_OPT_ENUM(struct zr_train_opts, experts_on, ZR_O_NUMERIC, "device", expert_places,
		    "What computes the experts of a mixture. host: with [offload.param], beside a "
		    "device with a memory of its own, their weights stay in host memory, rows of "
		    "tokens go there and come back, and [device.host] multiplies. Its bits are "
		    "those of that device: they may differ from those of [device]."),
	ZR_OPT(struct zr_train_opts, freeze, ZR_T_GLOBS, ZR_O_NUMERIC, "", 0, 0, "",
	       "Tensors that stay as they are, by patterns like those of a parameter group: they "
	       "get no gradient, no master and no optimizer state. A pattern behind a ! takes "
	       "tensors out again; the last one that fits a tensor decides."),
	TRAIN(gradient_part_size, ZR_T_COUNT, ZR_O_AUTO, "auto", 0, "elements",
	      "With [offload.gradient], larger gradients of embeddings and output projections are "
	      "computed in parts of this size, which wait there: the same bits, but logits are "
	      "computed twice. 0 is never; auto is 8388608 on disk, else 0."),
	TRAIN(gradient_clipping, ZR_T_F64, ZR_O_NUMERIC, "1.0", 0, "",
	      "Largest global L2 norm of the gradient; 0 is off."),
	TRAIN(qk_clip, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, "",
	      "QK-Clip (Kimi K2), with any optimizer: after an update, the weights and biases that "
	      "make the queries and keys of a head are scaled down if the largest score of the "
	      "step, the product of a query and a key with its factor and before a soft cap, was "
	      "above qk_clip_threshold. Query heads that share a key head are scaled alike, by the "
	      "largest of their scores. Not for models with norms of queries and keys, which undo "
	      "it, nor where these weights are frozen, as beside [adapter]."),
	ZR_OPT(struct zr_train_opts, qk_clip_threshold, ZR_T_F64, ZR_O_NUMERIC, "100", 1e-6, 1e30,
	       "", "What qk_clip lets scores grow to: tau."),
	ZR_OPT(struct zr_train_opts, qk_clip_alpha, ZR_T_F64, ZR_O_NUMERIC, "0.5", 0, 1, "",
	       "With qk_clip, eta being qk_clip_threshold divided by the score: queries are scaled "
	       "by eta to this power, keys by eta to the rest of 1."),
	ZR_OPT_ENUM(struct zr_train_opts, update_in_forward, 0, "auto", onward,
		    "Each unit is updated inside the forward of the next step, before the first "
		    "layer that needs it, so that its data comes and goes beside other layers: the "
		    "same bits, and buffers of both at once. auto: where an [offload.NAME] keeps "
		    "data on disk, or in host memory beside a GPU. Whatever looks at the weights "
		    "between two steps, as an evaluation or a save, has them updated first."),
};

#define RUN(f, T, def, min, unit, doc)                                                             \
	ZR_OPT(struct zr_run_opts, f, T, 0, def, min, ZR_HI, unit, doc)

static const struct zr_opt run[] = {
	RUN(dir, ZR_T_PATH, "auto", 0, "",
	    "Directory for the files of the run, which must not exist; auto is "
	    "runs/NAME-DATE-TIME."),
	RUN(log_every, ZR_T_COUNT, "10", 1, "steps",
	    "Steps between lines of progress where the output is no terminal."),
	RUN(wall_clock_breakdown, ZR_T_BOOL, "no", 0, "",
	    "The seconds of each step in forward, backward and other parts, as metrics "
	    "and every log_every steps as a line. A device that computes later says by its clock "
	    "what it computed when, and how long no kernel ran; one without a clock is waited for "
	    "after each of its operations."),
	RUN(rates, ZR_T_PATH, "", 0, "", "File of `zeroth bench` for forecasts; empty: its own."),
	RUN(trace, ZR_T_STR, "", 0, "",
	    "Steps of which the run directory gets a trace, as 10 20-22: for Perfetto, each "
	    "instruction of each rank with its times, by the device's clock where it computes "
	    "later and has one; while these run one without is waited for after each of its "
	    "operations."),
};

static const char *const saves[] = { "all", "trainable", NULL }; /* ZR_SAVE_* in order */

#define CHECKPOINT(f, T, def, unit, doc)                                                           \
	ZR_OPT(struct zr_checkpoint_opts, f, T, 0, def, 0, ZR_HI, unit, doc)

static const struct zr_opt checkpoint[] = {
	CHECKPOINT(dir, ZR_T_PATH, "auto", "",
		   "Directory for checkpoints, one for all ranks; auto is checkpoints/ in the run "
		   "directory."),
	CHECKPOINT(every, ZR_T_COUNT, "0", "steps",
		   "Steps between checkpoints, the last step included; 0 is never."),
	ZR_OPT(struct zr_checkpoint_opts, every_ratio, ZR_T_F64, 0, "0", 0, 1, "",
	       "The share of all steps that every is, rounded up to whole ones; 0: every says it."),
	CHECKPOINT(keep, ZR_T_COUNT, "3", "",
		   "Newest checkpoints that are kept once a new one is whole; 0 keeps all."),
	CHECKPOINT(keep_best, ZR_T_BOOL, "no", "",
		   "An evaluation with the lowest loss so far, by [train] best_by, is saved, and "
		   "kept until there is a lower one."),
	CHECKPOINT(async, ZR_T_BOOL, "no", "",
		   "Checkpoints are written while training goes on; what an update would change "
		   "too early is copied first."),
	ZR_OPT_ENUM(struct zr_checkpoint_opts, save, ZR_O_AUTO, "auto", saves,
		    "trainable leaves out what is frozen: going on reads it "
		    "from [model] path, where it must be what it was. auto: trainable with "
		    "[model] path and [adapter] or store, else all."),
	CHECKPOINT(on_signal, ZR_T_BOOL, "yes", "",
		   "A training that a signal or a closed pipe ends leaves a checkpoint of its last "
		   "step."),
};

static const struct zr_opt log_opts[] = {
	ZR_OPT_ENUM(struct zr_log_opts, level, 0, "info", levels,
		    "What is logged: this level and those before it."),
};

static const struct zr_opt memory[] = {
#define TIER(f, doc)                                                                               \
	ZR_OPT(struct zr_memory_opts, f, ZR_T_BYTES, ZR_O_AUTO, "auto", 1, ZR_HI, "bytes", doc)
	TIER(host, "Host memory that each rank may plan with; auto is its share of what the "
		   "machine has available."),
	TIER(disk, "Disk space that each rank may plan with; auto is what the disk has."),
};

static const struct zr_opt group[] = {
	ZR_OPT(struct zr_section, match, ZR_T_GLOBS, ZR_O_REQUIRED | ZR_O_NUMERIC, NULL, 0, 0, "",
	       "The tensors of this group, by patterns of their names as in Hugging Face's files, "
	       "separated by blanks: "
	       "* stands for any text, dots too, ? for one character, [a-z] for one of these."),
};

#define TABLE(section, doc, opts, S)                                                               \
	{                                                                                          \
		section, doc,                                                                      \
		{                                                                                  \
			opts, sizeof opts / sizeof *opts, sizeof *opts, sizeof(S)                  \
		}                                                                                  \
	}

const struct zr_core_table zr_core_tables[] = {
	TABLE("train", "The length and size of the training.", train, struct zr_train_opts),
	TABLE("memory", "Limits of the tiers beside the device.", memory, struct zr_memory_opts),
	TABLE("run", "Where a run leaves its files and how often it speaks.", run,
	      struct zr_run_opts),
	TABLE("checkpoint", "The state of the training, saved so that it can go on.", checkpoint,
	      struct zr_checkpoint_opts),
	TABLE("log", "Messages on standard error.", log_opts, struct zr_log_opts),
	{ 0 },
};

const struct zr_core_table zr_group_table =
	TABLE("optimizer.NAME",
	      "A parameter group: a tensor belongs to the first one, in the order of the file, "
	      "that has a pattern for it, and to [optimizer] if none has.",
	      group, struct zr_section);

static const struct zr_opt eval[] = {
	ZR_OPT(struct zr_section, sequences, ZR_T_COUNT, ZR_O_AUTO, "auto", 1, ZR_HI, "sequences",
	       "Sequences per evaluation, from the first one on; auto is all, once."),
};

const struct zr_core_table zr_eval_table =
	TABLE("eval.NAME",
	      "A set to evaluate on beside the held-out part of [data], with a plugin for [data] "
	      "and its options.",
	      eval, struct zr_section);

static const char *const stores[] = { "auto", "bf16", "int8", "nf4", NULL };

static const struct zr_opt model[] = {
	ZR_OPT(struct zr_section, path, ZR_T_PATH, 0, "", 0, 0, "",
	       "Directory as Hugging Face's save_pretrained leaves it, that the model begins with: "
	       "its config.json gives plugin and options, which may be left out here and not "
	       "contradicted; its safetensors give the parameters. Empty is none: parameters begin "
	       "with random values."),
	ZR_OPT_ENUM(struct zr_section, store, ZR_O_NUMERIC, "auto", stores,
		    "What frozen weights of linear maps are kept and moved in, codes with an fp32 "
		    "scale for each 64 of them, until a layer needs them in what the precision "
		    "computes in, which auto is. All else of the model stays as it is."),
	ZR_OPT(struct zr_section, ignore_keys, ZR_T_STR, 0, "", 0, 0, "",
	       "Keys of config.json, separated by blanks, that are left alone although the "
	       "model's class does not read them: all others must be known. One in an object is "
	       "OBJECT.KEY."),
	ZR_OPT(struct zr_section, add_tokens, ZR_T_STR, 0, "", 0, 0, "",
	       "Special tokens, separated by blanks, that are added to the tokenizer.json of path, "
	       "as in <|im_start|> <|im_end|>: one that is there keeps its id, the others get "
	       "those behind the last one. All that this training reads knows them, [data] too, "
	       "and exports have them. Where there are more tokens than rows, the embedding and "
	       "the head grow by rows that are the mean of the others, as of transformers' "
	       "resize_token_embeddings, without its noise."),
};

const struct zr_core_table zr_model_table = TABLE(
	"model", "What every model has beside its plugin's options.", model, struct zr_section);
