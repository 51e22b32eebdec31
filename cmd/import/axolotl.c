/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl.c - the keys of Axolotl's YAML and what they are here. Source: the schemas of Axolotl
 * 0.19.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/axolotl.h"
#include "cmd/import/hf.h"
#include "cmd/import/rows.h"
#include "core/base/text.h"

static IMPORT_MAP(adapter)
{
	int rc;

	if (zr_import_is(s->value, "") || !json_is_string(s->value))
		return zr_import_no_effect(s, "none");
	if (!zr_import_is(s->value, "lora") && !zr_import_is(s->value, "qlora"))
		return zr_import_impossible(s, "use lora or qlora");

	rc = zr_import_put(im, s, k->to, "lora", NULL);
	if (rc || zr_import_is(s->value, "lora"))
		return rc;
	return zr_import_put(im, s, "model.store", "nf4", NULL);
}

/* A list of names as one text, separated by blanks. */
static IMPORT_MAP(names)
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
		if (expression)
			rc = zr_import_put(im, s, k->to, expression, NULL);
		else
			rc = ZR_ENOMEM;
		free(expression);
	} else {
		rc = zr_import_put(im, s, k->to, text, NULL);
	}
	free(text);
	return rc;
}

static IMPORT_MAP(bf16)
{
	if (json_is_false(s->value) || json_is_null(s->value))
		return zr_import_no_effect(s, "off");
	return zr_import_put(im, s, k->to, "bf16", NULL);
}

/* Whether Axolotl has something to evaluate on. */
static int is_held_out(struct zr_import *im)
{
	const struct zr_setting *share = zr_import_find(im, &zr_axolotl, "val_set_size");
	return zr_import_number(share, 0) > 0 ||
	       zr_import_find(im, &zr_axolotl, "test_datasets[0].path");
}

/* So often in an epoch. Axolotl makes a share of all steps of it, unless that is 1 or more: then
 * its strategy counts, as if it had not been given. */
static IMPORT_MAP(per_epoch)
{
	const double epochs = zr_import_number(zr_import_find(im, &zr_axolotl, "num_epochs"), 1);
	const double times = zr_import_number(s, 0);
	const int evaluates = !strcmp(k->to, "train.eval_every");

	if (!(times > 0))
		return zr_import_no_effect(s, "off");
	if (evaluates && !is_held_out(im))
		return zr_import_no_effect(s, "nothing is held out");

	const double share = 1.0 / (times * epochs);
	if (share < 1)
		return hf_put_share(im, s, k->to, share, NULL);
	return zr_import_fate(s, ZR_FATE_NONE, "%s",
			      evaluates ? "Axolotl does not evaluate where that is once in a run" :
					  "Axolotl saves at the end of each epoch then");
}

/* Axolotl keeps 4 where it is not told how many. */
static IMPORT_MAP(kept)
{
	char text[32];
	const double n = zr_import_number(s, 0);
	snprintf(text, sizeof text, "%.0f", n > 0 ? n : 4);
	return zr_import_put(im, s, k->to, text, NULL);
}

/* Outputs of layers that go to host memory: the same bits. */
static IMPORT_MAP(offloading)
{
	const int recomputes = zr_import_is_on(im, &zr_axolotl, "gradient_checkpointing");

	if (!zr_import_is_on(im, &zr_axolotl, s->path))
		return zr_import_no_effect(s, "off");
	if (!strcmp(im->device, "cpu"))
		return zr_import_no_effect(
			s, "with [device] plugin = cpu nothing leaves for host memory");
	if (recomputes)
		return zr_import_put(im, s, "activation.outputs", "offload", NULL);
	return zr_import_put(im, s, k->to, "offload", NULL);
}

/* Axolotl divides it by micro_batch_size where gradient_accumulation_steps is missing. */
static IMPORT_MAP(batch)
{
	const struct zr_setting *micro = zr_import_find(im, &zr_axolotl, "micro_batch_size");
	const long long n = (long long)zr_import_number(micro, 1);
	char text[32];

	if (zr_import_find(im, &zr_axolotl, "gradient_accumulation_steps"))
		return zr_import_no_effect(s, "gradient_accumulation_steps says it");

	snprintf(text, sizeof text, "%lld", (long long)zr_import_number(s, 0) / (n > 0 ? n : 1));
	return zr_import_put(im, s, k->to, text, NULL);
}

