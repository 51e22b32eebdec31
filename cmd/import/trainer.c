/* SPDX-License-Identifier: Apache-2.0
 *
 * trainer.c - every training argument of Hugging Face's transformers and what it is here. Source:
 * TrainingArguments of transformers 5.23, and the names that versions 3 and 4 had beside them.
 */
#include "cmd/import/factory.h"
#include "cmd/import/hf.h"
#include "cmd/import/rows.h"

#define HUB        "nothing is uploaded"
#define LOADER     "there is no loader of batches: sequences are read where they lie"
#define KERNELS    "all kernels are fused"
#define METRIC     "loss and perplexity are measured on what [data] holds out"
#define NO_PYTHON  "there is no Python"
#define OWN_DATA   "nothing is downloaded: save it, and import with --data FILE"
#define ONE_WEIGHT "all targets have one weight"
#define LOGGED     "metrics.jsonl has every step"
#define RANKS      "[comm] and [boot] say how ranks meet"

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
	NONE("[train] seed is that of the data, too", "data_seed"),
	NONE("what does not fit is refused before it starts, with what to change",
	     "auto_find_batch_size"),
	NONE("the loss is the mean over all targets of the batch", "average_tokens_across_devices"),
	NONE("the same configuration gives the same bits", "full_determinism"),
	STOP("0", "targets are not smoothed", "label_smoothing_factor"),
	STOP("0", "embeddings get no noise", "neftune_noise_alpha"),

	/* optimizer and schedule */
	MADE("learning_rate", "optimizer.lr", hf_learning_rate),
	MADE("optim", "optimizer.plugin", hf_optimizer),
	STOP("no", "there is no Adafactor here", "adafactor"),
	STOP("", "give the optimizer's options in [optimizer]", "optim_args"),
	STOP("", "give groups as [optimizer.NAME] match", "optim_target_modules"),
	MADE("weight_decay", "optimizer.weight_decay", hf_weight_decay),
	WITH("adam_beta1", NULL, hf_beside, "[optimizer] betas"),
	WITH("adam_beta2", NULL, hf_beside, "[optimizer] betas"),
	WITH("adam_epsilon", "optimizer.eps", hf_epsilon, "optim"),
	MADE("lr_scheduler_type", "scheduler.plugin", hf_scheduler),
	HF_SCHEDULE_KWARGS,
	STOP("", "give it as keys and values", "lr_scheduler_kwargs"),
	WITH("warmup_steps", NULL, hf_beside, "[scheduler] warmup_num_steps"),
	WITH("warmup_ratio", NULL, hf_beside, "[scheduler] warmup_num_steps"),

	/* precision, activations, devices */
	WITH("bf16", "precision.plugin", hf_precision, "bf16"),
	WITH("fp16", "precision.plugin", hf_precision, "fp16"),
	NONE("evaluation has the precision of training", "bf16_full_eval", "fp16_full_eval"),
	NONE("of Apex", "fp16_opt_level", "fp16_backend", "half_precision_backend"),
	MADE("tf32", "device.tf32", hf_tf32),
	MADE("gradient_checkpointing", "activation.plugin", hf_recompute),
	MADE("activation_checkpointing", "activation.plugin", hf_recompute),
	NONE("recomputing gives the same bits", "gradient_checkpointing_kwargs",
	     "gradient_checkpointing_kwargs.*", "activation_checkpointing_kwargs",
	     "activation_checkpointing_kwargs.*"),
	NONE(KERNELS, "torch_compile", "torch_compile_backend", "torch_compile_mode", "torchdynamo",
	     "use_liger_kernel", "liger_kernel_config", "liger_kernel_config.*", "jit_mode_eval",
	     "use_ipex"),
	NONE("nothing is allocated after the first step", "torch_empty_cache_steps"),
	NONE("keys and values are kept when sampling only", "use_cache"),
	NONE("[device] plugin says it", "use_cpu", "no_cuda", "use_mps_device"),
	NONE("`zeroth plan` shows memory", "skip_memory_metrics"),

	/* ranks and sharding */
	NONE("empty", "deepspeed"),
	MADE("fsdp", "zero.plugin", hf_fsdp),
	NONE("the stage says how parameters are gathered", "fsdp_config", "fsdp_config.*",
	     "fsdp_min_num_params"),
	NONE("each layer is a unit", "fsdp_transformer_layer_cls_to_wrap"),
	STOP("", "use [zero] plugin = stage2 or stage3", "sharded_ddp"),
	MADE("parallelism_config.cp_size", "train.sequence_ranks", zr_import_sequence_ranks),
	MADE("parallelism_config.sp_size", "train.sequence_ranks", zr_import_sequence_ranks),
	STOP("1", "layers are not split over ranks; use DeepSpeed's stage 3",
	     "parallelism_config.tp_size"),
	NONE("the stage says what ranks split, `zeroth train -n N` how many there are",
	     "parallelism_config.dp_replicate_size", "parallelism_config.dp_shard_size"),
	NONE("keys and values of a sequence are exchanged once a layer", "parallelism_config.*"),
	STOP("", "expected an object: cp_size, sp_size", "parallelism_config"),
	NONE(LOADER, "accelerator_config", "accelerator_config.*", "dispatch_batches",
	     "split_batches"),
	NONE(RANKS, "local_rank", "ddp_backend", "ddp_timeout", "xpu_backend", "mp_parameters"),
	NONE("each layer says which parameters it uses", "ddp_find_unused_parameters"),
	NONE("[zero] reduce_bucket_size, in elements", "ddp_bucket_cap_mb"),
	NONE("models have no buffers", "ddp_broadcast_buffers"),
	NONE("a step is one recorded program", "ddp_static_graph"),
	NONE("[device] plugin says it", "tpu_num_cores"),
	NONE(LOGGED, "tpu_metrics_debug"),

	/* data */
	NONE(LOADER, "dataloader_drop_last", "dataloader_num_workers", "dataloader_pin_memory",
	     "dataloader_persistent_workers", "dataloader_prefetch_factor",
	     "dataloader_multiprocessing_context", "dataloader_in_order"),
	NONE("[data] says which fields are read", "remove_unused_columns", "label_names",
	     "dataset_text_field"),
	NONE("[data] order and packing say it", "train_sampling_strategy"),
	NONE("[data] packing puts documents together by length", "group_by_length"),
	NONE("lengths are counted", "length_column_name"),
	NONE("[data] packing says it; documents do not see each other", "packing"),
	NONE("--resume goes on where the data was", "ignore_data_skip"),

	/* output and monitors */
	COPY("output_dir", "run.dir"),
	NONE("a run's directory must not exist yet", "overwrite_output_dir"),
	NONE("monitors write to the run's directory", "logging_dir"),
	MADE("logging_steps", "run.log_every", hf_count),
	NONE(LOGGED, "logging_strategy", "logging_first_step", "include_num_input_tokens_seen",
	     "include_tokens_per_second"),
	NONE("one rank writes", "log_on_each_node"),
	NONE(LOGGED ", as it was", "logging_nan_inf_filter"),
	NONE("[log] level says it", "log_level", "log_level_replica"),
	NONE("progress is one line on a terminal", "disable_tqdm"),
	MADE("report_to", NULL, hf_monitors),
	NONE("[run] dir names the run", "run_name"),
	NONE(HUB, "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id"),
	NONE("every program is proven before it runs", "debug"),

	/* evaluation */
	MADE("eval_strategy", "train.eval_every", hf_eval_strategy),
	MADE("evaluation_strategy", "train.eval_every", hf_eval_strategy),
	MADE("eval_steps", "train.eval_every", hf_eval_steps),
	NONE(METRIC, "eval_delay", "prediction_loss_only", "eval_on_start",
	     "eval_do_concat_batches", "eval_use_gather_object", "use_legacy_prediction_loop",
	     "eval_accumulation_steps", "include_for_metrics", "include_inputs_for_metrics",
	     "batch_eval_metrics", "past_index"),
	NONE("evaluation has the micro-batches of training", "per_device_eval_batch_size",
	     "per_gpu_eval_batch_size"),
	WITH("load_best_model_at_end", "checkpoint.keep_best", hf_yes, "yes"),
	NONE("[train] best_by: it is a loss", "metric_for_best_model", "greater_is_better"),
	NONE("`zeroth train` does", "do_train"),
	NONE("`zeroth eval` does", "do_eval"),
	NONE("`zeroth sample` does", "do_predict"),

	/* checkpoints */
	MADE("save_strategy", "checkpoint.every", hf_save_strategy),
	MADE("save_steps", "checkpoint.every", hf_save_steps),
	COPY("save_total_limit", "checkpoint.keep"),
	NONE("a checkpoint has all; `zeroth checkpoint export` takes the model", "save_only_model"),
	NONE("`zeroth checkpoint export` writes safetensors", "save_safetensors"),
	NONE("[checkpoint] dir is one directory for all ranks", "save_on_each_node"),
	NONE("[checkpoint] on_signal says it", "enable_jit_checkpoint"),
	NONE(NO_PYTHON, "restore_callback_states_from_checkpoint", "ray_scope"),
	NONE("`zeroth train --resume auto` goes on", "resume_from_checkpoint"),
	NONE(HUB, "push_to_hub", "push_to_hub_model_id", "push_to_hub_organization",
	     "push_to_hub_token", "hub_token", "hub_private_repo", "hub_model_id", "hub_strategy",
	     "hub_always_push", "hub_revision"),

	/* of TRL's SFTConfig */
	STOP(NULL, "there is no Python class to give them to", "model_init_kwargs.*"),
	NONE("no code of a model is run", "trust_remote_code"),
	COPY("router_aux_loss_coef", "model.router_aux_loss_coef"),
	MADE("chat_template_path", "data.template", zr_import_jinja),
	STOP(NULL, "[data] says how rows are read", "dataset_kwargs.*"),
	NONE(LOADER, "dataset_num_proc"),
	COPY("eos_token", "data.eos"),
	NONE("what a sequence has left is no target", "pad_token", "pad_to_multiple_of"),
	STOP("keep_start", "the end of what is too long is not what stays", "truncation_mode"),
	NONE("[data] order says it", "shuffle_dataset"),
	NONE("[data] packing says it", "packing_strategy"),
	NONE(KERNELS, "padding_free"),
	NONE("evaluation has the sequences of training", "eval_packing"),
	WITH("completion_only_loss", "data.train_on", hf_learned, "completion"),
	WITH("assistant_only_loss", "data.train_on", hf_learned, "assistant"),
	STOP("nll chunked_nll", ONE_WEIGHT, "loss_type"),
	NONE("[activation] outputs = offload gives the same bits", "activation_offloading"),

	/* of LLaMA-Factory */
	MADE("stage", NULL, lf_stage),
	MADE("finetuning_type", "adapter.plugin", lf_finetuning),
	COPY("lora_rank", "adapter.r"),
	COPY("lora_alpha", "adapter.alpha"),
	COPY("lora_dropout", "adapter.dropout"),
	MADE("lora_target", "adapter.targets", lf_targets),
	MADE("additional_target", "adapter.modules_to_save", lf_targets),
	COPY("adapter_name_or_path", "adapter.path"),
	COPY("use_rslora", "adapter.rslora"),
	STOP("no", "adapters are those of LoRA", "use_dora"),
	STOP("no", "adapters begin at 0", "pissa_init"),
	STOP("", "give [optimizer.NAME] match = *lora_B* and lr", "loraplus_lr_ratio"),
	MADE("quantization_bit", "model.store", lf_bits),
	NONE("[model] store says it", "quantization_method"),
	NONE("scales are fp32", "double_quantization"),
	MADE("template", "data.template", lf_template),
	COPY("cutoff_len", "train.sequence_length"),
	NONE(OWN_DATA, "dataset", "dataset_dir", "max_samples", "eval_dataset"),
	COPY("val_size", "data.split"),
	NONE(LOADER, "overwrite_cache", "preprocessing_num_workers", "preprocessing_batch_size",
	     "tokenized_path"),
	STOP("no", "texts that stream are not read", "streaming"),
	STOP("no", "[data] train_on says what is learned", "train_on_prompt"),
	STOP("no", "[data] train_on = last learns the last answer", "mask_history"),
	NONE("documents do not see each other", "neat_packing"),
	NONE("`zeroth report` draws curves", "plot_loss"),
	NONE(KERNELS, "flash_attn", "use_v1_kernels", "enable_liger_kernel", "use_unsloth"),
	NONE("recomputing gives the same bits", "disable_gradient_checkpointing"),
	STOP("no", "give [precision] plugin = bf16 and master = none", "pure_bf16"),
	STOP("0", "give [model] router_aux_loss_coef", "moe_aux_loss_coef"),
	STOP("no", ONE_WEIGHT, "use_dft_loss", "use_asft_loss", "use_eaft_loss"),
	STOP("no", "there is no such optimizer here", "use_galore", "use_apollo", "use_badam",
	     "use_adam_mini"),
	STOP("no", "Muon takes hidden matrices: [optimizer.NAME] plugin = muon", "use_muon"),
	STOP("no", "layers are not added", "use_llama_pro"),
	STOP("", "every token passes every layer", "mixture_of_depths"),
	STOP("no", "there is no such engine here", "use_kt"),
	STOP("no", "set [precision] plugin = bf16 with products = fp8: its scales are others",
	     "fp8"),

	/* beside the arguments, in files for scripts of transformers and TRL */
	MADE("model_name_or_path", "model.path", hf_model),
	NONE("[data] tokenizer says it", "tokenizer_name"),
	{ 0 },
};

static const char *const defaults[][2] = {
	{ "train.micro_batch_size", "8" }, { "train.seed", "42" },
	{ "train.eval_every", "0" },       { "optimizer.lr", "5e-5" },
	{ "run.log_every", "500" },        { "checkpoint.every", "500" },
	{ "checkpoint.keep", "0" },        { NULL, NULL },
};

static int finish(struct zr_import *im)
{
	static const struct hf_names names = { .kind = &zr_trainer,
					       .scheduler = "lr_scheduler_type",
					       .scheduler_default = "linear",
					       .defaults = defaults,
					       .note = "the default of the training arguments" };

	int rc = lf_finish(im);
	if (!rc)
		rc = hf_finish(im, &names);
	if (!rc && !zr_import_given(im, "train.steps") && !zr_import_given(im, "train.epochs"))
		rc = zr_import_put(im, NULL, "train.epochs", "3", names.note);
	return rc;
}

const struct zr_import_kind zr_trainer = { .name = "transformers",
					   .keys = keys,
					   .finish = finish,
					   .epochs = "num_train_epochs",
					   .epochs_default = 3 };
