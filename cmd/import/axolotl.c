/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl.c - the keys of Axolotl's YAML and what they are here. Source: the schemas of Axolotl
 * 0.19.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "cmd/import/hf.h"
#include "cmd/import/rows.h"
#include "core/text.h"

#define AX_MAP(name)                                                                               \
	static int name(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)

AX_MAP(adapter)
{
	int rc;
	if (zr_import_is(s->value, "") || !json_is_string(s->value))
		return zr_import_fate(s, ZR_FATE_NONE, "none");
	if (!zr_import_is(s->value, "lora") && !zr_import_is(s->value, "qlora"))
		return zr_import_fate(s, ZR_FATE_REFUSED, "use lora or qlora");
	rc = zr_import_put(im, s, k->to, "lora", NULL);
	return rc || zr_import_is(s->value, "lora") ?
		       rc :
		       zr_import_put(im, s, "model.store", "nf4", NULL);
}

/* A list of names as one text, separated by blanks. */
AX_MAP(names)
{
	char *text = NULL;
	int rc = zr_import_text(s->value, &text);
	if (rc)
		return rc;
	if (json_is_array(s->value)) {
		for (char *c = strchr(text, ','); c; c = strchr(c, ','))
			memmove(c, c + 1, strlen(c));
		rc = zr_import_put(im, s, k->to, text, NULL);
	} else if (!zr_import_is(s->value, "all-linear") && k->text) {
		char *expression = zr_text("%s%s", k->text, text);
		rc = expression ? zr_import_put(im, s, k->to, expression, NULL) : ZR_ENOMEM;
		free(expression);
	} else {
		rc = zr_import_put(im, s, k->to, text, NULL);
	}
	free(text);
	return rc;
}

AX_MAP(bf16)
{
	if (json_is_false(s->value) || json_is_null(s->value))
		return zr_import_fate(s, ZR_FATE_NONE, "off");
	return zr_import_put(im, s, k->to, "bf16", NULL);
}

/* A data set of the hub is not read here; a file of JSON lines is. */
AX_MAP(datasets)
{
	const json_t *first = json_array_get(s->value, 0);
	const char *path = json_string_value(json_object_get(first, "path"));
	const struct zr_setting *model = zr_import_find(im, &zr_axolotl, "base_model");
	const char *dot = path ? strrchr(path, '.') : NULL;
	int rc;
	if (im->data)
		return zr_import_fate(s, ZR_FATE_NONE, "--data says it");
	if (json_array_size(s->value) > 1)
		return zr_import_fate(s, ZR_FATE_NONE,
				      "import with --data FILE, or give [data] plugin = mix "
				      "and a section for each");
	if (!dot || strncmp(dot, ".json", 5))
		return zr_import_fate(s, ZR_FATE_NONE,
				      "nothing is downloaded: save it as JSON lines, and "
				      "import with --data FILE");
	rc = zr_import_put(im, s, "data.plugin", "chat", NULL);
	rc = rc ? rc : zr_import_put(im, s, k->to, path, NULL);
	if (!rc && (im->model || (model && json_is_string(model->value))))
		rc = zr_import_put(im, s, "data.tokenizer",
				   im->model ? im->model : json_string_value(model->value), NULL);
	return rc;
}

static int is_chat(struct zr_import *im)
{
	const char *plugin = zr_import_given(im, "data.plugin");
	const struct zr_setting *s = zr_import_find(im, &zr_axolotl, "datasets");
	const char *path =
		s ? json_string_value(json_object_get(json_array_get(s->value, 0), "path")) : NULL;
	if (plugin || im->data)
		return plugin && !strcmp(plugin, "chat");
	return json_array_size(s ? s->value : NULL) == 1 && path && strstr(path, ".json");
}

/* An option of [data] that conversations have. */
AX_MAP(of_chat)
{
	const int on = json_is_true(s->value);
	if (!is_chat(im))
		return zr_import_fate(s, ZR_FATE_NONE, "of conversations: [data] plugin = chat");
	if (!strcmp(s->path, "sample_packing"))
		return zr_import_put(im, s, k->to, on ? "bfd" : "none", NULL);
	if (!strcmp(s->path, "train_on_inputs"))
		return zr_import_put(im, s, k->to, on ? "all" : "assistant", NULL);
	if (zr_import_number(s, 0) >= 1)
		return zr_import_fate(s, ZR_FATE_REFUSED, "give a share of the data, below 1");
	char *text = NULL;
	int rc = zr_import_text(s->value, &text);
	rc = rc ? rc : zr_import_put(im, s, k->to, text, NULL);
	free(text);
	return rc;
}