/* Beside lora_target_linear the names say no more, but for those that are no linear maps. */
static IMPORT_MAP(targets)
{
	static const char *const others[] = { "lm_head", "embed", "wte", "wpe", "router", "gate" };
	size_t i;
	json_t *name;
	const char *text;

	if (!zr_import_is_on(im, &zr_axolotl, "lora_target_linear"))
		return names(im, s, k);

	json_array_foreach(s->value, i, name)
	{
		text = json_is_string(name) ? json_string_value(name) : "";
		if (!strcmp(text, "gate_proj") || !strcmp(text, "gate_up_proj"))
			continue;

		for (size_t o = 0; o < sizeof others / sizeof *others; o++)
			if (strstr(text, others[o]))
				return zr_import_fate(s, ZR_FATE_REFUSED,
						      "%s beside lora_target_linear: all-linear "
						      "has neither heads, nor embeddings, nor "
						      "routers",
						      text);
	}

	if (!json_is_array(s->value))
		return zr_import_impossible(s, "an expression beside "
					       "lora_target_linear: give one of them");
	return zr_import_fate(s, ZR_FATE_MAPPED, "lora_target_linear has them all");
}

/* Plugins of Axolotl that change no value, but how it is computed or shown. */
static IMPORT_MAP(plugins)
{
	static const char *const known[] = { "liger.",   "cut_cross_entropy.", "kernels.",
					     "swanlab.", "expert_parallel.",   "lm_eval." };
	size_t i;
	json_t *name;

	json_array_foreach(s->value, i, name)
	{
		const char *text = json_is_string(name) ? json_string_value(name) : "";
		size_t o = 0;
		while (o < sizeof known / sizeof *known && !strstr(text, known[o]))
			o++;
		if (o == sizeof known / sizeof *known)
			return zr_import_fate(s, ZR_FATE_REFUSED,
					      "%s: there is no such plugin here", text);
	}

	return zr_import_no_effect(s, k->text);
}

/* Weights that a checkpoint keeps in few bits, and Axolotl takes as bf16. */
static IMPORT_MAP(stored)
{
	const struct zr_setting *whole =
		zr_import_find(im, &zr_axolotl, "model_quantization_config_kwargs.dequantize");

	if (whole && json_is_true(whole->value))
		return zr_import_no_effect(
			s, "a checkpoint whose weights cannot be read is refused by "
			   "name");
	return zr_import_impossible(s, "weights do not stay in the few bits of a "
				       "checkpoint: [model] store has int8 and nf4");
}

/* The older name of context_parallel_size. */
static IMPORT_MAP(degree)
{
	if (zr_import_is_on(im, &zr_axolotl, "context_parallel_size"))
		return zr_import_no_effect(s, "context_parallel_size counts");
	return zr_import_sequence_ranks(im, s, k);
}

/* Ranks that share layers: here each has whole ones, and micro-batches of its own. */
static IMPORT_MAP(ranks)
{
	const double n = zr_import_number(s, 1);

	if (n <= 1)
		return zr_import_no_effect(s, "off");
	return zr_import_fate(s, ZR_FATE_PARTLY,
			      "each rank has micro-batches of its own: start a %.0fth of the ranks "
			      "for the same batch",
			      n);
}

/* The routers' loss, whose weight the model's configuration has. */
static IMPORT_MAP(routers)
{
	char path[4096], text[64];
	json_t *config = NULL, *weight = NULL;

	if (!zr_import_is_on(im, &zr_axolotl, s->path))
		return zr_import_put(im, s, k->to, "0", NULL);

	snprintf(path, sizeof path, "%s/config.json", im->model ? im->model : "");
	if (im->model)
		config = json_load_file(path, 0, NULL);
	weight = json_object_get(config, "router_aux_loss_coef");
	snprintf(text, sizeof text, "%.17g", json_number_value(weight));
	const int known = json_is_number(weight);
	json_decref(config);
	if (known)
		return zr_import_put(im, s, k->to, text, NULL);
	return zr_import_impossible(
		s, "import with --model DIR: its config.json has the weight of that "
		   "loss, router_aux_loss_coef");
}

/* Experts are linear maps here, which [model] store takes. */
static IMPORT_MAP(experts)
{
	const int on = zr_import_is_on(im, &zr_axolotl, s->path);
	const int stored = zr_import_is_on(im, &zr_axolotl, "load_in_4bit") ||
			   zr_import_is_on(im, &zr_axolotl, "load_in_8bit");

	if (on && stored)
		return zr_import_fate(s, ZR_FATE_MAPPED, "with [model] store");
	return zr_import_fate(s, ZR_FATE_NONE, on ? "nothing asks for quantized weights" : "off");
}

