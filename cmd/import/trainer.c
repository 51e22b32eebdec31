/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - every training argument of Hugging Face's transformers and what it is here. Source:
 * TrainingArguments of transformers 5.23, and the names that versions 3 and 4 had beside them.
 */
#include "cmd/import/hf.h"
#include "cmd/import/rows.h"

#define HUB "nothing is uploaded"
#define LOADER "there is no loader of batches: sequences are read where they lie"
#define KERNELS "all kernels are fused"
#define METRIC "loss and perplexity are measured on what [data] holds out"
#define NO_PYTHON "there is no Python"
#define LOGGED "metrics.jsonl has every step"
#define RANKS "[comm] and [boot] say how ranks meet"

static const struct zr_import_key keys[] = {
	/* length and batch */
	AUTO("per_device_train_batch_size", "train.micro_batch_size"),
	AUTO("per_gpu_train_batch_size", "train.micro_batch_size"),
	AUTO("gradient_accumulation_steps", "train.gradient_accumulation_steps"),
	MADE("num_train_epochs", "train.epochs", hf_epochs),
	MADE("max_steps", "train.steps", hf_max_steps),
	COPY("max_seq_length", "train.sequence_length"),
	COPY("max_length", "train.sequence_length"),
	MADE("max_grad_norm", "train.gradient_clipping", hf_clipping),
	COPY("seed", "train.seed"),
	NONE("data_seed", "[train] seed is that of the data, too"),
	NONE("auto_find_batch_size",
	     "what does not fit is refused before it starts, with what to change"),
	NONE("average_tokens_across_devices", "the loss is the mean over all targets of the batch"),
	NONE("full_determinism", "the same configuration gives the same bits"),
	STOP("label_smoothing_factor", "0", "targets are not smoothed"),
	STOP("neftune_noise_alpha", "0", "embeddings get no noise"),

	/* optimizer and schedule */
	MADE("learning_rate", "optimizer.lr", hf_learning_rate),
	MADE("optim", "optimizer.plugin", hf_optimizer),
	STOP("adafactor", "no", "there is no Adafactor here"),
	STOP("optim_args", "", "give the optimizer's options in [optimizer]"),
	STOP("optim_target_modules", "", "give groups as [optimizer.NAME] match"),
	MADE("weight_decay", "optimizer.weight_decay", hf_weight_decay),
	WITH("adam_beta1", NULL, hf_beside, "[optimizer] betas"),
	WITH("adam_beta2", NULL, hf_beside, "[optimizer] betas"),
	WITH("adam_epsilon", "optimizer.eps", hf_epsilon, "optim"),
	MADE("lr_scheduler_type", "scheduler.plugin", hf_scheduler),
	HF_SCHEDULE_KWARGS,
	STOP("lr_scheduler_kwargs", "", "give it as keys and values"),
	WITH("warmup_steps", NULL, hf_beside, "[scheduler] warmup_num_steps"),
	WITH("warmup_ratio", NULL, hf_beside, "[scheduler] warmup_num_steps"),

	/* precision, activations, devices */
	WITH("bf16", "precision.plugin", hf_precision, "bf16"),
	WITH("fp16", "precision.plugin", hf_precision, "fp16"),
	NONE("bf16_full_eval", "evaluation has the precision of training"),
	NONE("fp16_full_eval", "evaluation has the precision of training"),
	NONE("fp16_opt_level", "of Apex"),
	NONE("fp16_backend", "of Apex"),
	NONE("half_precision_backend", "of Apex"),
	MADE("tf32", "device.tf32", hf_tf32),
	MADE("gradient_checkpointing", "activation.plugin", hf_recompute),
	MADE("activation_checkpointing", "activation.plugin", hf_recompute),
	NONE("gradient_checkpointing_kwargs", "recomputing gives the same bits"),
	NONE("gradient_checkpointing_kwargs.*", "recomputing gives the same bits"),
	NONE("activation_checkpointing_kwargs", "recomputing gives the same bits"),
	NONE("activation_checkpointing_kwargs.*", "recomputing gives the same bits"),
	NONE("torch_compile", KERNELS),
	NONE("torch_compile_backend", KERNELS),
	NONE("torch_compile_mode", KERNELS),
	NONE("torchdynamo", KERNELS),
	NONE("use_liger_kernel", KERNELS),
	NONE("liger_kernel_config", KERNELS),
	NONE("liger_kernel_config.*", KERNELS),
	NONE("jit_mode_eval", KERNELS),
	NONE("use_ipex", KERNELS),
	NONE("torch_empty_cache_steps", "nothing is allocated after the first step"),
	NONE("use_cache", "keys and values are kept when sampling only"),
	NONE("use_cpu", "[device] plugin says it"),
	NONE("no_cuda", "[device] plugin says it"),
	NONE("use_mps_device", "[device] plugin says it"),
	NONE("skip_memory_metrics", "`zeroth plan` shows memory"),

	/* ranks and sharding */
	NONE("deepspeed", "empty"),
	MADE("fsdp", "zero.plugin", hf_fsdp),
	NONE("fsdp_config", "the stage says how parameters are gathered"),
	NONE("fsdp_config.*", "the stage says how parameters are gathered"),
	NONE("fsdp_min_num_params", "the stage says how parameters are gathered"),
	NONE("fsdp_transformer_layer_cls_to_wrap", "each layer is a unit"),
	STOP("sharded_ddp", "", "use [zero] plugin = stage2 or stage3"),
	STOP("parallelism_config", "", "layers are not split over ranks; use DeepSpeed's stage 3"),
	STOP("parallelism_config.*", "",
	     "layers are not split over ranks; use DeepSpeed's stage 3"),
	NONE("accelerator_config", LOADER),
	NONE("accelerator_config.*", LOADER),
	NONE("dispatch_batches", LOADER),
	NONE("split_batches", LOADER),
	NONE("local_rank", RANKS),
	NONE("ddp_backend", RANKS),
	NONE("ddp_timeout", RANKS),
	NONE("xpu_backend", RANKS),
	NONE("ddp_find_unused_parameters", "each layer says which parameters it uses"),
	NONE("ddp_bucket_cap_mb", "[zero] reduce_bucket_size, in elements"),
	NONE("ddp_broadcast_buffers", "models have no buffers"),
	NONE("ddp_static_graph", "a step is one recorded program"),
	NONE("tpu_num_cores", "[device] plugin says it"),
	NONE("tpu_metrics_debug", LOGGED),
	NONE("mp_parameters", RANKS),

	/* data */
	NONE("dataloader_drop_last", LOADER),
	NONE("dataloader_num_workers", LOADER),
	NONE("dataloader_pin_memory", LOADER),
	NONE("dataloader_persistent_workers", LOADER),
	NONE("dataloader_prefetch_factor", LOADER),
	NONE("dataloader_multiprocessing_context", LOADER),
	NONE("dataloader_in_order", LOADER),
	NONE("remove_unused_columns", "[data] says which fields are read"),
	NONE("label_names", "[data] says which fields are read"),
	NONE("train_sampling_strategy", "[data] order and packing say it"),
	NONE("group_by_length", "[data] packing puts documents together by length"),
	NONE("length_column_name", "lengths are counted"),
	NONE("packing", "[data] packing says it; documents do not see each other"),
	NONE("dataset_text_field", "[data] says which fields are read"),
	NONE("ignore_data_skip", "--resume goes on where the data was"),

	/* output and monitors */
	COPY("output_dir", "run.dir"),
	NONE("overwrite_output_dir", "a run's directory must not exist yet"),
	NONE("logging_dir", "monitors write to the run's directory"),
	MADE("logging_steps", "run.log_every", hf_count),
	NONE("logging_strategy", LOGGED),
	NONE("logging_first_step", LOGGED),
	NONE("log_on_each_node", "one rank writes"),
	NONE("logging_nan_inf_filter", LOGGED ", as it was"),
	NONE("include_num_input_tokens_seen", LOGGED),
	NONE("include_tokens_per_second", LOGGED),
	NONE("log_level", "[log] level says it"),
	NONE("log_level_replica", "[log] level says it"),
	NONE("disable_tqdm", "progress is one line on a terminal"),
	MADE("report_to", NULL, hf_monitors),
	NONE("run_name", "[run] dir names the run"),
	NONE("project", HUB),
	NONE("trackio_space_id", HUB),
	NONE("trackio_bucket_id", HUB),
	NONE("trackio_static_space_id", HUB),
	NONE("debug", "every program is proven before it runs"),

	/* evaluation */
	MADE("eval_strategy", "train.eval_every", hf_eval_strategy),
	MADE("evaluation_strategy", "train.eval_every", hf_eval_strategy),
	MADE("eval_steps", "train.eval_every", hf_eval_steps),
	NONE("eval_delay", METRIC),
	NONE("per_device_eval_batch_size", "evaluation has the micro-batches of training"),
	NONE("per_gpu_eval_batch_size", "evaluation has the micro-batches of training"),
	NONE("prediction_loss_only", METRIC),
	NONE("eval_on_start", METRIC),
	NONE("eval_do_concat_batches", METRIC),
	NONE("eval_use_gather_object", METRIC),
	NONE("use_legacy_prediction_loop", METRIC),
	NONE("eval_accumulation_steps", METRIC),
	NONE("include_for_metrics", METRIC),
	NONE("include_inputs_for_metrics", METRIC),
	NONE("batch_eval_metrics", METRIC),
	NONE("past_index", METRIC),
	WITH("load_best_model_at_end", "checkpoint.keep_best", hf_yes, "yes"),
	NONE("metric_for_best_model", "[train] best_by: it is a loss"),
	NONE("greater_is_better", "[train] best_by: it is a loss"),
	NONE("do_train", "`zeroth train` does"),
	NONE("do_eval", "`zeroth eval` does"),
	NONE("do_predict", "`zeroth sample` does"),

	/* checkpoints */
	MADE("save_strategy", "checkpoint.every", hf_save_strategy),
	MADE("save_steps", "checkpoint.every", hf_save_steps),
	COPY("save_total_limit", "checkpoint.keep"),
	NONE("save_only_model", "a checkpoint has all; `zeroth checkpoint export` takes the model"),
	NONE("save_safetensors", "`zeroth checkpoint export` writes safetensors"),
	NONE("save_on_each_node", "[checkpoint] dir is one directory for all ranks"),
	NONE("enable_jit_checkpoint", "[checkpoint] on_signal says it"),
	NONE("restore_callback_states_from_checkpoint", NO_PYTHON),
	NONE("resume_from_checkpoint", "`zeroth train --resume auto` goes on"),
	NONE("push_to_hub", HUB),
	NONE("push_to_hub_model_id", HUB),
	NONE("push_to_hub_organization", HUB),
	NONE("push_to_hub_token", HUB),
	NONE("hub_token", HUB),
	NONE("hub_private_repo", HUB),
	NONE("hub_model_id", HUB),
	NONE("hub_strategy", HUB),
	NONE("hub_always_push", HUB),
	NONE("hub_revision", HUB),
	NONE("ray_scope", NO_PYTHON),

	/* of TRL's SFTConfig */
	STOP("model_init_kwargs.*", NULL, "there is no Python class to give them to"),
	NONE("trust_remote_code", "no code of a model is run"),
	COPY("router_aux_loss_coef", "model.router_aux_loss_coef"),
	STOP("chat_template_path", "", "Jinja is not run: [data] template names one"),
	STOP("dataset_kwargs.*", NULL, "[data] says how rows are read"),
	NONE("dataset_num_proc", LOADER),
	COPY("eos_token", "data.eos"),
	NONE("pad_token", "what a sequence has left is no target"),
	STOP("truncation_mode", "keep_start", "the end of what is too long is not what stays"),
	NONE("shuffle_dataset", "[data] order says it"),
	NONE("packing_strategy", "[data] packing says it"),
	NONE("padding_free", KERNELS),
	NONE("pad_to_multiple_of", "what a sequence has left is no target"),
	NONE("eval_packing", "evaluation has the sequences of training"),
	WITH("completion_only_loss", "data.train_on", hf_yes, "completion"),
	WITH("assistant_only_loss", "data.train_on", hf_yes, "assistant"),
	STOP("loss_type", "nll chunked_nll", "all targets have one weight"),
	NONE("activation_offloading", "[activation] outputs = offload gives the same bits"),

	/* beside the arguments, in files for scripts of transformers and TRL */
	MADE("model_name_or_path", "model.path", hf_model),
	NONE("tokenizer_name", "[data] tokenizer says it"),
	{ 0 },
};

static const char *const defaults[][2] = {
	{ "train.micro_batch_size", "8" }, { "train.seed", "42" },
	{ "train.eval_every", "0" },	   { "optimizer.lr", "5e-5" },
	{ "run.log_every", "500" },	   { "checkpoint.every", "500" },
	{ "checkpoint.keep", "0" },	   { NULL, NULL },
};

static int finish(struct zr_import *im)
{
	static const struct hf_names names = { .kind = &zr_trainer,
					       .scheduler = "lr_scheduler_type",
					       .scheduler_default = "linear",
					       .defaults = defaults,
					       .note = "the default of the training arguments" };
	int rc = hf_finish(im, &names);
	if (!rc && !zr_import_given(im, "train.steps") && !zr_import_given(im, "train.epochs"))
		rc = zr_import_put(im, NULL, "train.epochs", "3", names.note);
	return rc;
}

const struct zr_import_kind zr_trainer = { "transformers", keys, finish };