/* So often in an epoch, of which the steps follow from the data. */
AX_MAP(per_epoch)
{
	int rc;
	if (!(zr_import_number(s, 0) > 0))
		return zr_import_put(im, s, k->to, "0", NULL);
	rc = zr_import_put(im, s, k->to, k->text, NULL);
	return rc || s->fate != ZR_FATE_MAPPED ?
		       rc :
		       zr_import_fate(s, ZR_FATE_PARTLY, "every so many steps: choose how many");
}

#define KERNELS "all kernels are fused"
#define TOKENIZER "the tokenizer's files say it"
#define LOADER "there is no loader of batches: sequences are read where they lie"
#define MONITOR "a run writes metrics.jsonl; `wandb sync` reads what [monitor] tensorboard writes"
#define HUB "nothing is uploaded"
#define RANKS "[comm] and [boot] say how ranks meet"
#define MODEL "config.json says it"
#define TUNED "only the likelihood of targets is trained; take it out"
#define NOT_HERE "there is nothing like it here; take it out"
#define OF_RL "of rl, which is refused"
#define LACK(path) STOP(path, "no 0", NOT_HERE)
#define STEPS "metrics.jsonl has every step"

static const struct zr_import_key keys[] = {
	/* model and adapters */
	MADE("base_model", "model.path", hf_model),
	NONE("base_model_config", MODEL),
	NONE("model_type", MODEL),
	NONE("type_of_model", MODEL),
	NONE("cls_model_config", MODEL),
	NONE("is_llama_derived_model", MODEL),
	NONE("is_mistral_derived_model", MODEL),
	NONE("is_falcon_derived_model", MODEL),
	NONE("is_qwen_derived_model", MODEL),
	NONE("trust_remote_code", "no code of a model is run"),
	NONE("tokenizer_type", TOKENIZER),
	NONE("tokenizer_config", TOKENIZER),
	NONE("tokenizer_use_fast", TOKENIZER),
	NONE("tokenizer_legacy", TOKENIZER),
	NONE("special_tokens.*", TOKENIZER),
	NONE("special_tokens", TOKENIZER),
	STOP("tokens", "", "tokens are not added; take it out"),
	STOP("added_tokens_overrides.*", "", "tokens are not added; take it out"),
	NONE("resize_token_embeddings_to_32x", "[model] vocabulary pads the embedding"),
	MADE("adapter", "adapter.plugin", adapter),
	WITH("load_in_4bit", "model.store", hf_yes, "nf4"),
	WITH("load_in_8bit", "model.store", hf_yes, "int8"),
	COPY("lora_r", "adapter.r"),
	COPY("lora_alpha", "adapter.alpha"),
	COPY("lora_dropout", "adapter.dropout"),
	WITH("lora_target_modules", "adapter.targets", names, "re:"),
	WITH("lora_target_linear", "adapter.targets", hf_yes, "all-linear"),
	MADE("lora_modules_to_save", "adapter.modules_to_save", names),
	COPY("lora_model_dir", "adapter.path"),
	COPY("peft_use_rslora", "adapter.rslora"),
	STOP("peft_use_dora", "no", "use LoRA"),
	NONE("lora_fan_in_fan_out", MODEL),
	NONE("lora_mlp_kernel", KERNELS),
	NONE("lora_qkv_kernel", KERNELS),
	NONE("lora_o_kernel", KERNELS),
	NONE("lora_embedding_kernel", KERNELS),
	NONE("lora_on_cpu", "[offload.param] says it"),
	STOP("lora_rank_pattern.*", "", "give [adapter] rank_pattern"),
	STOP("lora_alpha_pattern.*", "", "give [adapter] alpha_pattern"),
	STOP("unfrozen_parameters", "", "give [train] freeze, which names what is frozen"),

	/* data */
	MADE("datasets", "data.path", datasets),
	STOP("test_datasets", "", "give [data] val_path"),
	STOP("pretraining_dataset", "",
	     "save it as text, make tokens by `zeroth tokenize`, and use --data"),
	MADE("val_set_size", "data.split", of_chat),
	MADE("train_on_inputs", "data.train_on", of_chat),
	MADE("sample_packing", "data.packing", of_chat),
	COPY("sequence_len", "train.sequence_length"),
	NONE("eval_sequence_len", "evaluation has the sequences of training"),
	NONE("pad_to_sequence_len", "what a sequence has left is no target"),
	NONE("eval_sample_packing", "evaluation has the sequences of training"),
	NONE("multipack_real_batches", "[data] packing says it"),
	NONE("sample_packing_group_size", "[data] packing says it"),
	NONE("sample_packing_bin_size", "[data] packing says it"),
	NONE("sample_packing_sequentially", "[data] packing says it"),
	NONE("group_by_length", "[data] packing puts documents together by length"),
	NONE("chat_template", "tokenizer_config.json says it: [data] template"),
	NONE("default_system_message", "[data] system says it"),
	NONE("dataset_prepared_path", "[data] cache keeps the tokens"),
	NONE("dataset_processes", LOADER),
	NONE("dataset_num_proc", LOADER),
	NONE("dataset_keep_in_memory", LOADER),
	NONE("shuffle_merged_datasets", "[data] order says it"),
	NONE("shuffle_before_merging_datasets", "[data] order says it"),
	NONE("skip_prepare_dataset", "[data] cache keeps the tokens"),
	NONE("push_dataset_to_hub", HUB),
	NONE("hf_use_auth_token", HUB),
	NONE("dataloader_pin_memory", LOADER),
	NONE("dataloader_num_workers", LOADER),
	NONE("dataloader_prefetch_factor", LOADER),
	NONE("dataloader_drop_last", LOADER),
	NONE("remove_unused_columns", LOADER),
	NONE("accelerator_config.*", LOADER),
	NONE("min_sample_len", "[data] says which documents are left out"),
	NONE("excess_length_strategy", "[data] max_length says it"),

	/* length, optimizer, schedule */
	COPY("micro_batch_size", "train.micro_batch_size"),
	COPY("gradient_accumulation_steps", "train.gradient_accumulation_steps"),
	STOP("batch_size", "", "give micro_batch_size and gradient_accumulation_steps"),
	NONE("eval_batch_size", "evaluation has the micro-batches of training"),
	NONE("auto_find_batch_size", "what does not fit is refused before it starts"),
	MADE("num_epochs", "train.epochs", hf_epochs),
	MADE("max_steps", "train.steps", hf_max_steps),
	COPY("seed", "train.seed"),
	MADE("optimizer", "optimizer.plugin", hf_optimizer),
	STOP("optim_args", "", "give the optimizer's options in [optimizer]"),
	STOP("optim_args.*", "", "give the optimizer's options in [optimizer]"),
	STOP("optim_target_modules", "", "give groups as [optimizer.NAME] match"),
	MADE("learning_rate", "optimizer.lr", hf_learning_rate),
	STOP("embedding_lr", "", "give [optimizer.NAME] match and lr"),
	STOP("embedding_lr_scale", "", "give [optimizer.NAME] match and lr"),
	STOP("lr_groups", "", "give [optimizer.NAME] match and lr"),
	STOP("loraplus_lr_ratio", "", "give [optimizer.NAME] match = *lora_B* and lr"),
	NONE("loraplus_lr_embedding", "of loraplus_lr_ratio"),
	MADE("weight_decay", "optimizer.weight_decay", hf_weight_decay),
	WITH("adam_beta1", NULL, hf_beside, "[optimizer] betas"),
	WITH("adam_beta2", NULL, hf_beside, "[optimizer] betas"),
	WITH("adam_epsilon", "optimizer.eps", hf_epsilon, "optimizer"),
	MADE("max_grad_norm", "train.gradient_clipping", hf_clipping),
	MADE("lr_scheduler", "scheduler.plugin", hf_scheduler),
	HF_SCHEDULE_KWARGS,
	WITH("cosine_min_lr_ratio", NULL, hf_beside, "[scheduler] min_lr_rate"),
	WITH("cosine_constant_lr_ratio", NULL, hf_beside, "[scheduler] constant_lr_ratio"),
	WITH("lr_quadratic_warmup", NULL, hf_beside, "[scheduler] quadratic_warmup"),
	WITH("warmup_steps", NULL, hf_beside, "[scheduler] warmup_num_steps"),
	WITH("warmup_ratio", NULL, hf_beside, "[scheduler] warmup_num_steps"),
	STOP("neftune_noise_alpha", "0", "embeddings get no noise; take it out"),

	/* precision, activations, ranks */
	MADE("bf16", "precision.plugin", bf16),
	MADE("bfloat16", "precision.plugin", bf16),
	WITH("fp16", "precision.plugin", hf_precision, "fp16"),
	WITH("float16", "precision.plugin", hf_precision, "fp16"),
	NONE("float32", "[precision] plugin = fp32 is the default"),
	STOP("fp8", "no", "use bf16"),
	MADE("tf32", "device.tf32", hf_tf32),
	MADE("gradient_checkpointing", "activation.plugin", hf_recompute),
	NONE("gradient_checkpointing_kwargs.*", "recomputing gives the same bits"),
	STOP("activation_offloading", "no", "use [activation] plugin = offload"),
	NONE("deepspeed", "empty"),
	MADE("fsdp", "zero.plugin", hf_fsdp),
	NONE("fsdp_config.*", "the stage says how parameters are gathered"),
	NONE("fsdp_config", "the stage says how parameters are gathered"),
	NONE("fsdp_version", "the stage says how parameters are gathered"),
	NONE("fsdp_final_state_dict_type", "a checkpoint is whole"),
	STOP("tensor_parallel_size", "1",
	     "layers are not split over ranks; use DeepSpeed's stage 3"),
	STOP("context_parallel_size", "1", "sequences are not split over ranks; take it out"),
	STOP("sequence_parallel_degree", "1", "sequences are not split over ranks; take it out"),
	NONE("local_rank", RANKS),
	NONE("world_size", RANKS),
	NONE("ddp", RANKS),
	NONE("ddp_timeout", RANKS),
	NONE("ddp_bucket_cap_mb", "[zero] reduce_bucket_size, in elements"),
	NONE("ddp_broadcast_buffers", "models have no buffers"),
	NONE("ddp_find_unused_parameters", "each layer says which parameters it uses"),
	NONE("device", "[device] plugin says it"),
	NONE("device_map", "[device] plugin says it"),
	NONE("max_memory", "[device] memory says it"),
	NONE("gpu_memory_limit", "[device] memory says it"),
	NONE("low_cpu_mem_usage", "every rank reads only what it holds"),
	NONE("flash_attention", KERNELS),
	NONE("flash_attn_cross_entropy", KERNELS),
	NONE("flash_attn_rms_norm", KERNELS),
	NONE("flash_attn_fuse_mlp", KERNELS),
	NONE("flash_attn_fuse_qkv", KERNELS),
	NONE("xformers_attention", KERNELS),
	NONE("sdp_attention", KERNELS),
	NONE("flex_attention", KERNELS),
	NONE("sage_attention", KERNELS),
	NONE("eager_attention", KERNELS),
	NONE("attn_implementation", KERNELS),
	NONE("torch_compile", KERNELS),
	NONE("torch_compile_backend", KERNELS),
	NONE("torch_compile_mode", KERNELS),
	NONE("plugins", KERNELS),
	NONE("liger_rope", KERNELS),
	NONE("liger_rms_norm", KERNELS),
	NONE("liger_glu_activation", KERNELS),
	NONE("liger_swiglu", KERNELS),
	NONE("liger_layer_norm", KERNELS),
	NONE("liger_cross_entropy", KERNELS),
	NONE("liger_fused_linear_cross_entropy", KERNELS),
	NONE("cut_cross_entropy", KERNELS),
	NONE("chunked_cross_entropy", KERNELS),
	NONE("tiled_mlp", KERNELS),
	STOP("s2_attention", "no", "sequences have their whole attention; take it out"),
	NONE("gc_steps", "nothing is allocated after the first step"),
	NONE("torch_empty_cache_steps", "nothing is allocated after the first step"),

	/* output, evaluation, checkpoints, monitors */
	COPY("output_dir", "run.dir"),
	MADE("logging_steps", "run.log_every", hf_count),
	MADE("eval_steps", "train.eval_every", hf_eval_steps),
	MADE("eval_strategy", "train.eval_every", hf_eval_strategy),
	MADE("evaluation_strategy", "train.eval_every", hf_eval_strategy),
	WITH("evals_per_epoch", "train.eval_every", per_epoch, "100"),
	MADE("save_steps", "checkpoint.every", hf_save_steps),
	MADE("save_strategy", "checkpoint.every", hf_save_strategy),
	WITH("saves_per_epoch", "checkpoint.every", per_epoch, "500"),
	COPY("save_total_limit", "checkpoint.keep"),
	NONE("save_safetensors", "`zeroth checkpoint export` writes safetensors"),
	NONE("save_only_model", "a checkpoint has all; `zeroth checkpoint export` takes the model"),
	NONE("save_first_step",
	     "`zeroth plan` says before the first step whether a checkpoint fits"),
	COPY("early_stopping_patience", "train.patience"),
	WITH("load_best_model_at_end", "checkpoint.keep_best", hf_yes, "yes"),
	NONE("metric_for_best_model", "[train] best_by: it is a loss"),
	NONE("greater_is_better", "[train] best_by: it is a loss"),
	NONE("resume_from_checkpoint", "`zeroth train --resume auto` goes on"),
	NONE("auto_resume_from_checkpoints", "`zeroth train --resume auto` goes on"),
	NONE("eval_table_size", STEPS),
	NONE("eval_max_new_tokens", "`zeroth sample` writes text"),
	NONE("eval_causal_lm_metrics", "loss and perplexity are measured on what [data] holds out"),
	NONE("do_causal_lm_eval", "loss and perplexity are measured on what [data] holds out"),
	NONE("do_bench_eval", "loss and perplexity are measured on what [data] holds out"),
	NONE("loss_watchdog_threshold", "[train] patience ends a run"),
	NONE("loss_watchdog_patience", "[train] patience ends a run"),
	NONE("include_tokens_per_second", STEPS),
	NONE("include_tkps", STEPS),
	NONE("profiler_steps", STEPS),
	NONE("debug", "[log] level says it"),
	NONE("strict", "every unknown key is an error"),
	NONE("logging_dir", "monitors write to the run's directory"),
	WITH("use_tensorboard", "monitor.tensorboard.plugin", hf_yes, "tensorboard"),
	NONE("use_wandb", MONITOR),
	NONE("wandb_mode", MONITOR),
	NONE("wandb_project", MONITOR),
	NONE("wandb_entity", MONITOR),
	NONE("wandb_watch", MONITOR),
	NONE("wandb_name", MONITOR),
	NONE("wandb_run_id", MONITOR),
	NONE("wandb_log_model", MONITOR),
	NONE("use_mlflow", MONITOR),
	NONE("mlflow_tracking_uri", MONITOR),
	NONE("mlflow_experiment_name", MONITOR),
	NONE("mlflow_run_name", MONITOR),
	NONE("hf_mlflow_log_artifacts", MONITOR),
	NONE("use_comet", MONITOR),
	NONE("comet_project_name", MONITOR),
	NONE("hub_model_id", HUB),
	NONE("hub_strategy", HUB),
	NONE("hub_revision", HUB),

	/* other ways to train */
	STOP("rl", "", TUNED),
	STOP("reward_model", "no", TUNED),
	STOP("process_reward_model", "no", TUNED),
	STOP("trl.*", NULL, TUNED),
	STOP("rl_beta", NULL, TUNED),
	STOP("dpo_beta", NULL, TUNED),
	STOP("kd_trainer", "no", TUNED),
	STOP("relora", "no", NOT_HERE),
	STOP("relora_steps", "", NOT_HERE),
	STOP("lisa_n_layers", "", NOT_HERE),
	STOP("loftq_bits", "", NOT_HERE),
	STOP("gptq", "no", "use load_in_4bit"),
	STOP("qat.*", NULL, NOT_HERE),
	STOP("quantization.*", NULL, NOT_HERE),
	STOP("use_pose", "no", NOT_HERE),
	STOP("streaming", "no", NOT_HERE),
	STOP("overrides_of_model_config.*", NULL,
	     "config.json says what the model is; change it there"),
	STOP("rope_scaling.*", NULL, "give [model] rope_scaling and rope_factor"),

	/* the rest of the schema */
	NONE("adam_beta3", "of an optimizer or schedule that is not here"),
	NONE("adam_epsilon2", "of an optimizer or schedule that is not here"),
	NONE("axolotl_config_path", "nothing of a run here depends on it"),
	NONE("batch_flattening", KERNELS),
	NONE("bench_dataset", "of what is not asked for, or refused by its own key"),
	NONE("bench_split", "of what is not asked for, or refused by its own key"),
	NONE("bnb_config_kwargs.*", "nothing of a run here depends on it"),
	NONE("capabilities.*", "nothing of a run here depends on it"),
	NONE("center_rewards_coefficient", OF_RL),
	LACK("chat_template_jinja"),
	NONE("chat_template_kwargs.*", "[data] says it"),
	NONE("chunked_cross_entropy_num_chunks",
	     "of what is not asked for, or refused by its own key"),
	NONE("comet_api_key", MONITOR),
	NONE("comet_experiment_config.*", MONITOR),
	NONE("comet_experiment_key", MONITOR),
	NONE("comet_mode", MONITOR),
	NONE("comet_online", MONITOR),
	NONE("comet_workspace", MONITOR),
	NONE("cpo_alpha", OF_RL),
	NONE("curriculum_sampling", "nothing of a run here depends on it"),
	NONE("dataset_exact_deduplication", "[data] says it"),
	NONE("dataset_shard_idx", "[data] says it"),
	NONE("dataset_shard_num", "[data] says it"),
	NONE("deepcompile", KERNELS),
	NONE("dion_lr", "of an optimizer or schedule that is not here"),
	NONE("dion_momentum", "of an optimizer or schedule that is not here"),
	NONE("dion_rank_fraction", "of an optimizer or schedule that is not here"),
	NONE("dion_rank_multiple_of", "of an optimizer or schedule that is not here"),
	LACK("dp_replicate_size"),
	LACK("dp_shard_size"),
	NONE("dpo_generate_during_eval", OF_RL),
	NONE("dpo_label_smoothing", OF_RL),
	NONE("dpo_loss_type", OF_RL),
	NONE("dpo_loss_weights", OF_RL),
	NONE("dpo_norm_loss", OF_RL),
	NONE("dpo_padding_free", OF_RL),
	NONE("dpo_use_liger_kernel", OF_RL),
	NONE("dpo_use_logits_to_keep", OF_RL),
	NONE("dpo_use_weighting", OF_RL),
	NONE("dynamic_checkpoint.*", "nothing of a run here depends on it"),
	NONE("eaft_alpha", "of what is not asked for, or refused by its own key"),
	NONE("eaft_k", "of what is not asked for, or refused by its own key"),
	LACK("ebft.*"),
	NONE("embeddings_skip_upcast", "nothing of a run here depends on it"),
	NONE("env_capabilities.*", "nothing of a run here depends on it"),
	LACK("eot_tokens"),
	NONE("experimental_skip_move_to_device", "nothing of a run here depends on it"),
	NONE("experts_implementation", KERNELS),
	NONE("fix_untrained_tokens", "[data] says it"),
	NONE("flash_attn_d512", KERNELS),
	NONE("flash_optimum", KERNELS),
	NONE("flex_attn_compile_kwargs.*", KERNELS),
	NONE("fp32_norm_classes", "nothing of a run here depends on it"),
	NONE("fp32_norms", "nothing of a run here depends on it"),
	NONE("fp8_config.*", "of what is not asked for, or refused by its own key"),
	NONE("fp8_enable_fsdp_float8_all_gather",
	     "of what is not asked for, or refused by its own key"),
	LACK("freeze_mm_modules"),
	NONE("fused_attn_kernel", KERNELS),
	NONE("gc_collect_steps", "nothing of a run here depends on it"),
	NONE("gemma4_hybrid_attn_impl", KERNELS),
	NONE("generate_samples", "`zeroth sample` writes text"),
	NONE("generation_do_sample", "`zeroth sample` writes text"),
	NONE("generation_max_new_tokens", "`zeroth sample` writes text"),
	NONE("generation_prompt_ratio", "`zeroth sample` writes text"),
	NONE("generation_temperature", "`zeroth sample` writes text"),
	NONE("generation_top_k", "`zeroth sample` writes text"),
	NONE("generation_top_p", "`zeroth sample` writes text"),
	NONE("gradio_max_new_tokens", "`zeroth sample` writes text"),
	NONE("gradio_server_name", "`zeroth sample` writes text"),
	NONE("gradio_server_port", "`zeroth sample` writes text"),
	NONE("gradio_share", "`zeroth sample` writes text"),
	NONE("gradio_temperature", "`zeroth sample` writes text"),
	NONE("gradio_title", "`zeroth sample` writes text"),
	NONE("heads_k_stride", KERNELS),
	NONE("is_preprocess", "[data] says it"),
	NONE("jagged_restart_anneal_steps", "of an optimizer or schedule that is not here"),
	NONE("jagged_restart_steps", "of an optimizer or schedule that is not here"),
	NONE("jagged_restart_warmup_steps", "of an optimizer or schedule that is not here"),
	NONE("kto_desirable_weight", OF_RL),
	NONE("kto_undesirable_weight", OF_RL),
	NONE("large_head_attention", KERNELS),
	LACK("layer_offloading"),
	NONE("lisa_layers_attribute", "of what is not asked for, or refused by its own key"),
	NONE("lisa_step_interval", "of what is not asked for, or refused by its own key"),
	NONE("llama4_linearized_experts", KERNELS),
	LACK("lora_target_parameters"),
	NONE("lr_div_factor", "of an optimizer or schedule that is not here"),
	NONE("max_packed_sequence_len", "[data] says it"),
	NONE("max_prompt_len", OF_RL),
	NONE("mean_resizing_embeddings", "nothing of a run here depends on it"),
	LACK("merge_lora"),
	NONE("merge_method", "of what is not asked for, or refused by its own key"),
	NONE("model_quantization_config", "nothing of a run here depends on it"),
	NONE("model_quantization_config_kwargs.*", "nothing of a run here depends on it"),
	LACK("noisy_embedding_alpha"),
	NONE("num_dataset_shards_to_save", "[data] says it"),
	NONE("num_generation_samples", "`zeroth sample` writes text"),
	NONE("num_labels", OF_RL),
	NONE("orpo_alpha", OF_RL),
	NONE("otel_metrics_host", MONITOR),
	NONE("otel_metrics_port", MONITOR),
	LACK("overrides_of_model_kwargs.*"),
	NONE("pad_to_multiple_of", "[data] says it"),
	LACK("peft.*"),
	NONE("peft_autocast_adapter_dtype", "nothing of a run here depends on it"),
	NONE("peft_ensure_weight_tying", "nothing of a run here depends on it"),
	LACK("peft_init_lora_weights"),
	LACK("peft_layer_replication"),
	LACK("peft_layers_pattern"),
	LACK("peft_layers_to_transform"),
	LACK("peft_trainable_token_indices"),
	LACK("ple_cpu_offload"),
	NONE("pose_max_context_len", "of what is not asked for, or refused by its own key"),
	NONE("pose_num_chunks", "of what is not asked for, or refused by its own key"),
	NONE("pose_split_on_token_ids", "of what is not asked for, or refused by its own key"),
	NONE("precompute_ref_log_probs", OF_RL),
	NONE("preprocess_iterable", "[data] says it"),
	NONE("pretrain_multipack_attn", "of what is not asked for, or refused by its own key"),
	NONE("pretrain_multipack_buffer_size",
	     "of what is not asked for, or refused by its own key"),
	NONE("pretraining_sample_concatenation",
	     "of what is not asked for, or refused by its own key"),
	NONE("processor_kwargs.*", TOKENIZER),
	NONE("processor_type", TOKENIZER),
	NONE("profiler_steps_start", "of what is not asked for, or refused by its own key"),
	NONE("qgalore_cos_threshold", "of an optimizer or schedule that is not here"),
	NONE("qgalore_gamma_proj", "of an optimizer or schedule that is not here"),
	NONE("qgalore_proj_bits", "of an optimizer or schedule that is not here"),
	NONE("qgalore_proj_group_size", "of an optimizer or schedule that is not here"),
	NONE("qgalore_proj_quant", "of an optimizer or schedule that is not here"),
	NONE("qgalore_proj_type", "of an optimizer or schedule that is not here"),
	NONE("qgalore_queue_size", "of an optimizer or schedule that is not here"),
	NONE("qgalore_rank", "of an optimizer or schedule that is not here"),
	NONE("qgalore_scale", "of an optimizer or schedule that is not here"),
	NONE("qgalore_update_proj_gap", "of an optimizer or schedule that is not here"),
	NONE("qlora_sharded_model_loading", "nothing of a run here depends on it"),
	LACK("quantize_moe_experts"),
	NONE("ray_num_workers", RANKS),
	NONE("ray_run_name", RANKS),
	LACK("reinit_weights"),
	NONE("relora_cpu_offload", "of what is not asked for, or refused by its own key"),
	NONE("relora_prune_method", "of what is not asked for, or refused by its own key"),
	NONE("relora_prune_ratio", "of what is not asked for, or refused by its own key"),
	NONE("resources_per_worker.*", RANKS),
	NONE("revision_of_model", "nothing of a run here depends on it"),
	NONE("ring_attn_func", KERNELS),
	NONE("rpo_alpha", OF_RL),
	NONE("sample_packing_eff_est", "[data] says it"),
	NONE("sample_packing_mp_start_method", "[data] says it"),
	LACK("scaling_softmax"),
	NONE("scaling_softmax_bias", "of what is not asked for, or refused by its own key"),
	NONE("scaling_softmax_factor", "of what is not asked for, or refused by its own key"),
	NONE("sdpa_varlen", KERNELS),
	LACK("selective_checkpointing"),
	NONE("shrink_embeddings", "nothing of a run here depends on it"),
	NONE("simpo_gamma", OF_RL),
	NONE("streaming_multipack_buffer_size",
	     "of what is not asked for, or refused by its own key"),
	NONE("tiled_mlp_num_shards", "of what is not asked for, or refused by its own key"),
	NONE("tiled_mlp_use_original_mlp", "of what is not asked for, or refused by its own key"),
	NONE("tokenizer_save_jinja_files", TOKENIZER),
	NONE("tokenizer_use_mistral_common", TOKENIZER),
	NONE("torch_compile_options.*", KERNELS),
	NONE("torchdistx_path", "of an optimizer or schedule that is not here"),
	NONE("total_num_tokens", "[data] says it"),
	NONE("total_supervised_tokens", "[data] says it"),
	NONE("trackio_project_name", MONITOR),
	NONE("trackio_run_name", MONITOR),
	NONE("trackio_space_id", MONITOR),
	NONE("trainer_cls", "nothing of a run here depends on it"),
	LACK("use_eaft"),
	NONE("use_kernels", KERNELS),
	LACK("use_onebitllms"),
	NONE("use_otel_metrics", MONITOR),
	NONE("use_ray", RANKS),
	NONE("use_trackio", MONITOR),
	LACK("vllm.*"),
	{ 0 },
};