#define KERNELS  "all kernels are fused"
#define MEDIA    "images and sounds are not read"
#define COUNT    "`zeroth train -n N` says how many ranks share the model"
#define GPTQ     "of gptq, which is refused"
#define UNREAD   "Axolotl does not read it"
#define THOUGHTS "a message with thoughts is named when it is read"
#define STREAMS                                                                                    \
	"texts that stream are not read: make a file of tokens of them by `zeroth tokenize`, and " \
	"import the rest with --data"
#define TOKENIZER "the tokenizer's files say it"
#define LOADER    "there is no loader of batches: sequences are read where they lie"
#define MONITOR   "a run writes metrics.jsonl; `wandb sync` reads what [monitor] tensorboard writes"
#define HUB       "nothing is uploaded"
#define RANKS     "[comm] and [boot] say how ranks meet"
#define MODEL     "config.json says it"
#define TUNED     "only the likelihood of targets is trained: no preferences, rewards or features"
#define OF_RL     "of rl, which is refused"
#define LOFTQ     "adapters begin at 0: not by what quantization lost (LoftQ)"
#define STEPS     "metrics.jsonl has every step"

#define TOKENS                                                                                     \
	"Axolotl adds them as tokens that are not special, which its texts keep; [model] "         \
	"add_tokens adds special ones, with the same ids and rows: take it out and give that"

static const struct zr_import_key keys[] = {
	/* model and adapters */
	MADE("base_model", "model.path", hf_model),
	NONE(MODEL, "base_model_config", "model_type", "type_of_model", "cls_model_config",
	     "is_llama_derived_model", "is_mistral_derived_model", "is_falcon_derived_model",
	     "is_qwen_derived_model", "lora_fan_in_fan_out"),
	NONE("no code of a model is run", "trust_remote_code"),
	NONE(TOKENIZER, "tokenizer_type", "tokenizer_config", "tokenizer_use_fast",
	     "tokenizer_legacy", "special_tokens.unk_token", "special_tokens"),
	MADE("special_tokens.bos_token", "data.bos", ax_special),
	MADE("special_tokens.eos_token", "data.eos", ax_special),
	NONE("what a sequence has left is no target", "special_tokens.pad_token"),
	STOP("", "tokens are not added", "special_tokens.*", "added_tokens_overrides.*"),
	STOP("", TOKENS, "tokens", "tokens.*"),
	NONE("[model] vocabulary pads the embedding", "resize_token_embeddings_to_32x"),
	MADE("adapter", "adapter.plugin", adapter),
	WITH("load_in_4bit", "model.store", hf_yes, "nf4"),
	WITH("load_in_8bit", "model.store", hf_yes, "int8"),
	COPY("lora_r", "adapter.r"),
	COPY("lora_alpha", "adapter.alpha"),
	COPY("lora_dropout", "adapter.dropout"),
	WITH("lora_target_modules", "adapter.targets", targets, "re:"),
	WITH("lora_target_linear", "adapter.targets", hf_yes, "all-linear"),
	MADE("lora_modules_to_save", "adapter.modules_to_save", names),
	COPY("lora_model_dir", "adapter.path"),
	COPY("peft_use_rslora", "adapter.rslora"),
	COPY("peft_ensure_weight_tying", "adapter.ensure_weight_tying"),
	MADE("peft_layers_to_transform", "adapter.layers_to_transform", names),
	MADE("peft_layers_pattern", "adapter.layers_pattern", names),
	STOP("no", "use LoRA", "peft_use_dora"),
	NONE(KERNELS, "lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel",
	     "lora_embedding_kernel"),
	NONE("[offload.param] says it", "lora_on_cpu"),
	STOP("", "give [adapter] rank_pattern", "lora_rank_pattern.*"),
	STOP("", "give [adapter] alpha_pattern", "lora_alpha_pattern.*"),
	MADE("unfrozen_parameters", "train.freeze", ax_unfrozen),

	/* data */
	MADE("datasets[].path", "data.path", ax_path),
	MADE("datasets[].type", "data.plugin", ax_type),
	MADE("datasets[].split", NULL, ax_part),
	MADE("datasets[].name", NULL, ax_part),
	MADE("datasets[].data_files", NULL, ax_part),
	MADE("datasets[].ds_type", NULL, ax_part),
	MADE("datasets[].revision", NULL, ax_part),
	MADE("datasets[].shards", NULL, ax_part),
	MADE("datasets[].shards_idx", NULL, ax_part),
	NONE(LOADER, "datasets[].preprocess_shards", "dataset_processes", "dataset_num_proc",
	     "dataset_keep_in_memory", "dataloader_pin_memory", "dataloader_num_workers",
	     "dataloader_prefetch_factor", "dataloader_drop_last", "remove_unused_columns",
	     "accelerator_config.*"),
	NONE("no code of a data set is run", "datasets[].trust_remote_code"),
	MADE("datasets[].chat_template", "data.template", ax_template),
	MADE("datasets[].field", NULL, ax_field),
	MADE("datasets[].field_messages", NULL, ax_field),
	MADE("datasets[].field_system", NULL, ax_field),
	MADE("datasets[].message_field_role", NULL, ax_field),
	MADE("datasets[].message_field_content", NULL, ax_field),
	MADE("datasets[].message_property_mappings.role", NULL, ax_field),
	MADE("datasets[].message_property_mappings.content", NULL, ax_field),
	STOP(NULL, "of a message, role and content are read",
	     "datasets[].message_property_mappings.*"),
	MADE("datasets[].roles.*", NULL, ax_role),
	MADE("datasets[].roles_to_train", NULL, ax_roles_to_train),
	MADE("datasets[].train_on_eos", NULL, ax_train_on_end),
	MADE("datasets[].train_on_eot", NULL, ax_train_on_end),
	STOP("", "a message that is not learned has weight = 0 here",
	     "datasets[].message_field_training"),
	STOP("", "a message is learned as a whole, or not at all",
	     "datasets[].message_field_training_detail"),
	NONE(THOUGHTS, "datasets[].field_thinking", "datasets[].template_thinking_key"),
	STOP("no", "thoughts are a part of what is said", "datasets[].split_thinking"),
	STOP("", "tools are no part of a conversation here", "datasets[].field_tools"),
	STOP("no", "system messages are kept", "datasets[].drop_system_message"),
	STOP(NULL, "a form of one's own is [data] user_form, system_form and assistant_form",
	     "datasets[].type.*"),
	STOP(NULL, "no data set has it here", "datasets[].*"),
	STOP("", "expected a list, of path and type", "datasets", "test_datasets"),
	MADE("test_datasets[].path", "data.val_path", ax_validation),
	MADE("test_datasets[].*", NULL, ax_same),
	STOP(NULL, STREAMS, "pretraining_dataset.*"),
	STOP("", STREAMS, "pretraining_dataset"),
	MADE("val_set_size", "data.split", ax_held_out),
	MADE("train_on_inputs", "data.train_on", ax_inputs),
	MADE("sample_packing", "data.packing", ax_packing),
	COPY("sequence_len", "train.sequence_length"),
	NONE("evaluation has the sequences of training", "eval_sequence_len",
	     "eval_sample_packing"),
	NONE("what a sequence has left is no target", "pad_to_sequence_len"),
	NONE("[data] packing says it", "multipack_real_batches", "sample_packing_group_size",
	     "sample_packing_bin_size", "sample_packing_sequentially"),
	NONE("[data] packing puts documents together by length", "group_by_length"),
	MADE("chat_template", "data.template", ax_template),
	MADE("default_system_message", NULL, ax_system),
	MADE("eot_tokens", NULL, ax_eot_tokens),
	NONE("[data] cache keeps the tokens", "dataset_prepared_path", "skip_prepare_dataset"),
	NONE("[data] order says it", "shuffle_merged_datasets", "shuffle_before_merging_datasets"),
	NONE(HUB, "push_dataset_to_hub", "hf_use_auth_token"),
	STOP("0", "no conversation is left out for being short", "min_sample_len"),
	MADE("excess_length_strategy", NULL, ax_excess),

	/* length, optimizer, schedule */
	COPY("micro_batch_size", "train.micro_batch_size"),
	COPY("gradient_accumulation_steps", "train.gradient_accumulation_steps"),
	MADE("batch_size", "train.gradient_accumulation_steps", batch),
	NONE("evaluation has the micro-batches of training", "eval_batch_size"),
	NONE("what does not fit is refused before it starts", "auto_find_batch_size"),
	MADE("num_epochs", "train.epochs", hf_epochs),
	MADE("max_steps", "train.steps", hf_max_steps),
	COPY("seed", "train.seed"),
	MADE("optimizer", "optimizer.plugin", hf_optimizer),
	STOP("", "give the optimizer's options in [optimizer]", "optim_args", "optim_args.*"),
	STOP("", "give groups as [optimizer.NAME] match", "optim_target_modules"),
	MADE("learning_rate", "optimizer.lr", hf_learning_rate),
	STOP("", "give [optimizer.NAME] match and lr", "embedding_lr", "embedding_lr_scale",
	     "lr_groups"),
	STOP("", "give [optimizer.NAME] match = *lora_B* and lr", "loraplus_lr_ratio"),
	NONE("of loraplus_lr_ratio", "loraplus_lr_embedding"),
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
	STOP("0", "embeddings get no noise", "neftune_noise_alpha"),

	/* precision, activations, ranks */
	MADE("bf16", "precision.plugin", bf16),
	MADE("bfloat16", "precision.plugin", bf16),
	WITH("fp16", "precision.plugin", hf_precision, "fp16"),
	WITH("float16", "precision.plugin", hf_precision, "fp16"),
	NONE("[precision] plugin = fp32 is the default", "float32"),
	STOP("no", "set [precision] plugin = bf16 with products = fp8: its scales are others",
	     "fp8"),
	MADE("tf32", "device.tf32", hf_tf32),
	MADE("gradient_checkpointing", "activation.plugin", hf_recompute),
	NONE("recomputing gives the same bits", "gradient_checkpointing_kwargs.*"),
	MADE("activation_offloading", "activation.plugin", offloading),
	NONE("empty", "deepspeed"),
	MADE("fsdp", "zero.plugin", hf_fsdp),
	NONE("the stage says how parameters are gathered", "fsdp_config.*", "fsdp_config",
	     "fsdp_version"),
	NONE("a checkpoint is whole", "fsdp_final_state_dict_type"),
	MADE("tensor_parallel_size", NULL, ranks),
	MADE("context_parallel_size", "train.sequence_ranks", zr_import_sequence_ranks),
	MADE("sequence_parallel_degree", "train.sequence_ranks", degree),
	NONE(RANKS, "local_rank", "world_size", "ddp", "ddp_timeout"),
	NONE("[zero] reduce_bucket_size, in elements", "ddp_bucket_cap_mb"),
	NONE("models have no buffers", "ddp_broadcast_buffers"),
	NONE("each layer says which parameters it uses", "ddp_find_unused_parameters"),
	NONE("[device] plugin says it", "device", "device_map"),
	NONE("[device] memory says it", "max_memory", "gpu_memory_limit"),
	NONE("every rank reads only what it holds", "low_cpu_mem_usage"),
	NONE(KERNELS, "flash_attention", "flash_attn_cross_entropy", "flash_attn_rms_norm",
	     "flash_attn_fuse_mlp", "flash_attn_fuse_qkv", "xformers_attention", "sdp_attention",
	     "flex_attention", "sage_attention", "eager_attention", "attn_implementation",
	     "torch_compile", "torch_compile_backend", "torch_compile_mode", "liger_rope",
	     "liger_rms_norm_gated", "use_scattermoe", "use_sonicmoe", "use_dsv4_kernels",
	     "use_glm_dsa_kernels", "dsv4_fp4_grouped_mode", "liger_rms_norm",
	     "liger_glu_activation", "liger_swiglu", "liger_layer_norm", "liger_cross_entropy",
	     "liger_fused_linear_cross_entropy", "cut_cross_entropy", "chunked_cross_entropy",
	     "tiled_mlp"),
	WITH("plugins", NULL, plugins, KERNELS),
	STOP("no", "all targets have one weight", "liger_use_token_scaling"),
	STOP("no", "sequences have their whole attention", "s2_attention"),
	NONE("nothing is allocated after the first step", "gc_steps", "torch_empty_cache_steps"),

	/* output, evaluation, checkpoints, monitors */
	COPY("output_dir", "run.dir"),
	MADE("logging_steps", "run.log_every", hf_count),
	MADE("eval_steps", "train.eval_every", hf_eval_steps),
	MADE("eval_strategy", "train.eval_every", hf_eval_strategy),
	MADE("evaluation_strategy", "train.eval_every", hf_eval_strategy),
	MADE("evals_per_epoch", "train.eval_every", per_epoch),
	MADE("save_steps", "checkpoint.every", hf_save_steps),
	MADE("save_strategy", "checkpoint.every", hf_save_strategy),
	MADE("saves_per_epoch", "checkpoint.every", per_epoch),
	MADE("save_total_limit", "checkpoint.keep", kept),
	NONE("`zeroth checkpoint export` writes safetensors", "save_safetensors"),
	NONE("a checkpoint has all; `zeroth checkpoint export` takes the model", "save_only_model"),
	NONE("`zeroth plan` says before the first step whether a checkpoint fits",
	     "save_first_step"),
	COPY("early_stopping_patience", "train.patience"),
	WITH("load_best_model_at_end", "checkpoint.keep_best", hf_yes, "yes"),
	NONE("[train] best_by: it is a loss", "metric_for_best_model", "greater_is_better"),
	NONE("`zeroth train --resume auto` goes on", "resume_from_checkpoint",
	     "auto_resume_from_checkpoints"),
	NONE(STEPS, "eval_table_size", "include_tokens_per_second", "include_tkps",
	     "profiler_steps"),
	NONE("`zeroth sample` writes text", "eval_max_new_tokens"),
	NONE("loss and perplexity are measured on what [data] holds out", "eval_causal_lm_metrics",
	     "do_causal_lm_eval", "do_bench_eval"),
	NONE("it ends a run whose loss stays high: watch it", "loss_watchdog_threshold",
	     "loss_watchdog_patience"),
	NONE("[log] level says it", "debug"),
	NONE("every unknown key is an error", "strict"),
	NONE("monitors write to the run's directory", "logging_dir"),
	WITH("use_tensorboard", "monitor.tensorboard.plugin", hf_yes, "tensorboard"),
	NONE(MONITOR, "use_wandb", "wandb_mode", "wandb_project", "wandb_entity", "wandb_watch",
	     "wandb_name", "wandb_run_id", "wandb_log_model", "use_swanlab", "swanlab_project",
	     "swanlab_experiment_name", "swanlab_description", "swanlab_mode", "swanlab_workspace",
	     "swanlab_log_model", "swanlab_log_completions", "swanlab_completion_log_interval",
	     "swanlab_completion_max_buffer", "use_mlflow", "mlflow_tracking_uri",
	     "mlflow_experiment_name", "mlflow_run_name", "hf_mlflow_log_artifacts", "use_comet",
	     "comet_project_name"),
	NONE(HUB, "hub_model_id", "hub_strategy", "hub_revision"),

	/* other ways to train */
	STOP("", TUNED, "rl"),
	STOP("no", TUNED, "reward_model", "process_reward_model", "kd_trainer"),
	STOP(NULL, TUNED, "trl.*", "rl_beta", "dpo_beta", "diffusion.*"),
	STOP("no", "adapters are not merged while a run goes on (ReLoRA)", "relora"),
	STOP("", "adapters are not merged while a run goes on (ReLoRA)", "relora_steps"),
	STOP("", "the layers that learn do not change (LISA)", "lisa_n_layers"),
	STOP("", LOFTQ, "loftq_bits"),
	STOP("no", "weights of GPTQ are not read", "gptq"),
	NONE(GPTQ, "gptq_groupsize", "gptq_model_v1", "gptq_disable_exllama"),
	NONE(UNREAD, "eta_min", "full_finetune", "base_model_ignore_patterns",
	     "sample_packing_seq_len_multiplier"),
	NONE(UNREAD ": adam_epsilon is", "adam_eps"),
	NONE("[precision] plugin says it", "torch_dtype"),
	STOP(NULL, "weights are not rounded to few bits in training (QAT)", "qat.*"),
	STOP(NULL, "weights are not rounded to few bits after training", "quantization.*"),
	STOP("no", "positions are not skipped (PoSE)", "use_pose"),
	STOP("no", STREAMS, "streaming"),
	STOP(NULL, "weights are not pruned", "llmcompressor.*"),
	STOP("no", "weights are not rounded to few bits in training (QAT)", "nvfp4_merge_aware"),
	MADE("overrides_of_model_config.output_router_logits", "model.router_aux_loss_coef",
	     routers),
	MADE("model_config.output_router_logits", "model.router_aux_loss_coef", routers),
	STOP(NULL, "config.json says what the model is; change it there",
	     "overrides_of_model_config.*", "model_config.*"),
	STOP(NULL, "give [model] rope_scaling and rope_factor", "rope_scaling.*"),

	/* the rest of the schema */
	NONE("of an optimizer or schedule that is not here", "adam_beta3", "adam_epsilon2",
	     "dion_lr", "dion_momentum", "dion_rank_fraction", "dion_rank_multiple_of",
	     "jagged_restart_anneal_steps", "jagged_restart_warmup_steps", "lr_div_factor",
	     "qgalore_cos_threshold", "qgalore_gamma_proj", "qgalore_proj_bits",
	     "qgalore_proj_group_size", "qgalore_proj_quant", "qgalore_proj_type",
	     "qgalore_queue_size", "qgalore_rank", "qgalore_scale", "qgalore_update_proj_gap",
	     "torchdistx_path"),
	NONE("nothing of a run here depends on it", "axolotl_config_path", "bnb_config_kwargs.*",
	     "capabilities.*", "dynamic_checkpoint.*", "embeddings_skip_upcast",
	     "env_capabilities.*", "experimental_skip_move_to_device", "fp32_norm_classes",
	     "fp32_norms", "gc_collect_steps", "mean_resizing_embeddings",
	     "peft_autocast_adapter_dtype", "qlora_sharded_model_loading"),
	NONE(KERNELS, "batch_flattening", "deepcompile", "experts_implementation",
	     "flash_attn_d512", "flash_optimum", "flex_attn_compile_kwargs.*", "fused_attn_kernel",
	     "gemma4_hybrid_attn_impl", "heads_k_stride", "large_head_attention",
	     "llama4_linearized_experts", "ring_attn_func", "sdpa_varlen",
	     "torch_compile_options.*", "use_kernels"),
	NONE("of what is not asked for, or refused by its own key", "bench_dataset", "bench_split",
	     "chunked_cross_entropy_num_chunks", "eaft_alpha", "eaft_k", "fp8_config.*",
	     "fp8_enable_fsdp_float8_all_gather", "lisa_layers_attribute", "lisa_step_interval",
	     "merge_method", "pose_max_context_len", "pose_num_chunks", "pose_split_on_token_ids",
	     "pretrain_multipack_attn", "pretrain_multipack_buffer_size",
	     "pretraining_sample_concatenation", "profiler_steps_start", "relora_cpu_offload",
	     "relora_prune_method", "relora_prune_ratio", "scaling_softmax_bias",
	     "scaling_softmax_factor", "streaming_multipack_buffer_size", "tiled_mlp_num_shards",
	     "tiled_mlp_use_original_mlp"),
	NONE(OF_RL, "center_rewards_coefficient", "cpo_alpha", "dpo_generate_during_eval",
	     "dpo_label_smoothing", "dpo_loss_type", "dpo_loss_weights", "dpo_norm_loss",
	     "dpo_padding_free", "dpo_use_liger_kernel", "dpo_use_logits_to_keep",
	     "dpo_use_weighting", "kto_desirable_weight", "kto_undesirable_weight",
	     "max_prompt_len", "num_labels", "orpo_alpha", "precompute_ref_log_probs", "rpo_alpha",
	     "simpo_gamma"),
	MADE("chat_template_jinja", "data.template", zr_import_jinja),
	STOP(NULL, "[data] template_kwargs has all of them, as a JSON object: give it there",
	     "chat_template_kwargs.*"),
	NONE(MONITOR, "comet_api_key", "comet_experiment_config.*", "comet_experiment_key",
	     "comet_mode", "comet_online", "comet_workspace", "otel_metrics_host",
	     "otel_metrics_port", "trackio_project_name", "trackio_run_name", "trackio_space_id",
	     "use_otel_metrics", "use_trackio"),
	STOP("no", "[data] order = sequential, without packing, is near it", "curriculum_sampling"),
	STOP("no", "rows that are there twice are learned twice", "dataset_exact_deduplication"),
	STOP("", "save the part of the data set as a file of its own", "dataset_shard_idx",
	     "dataset_shard_num"),
	NONE(COUNT, "dp_replicate_size", "dp_shard_size"),
	MADE("expert_parallel_size", "zero.expert_ranks", zr_import_expert_ranks),
	NONE("memory for all tokens that can come is planned", "expert_parallel_num_nvl_bytes"),
	STOP(NULL, "an expert gets all its tokens", "expert_parallel_token_capacity"),
	STOP("no 0", TUNED, "ebft.*", "vllm.*"),
	STOP("no", "embeddings of untrained tokens stay as they are", "fix_untrained_tokens"),
	STOP("no", MEDIA, "freeze_mm_modules"),
	NONE("`zeroth sample` writes text", "generate_samples", "generation_do_sample",
	     "generation_max_new_tokens", "generation_prompt_ratio", "generation_temperature",
	     "generation_top_k", "generation_top_p", "gradio_max_new_tokens", "gradio_server_name",
	     "gradio_server_port", "gradio_share", "gradio_temperature", "gradio_title",
	     "num_generation_samples"),
	NONE("[data] says it", "is_preprocess", "max_packed_sequence_len",
	     "num_dataset_shards_to_save", "pad_to_multiple_of", "preprocess_iterable",
	     "sample_packing_eff_est", "sample_packing_mp_start_method", "total_num_tokens",
	     "total_supervised_tokens"),
	STOP("0", "no schedule here restarts by steps", "jagged_restart_steps"),
	STOP("no 0", "[offload.param] takes parameters to memory or disk", "layer_offloading",
	     "ple_cpu_offload"),
	STOP("no 0", "experts that are one tensor of three dimensions get no adapters",
	     "lora_target_parameters"),
	STOP("no 0", "`zeroth checkpoint export --merge` does", "merge_lora"),
	MADE("model_quantization_config", NULL, stored),
	MADE("model_quantization_config_kwargs.*", NULL, stored),
	STOP("no 0", "embeddings get no noise", "noisy_embedding_alpha"),
	STOP("no 0", "there is no Python class to give them to", "overrides_of_model_kwargs.*"),
	STOP("no 0", LOFTQ, "peft.*"),
	STOP("no 0", "adapters begin at 0", "peft_init_lora_weights"),
	STOP("no 0", "layers are not repeated", "peft_layer_replication"),
	STOP("no 0", "embeddings learn whole, or not at all", "peft_trainable_token_indices"),
	STOP(NULL, MEDIA, "processor_kwargs.*"),
	STOP("", MEDIA, "processor_type"),
	MADE("quantize_moe_experts", NULL, experts),
	NONE(RANKS, "ray_num_workers", "ray_run_name", "resources_per_worker.*", "use_ray"),
	STOP("no 0", "pretrained weights are not drawn anew", "reinit_weights"),
	NONE("[model] path is a directory: nothing is downloaded", "revision_of_model"),
	STOP("no 0", "scores are not scaled by the length", "scaling_softmax"),
	STOP("no 0", "[activation] plugin = recompute takes whole layers",
	     "selective_checkpointing"),
	STOP("no", "an embedding is not made smaller", "shrink_embeddings"),
	NONE(TOKENIZER, "tokenizer_save_jinja_files", "tokenizer_use_mistral_common"),
	STOP("", "there is no Python", "trainer_cls"),
	STOP("no 0", "targets are not weighted by entropy (EAFT)", "use_eaft"),
	STOP("no 0", "there are no linear maps of ternary weights", "use_onebitllms"),
	{ 0 },
};