static const char *const defaults[][2] = {
	{ "train.micro_batch_size", "1" }, { "train.seed", "42" }, { "checkpoint.every", "500" },
	{ "checkpoint.keep", "0" },	   { NULL, NULL },
};

static int put_schedule(struct zr_import *im, struct zr_setting *s, const char *plugin,
			const char *to)
{
	zr_import_drop(im, "scheduler.plugin");
	int rc = zr_import_put(im, s, "scheduler.plugin", plugin, NULL);
	char *text = NULL;
	if (!rc)
		rc = zr_import_text(s->value, &text);
	if (!rc)
		rc = zr_import_put(im, s, to, text, NULL);
	free(text);
	return rc;
}

/* What Axolotl makes of a cosine; of lr_scheduler = cosine alone. */
static int finish_cosine(struct zr_import *im)
{
	static const char *const keys[] = { "lr_quadratic_warmup", "cosine_min_lr_ratio",
					    "cosine_constant_lr_ratio" };
	const struct zr_setting *name = zr_import_find(im, &zr_axolotl, "lr_scheduler");
	const int theirs = !!zr_import_find(im, im->deepspeed, "scheduler.type");
	const int cosine = !theirs && (!name || zr_import_is(name->value, "cosine"));
	const int on[] = { cosine && zr_import_is_on(im, &zr_axolotl, keys[0]),
			   cosine && zr_import_is_on(im, &zr_axolotl, keys[1]),
			   cosine && zr_import_is_on(im, &zr_axolotl, keys[2]) };
	int rc = 0;
	for (int i = 0; !rc && i < 3; i++) {
		struct zr_setting *s = zr_import_find(im, &zr_axolotl, keys[i]);
		if (!s)
			continue;
		if (!cosine)
			rc = zr_import_fate(s, ZR_FATE_NONE, "of lr_scheduler: cosine alone");
		else if (!on[i])
			rc = zr_import_fate(s, ZR_FATE_NONE, "off");
		else if (i > 0 && on[0])
			rc = zr_import_fate(s, ZR_FATE_NONE, "lr_quadratic_warmup comes before it");
		else if (i == 0)
			rc = put_schedule(im, s, "cosine", "scheduler.quadratic_warmup");
		else if (i == 1)
			rc = put_schedule(im, s, "cosine_with_min_lr", "scheduler.min_lr_rate");
		else if (!on[1])
			rc = zr_import_fate(s, ZR_FATE_NONE, "Axolotl reads it beside "
							     "cosine_min_lr_ratio only");
		else
			rc = put_schedule(im, s, "cosine_with_min_lr",
					  "scheduler.constant_lr_ratio");
	}
	return rc;
}

static int finish(struct zr_import *im)
{
	static const struct hf_names names = { .kind = &zr_axolotl,
					       .scheduler = "lr_scheduler",
					       .scheduler_default = "cosine",
					       .defaults = defaults,
					       .note = "Axolotl's default",
					       .is_axolotl = 1 };
	int rc = finish_cosine(im);
	rc = rc ? rc : hf_finish(im, &names);
	if (!rc && !zr_import_given(im, "train.steps") && !zr_import_given(im, "train.epochs"))
		rc = zr_import_put(im, NULL, "train.epochs", "1", names.note);
	return rc;
}

const struct zr_import_kind zr_axolotl = { "Axolotl", keys, finish };