static const char *const defaults[][2] = {
	{ "train.micro_batch_size", "1" }, { "train.seed", "42" }, { "train.eval_every", "0" },
	{ "checkpoint.keep", "4" },        { NULL, NULL },
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
			rc = zr_import_no_effect(s, "of lr_scheduler: cosine alone");
		else if (!on[i])
			rc = zr_import_no_effect(s, "off");
		else if (i > 0 && on[0])
			rc = zr_import_no_effect(s, "lr_quadratic_warmup comes before it");
		else if (i == 0)
			rc = put_schedule(im, s, "cosine", "scheduler.quadratic_warmup");
		else if (i == 1)
			rc = put_schedule(im, s, "cosine_with_min_lr", "scheduler.min_lr_rate");
		else if (!on[1])
			rc = zr_import_no_effect(s, "Axolotl reads it beside "
						    "cosine_min_lr_ratio only");
		else
			rc = put_schedule(im, s, "cosine_with_min_lr",
					  "scheduler.constant_lr_ratio");
	}

	return rc;
}

/* Where no step is named Axolotl saves at the end of each epoch. */
static int finish_saves(struct zr_import *im, const char *note)
{
	const struct zr_setting *when = zr_import_find(im, &zr_axolotl, "save_strategy");

	if (zr_import_given(im, "checkpoint.every") ||
	    zr_import_given(im, "checkpoint.every_ratio"))
		return 0;
	if (when && zr_import_is(when->value, "steps"))
		return zr_import_put(im, NULL, "checkpoint.every", "500", note);
	if (when)
		return 0;
	return hf_put_each_epoch(im, NULL, "checkpoint.every", note);
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
	if (!rc)
		rc = ax_finish_data(im);
	if (!rc)
		rc = finish_saves(im, names.note);
	if (!rc)
		rc = hf_finish(im, &names);
	if (!rc && !zr_import_given(im, "train.steps") && !zr_import_given(im, "train.epochs"))
		rc = zr_import_put(im, NULL, "train.epochs", "1", names.note);
	return rc;
}

const struct zr_import_kind zr_axolotl = { .name = "Axolotl",
					   .keys = keys,
					   .finish = finish,
					   .epochs = "num_epochs",
					   .epochs_default = 1,
					   .steps_evaluate = 1 };
