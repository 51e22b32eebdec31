/* SPDX-License-Identifier: Apache-2.0
 *
 * axolotl.c - the keys of Axolotl's YAML and what they are here. Source: the schemas of Axolotl
 * 0.19.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/import/axolotl.h"
#include "cmd/import/hf.h"
#include "cmd/import/rows.h"
#include "core/base/text.h"

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
	if (rc || zr_import_is(s->value, "lora"))
		return rc;
	return zr_import_put(im, s, "model.store", "nf4", NULL);
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

AX_MAP(bf16)
{
	if (json_is_false(s->value) || json_is_null(s->value))
		return zr_import_fate(s, ZR_FATE_NONE, "off");
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
AX_MAP(per_epoch)
{
	const double epochs = zr_import_number(zr_import_find(im, &zr_axolotl, "num_epochs"), 1);
	const double times = zr_import_number(s, 0);
	const int evaluates = !strcmp(k->to, "train.eval_every");

	if (!(times > 0))
		return zr_import_fate(s, ZR_FATE_NONE, "off");
	if (evaluates && !is_held_out(im))
		return zr_import_fate(s, ZR_FATE_NONE, "nothing is held out");

	const double share = 1.0 / (times * epochs);
	if (share < 1)
		return hf_put_share(im, s, k->to, share, NULL);
	return zr_import_fate(s, ZR_FATE_NONE, "%s",
			      evaluates ? "Axolotl does not evaluate where that is once in a run" :
					  "Axolotl saves at the end of each epoch then");
}

/* Axolotl keeps 4 where it is not told how many. */
AX_MAP(kept)
{
	char text[32];
	const double n = zr_import_number(s, 0);
	snprintf(text, sizeof text, "%.0f", n > 0 ? n : 4);
	return zr_import_put(im, s, k->to, text, NULL);
}

/* Outputs of layers that go to host memory: the same bits. */
AX_MAP(offloading)
{
	const int recomputes = zr_import_is_on(im, &zr_axolotl, "gradient_checkpointing");

	if (!zr_import_is_on(im, &zr_axolotl, s->path))
		return zr_import_fate(s, ZR_FATE_NONE, "off");
	if (!strcmp(im->device, "cpu"))
		return zr_import_fate(s, ZR_FATE_NONE,
				      "with [device] plugin = cpu nothing leaves for host memory");
	if (recomputes)
		return zr_import_put(im, s, "activation.outputs", "offload", NULL);
	return zr_import_put(im, s, k->to, "offload", NULL);
}

/* Axolotl divides it by micro_batch_size where gradient_accumulation_steps is missing. */
AX_MAP(batch)
{
	const struct zr_setting *micro = zr_import_find(im, &zr_axolotl, "micro_batch_size");
	const long long n = (long long)zr_import_number(micro, 1);
	char text[32];

	if (zr_import_find(im, &zr_axolotl, "gradient_accumulation_steps"))
		return zr_import_fate(s, ZR_FATE_NONE, "gradient_accumulation_steps says it");

	snprintf(text, sizeof text, "%lld", (long long)zr_import_number(s, 0) / (n > 0 ? n : 1));
	return zr_import_put(im, s, k->to, text, NULL);
}

/* Beside lora_target_linear the names say no more, but for those that are no linear maps. */
AX_MAP(targets)
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
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "an expression beside "
				      "lora_target_linear: give one of them");
	return zr_import_fate(s, ZR_FATE_MAPPED, "lora_target_linear has them all");
}

/* Plugins of Axolotl that change no value, but how it is computed or shown. */
AX_MAP(plugins)
{
	static const char *const known[] = { "liger.",   "cut_cross_entropy.", "kernels.",
					     "swanlab.", "expert_parallel.",   "lm_eval." };
	size_t i;
	json_t *name;

	(void)im;
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

	return zr_import_fate(s, ZR_FATE_NONE, "%s", k->text);
}

/* Weights that a checkpoint keeps in few bits, and Axolotl takes as bf16. */
AX_MAP(stored)
{
	const struct zr_setting *whole =
		zr_import_find(im, &zr_axolotl, "model_quantization_config_kwargs.dequantize");

	(void)k;
	if (whole && json_is_true(whole->value))
		return zr_import_fate(s, ZR_FATE_NONE,
				      "a checkpoint whose weights cannot be read is refused by "
				      "name");
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "weights do not stay in the few bits of a "
			      "checkpoint: [model] store has int8 and nf4");
}

/* Ranks that share a micro-batch: here each has its own. */
AX_MAP(ranks)
{
	const double n = zr_import_number(s, 1);

	(void)im, (void)k;
	if (n <= 1)
		return zr_import_fate(s, ZR_FATE_NONE, "off");
	return zr_import_fate(s, ZR_FATE_PARTLY,
			      "each rank has micro-batches of its own: start a %.0fth of the ranks "
			      "for the same batch",
			      n);
}

/* The routers' loss, whose weight the model's configuration has. */
AX_MAP(routers)
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
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "import with --model DIR: its config.json has the weight of that "
			      "loss, router_aux_loss_coef");
}

/* Experts are linear maps here, which [model] store takes. */
AX_MAP(experts)
{
	const int on = zr_import_is_on(im, &zr_axolotl, s->path);
	const int stored = zr_import_is_on(im, &zr_axolotl, "load_in_4bit") ||
			   zr_import_is_on(im, &zr_axolotl, "load_in_8bit");

	(void)k;
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
	MADE("special_tokens.bos_token", "data.bos", ax_special),
	MADE("special_tokens.eos_token", "data.eos", ax_special),
	NONE("special_tokens.pad_token", "what a sequence has left is no target"),
	NONE("special_tokens.unk_token", TOKENIZER),
	STOP("special_tokens.*", "", "tokens are not added"),
	NONE("special_tokens", TOKENIZER),
	STOP("tokens.*", "", "Axolotl takes a list of tokens to add there, and none are added"),
	STOP("tokens", "", "tokens are not added"),
	STOP("added_tokens_overrides.*", "", "tokens are not added"),
	NONE("resize_token_embeddings_to_32x", "[model] vocabulary pads the embedding"),
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
	STOP("peft_use_dora", "no", "use LoRA"),
	NONE("lora_fan_in_fan_out", MODEL),
	NONE("lora_mlp_kernel", KERNELS),
	NONE("lora_qkv_kernel", KERNELS),
	NONE("lora_o_kernel", KERNELS),
	NONE("lora_embedding_kernel", KERNELS),
	NONE("lora_on_cpu", "[offload.param] says it"),
	STOP("lora_rank_pattern.*", "", "give [adapter] rank_pattern"),
	STOP("lora_alpha_pattern.*", "", "give [adapter] alpha_pattern"),
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
	NONE("datasets[].preprocess_shards", LOADER),
	NONE("datasets[].trust_remote_code", "no code of a data set is run"),
	MADE("datasets[].chat_template", "data.template", ax_template),
	MADE("datasets[].field", NULL, ax_field),
	MADE("datasets[].field_messages", NULL, ax_field),
	MADE("datasets[].field_system", NULL, ax_field),
	MADE("datasets[].message_field_role", NULL, ax_field),
	MADE("datasets[].message_field_content", NULL, ax_field),
	MADE("datasets[].message_property_mappings.role", NULL, ax_field),
	MADE("datasets[].message_property_mappings.content", NULL, ax_field),
	STOP("datasets[].message_property_mappings.*", NULL,
	     "of a message, role and content are read"),
	MADE("datasets[].roles.*", NULL, ax_role),
	MADE("datasets[].roles_to_train", NULL, ax_roles_to_train),
	MADE("datasets[].train_on_eos", NULL, ax_train_on_end),
	MADE("datasets[].train_on_eot", NULL, ax_train_on_end),
	STOP("datasets[].message_field_training", "",
	     "a message that is not learned has weight = 0 here"),
	STOP("datasets[].message_field_training_detail", "",
	     "a message is learned as a whole, or not at all"),
	NONE("datasets[].field_thinking", THOUGHTS),
	NONE("datasets[].template_thinking_key", THOUGHTS),
	STOP("datasets[].split_thinking", "no", "thoughts are a part of what is said"),
	STOP("datasets[].field_tools", "", "tools are no part of a conversation here"),
	STOP("datasets[].drop_system_message", "no", "system messages are kept"),
	STOP("datasets[].type.*", NULL,
	     "a form of one's own is [data] user_form, system_form and "
	     "assistant_form"),
	STOP("datasets[].*", NULL, "no data set has it here"),
	STOP("datasets", "", "expected a list, of path and type"),
	STOP("test_datasets", "", "expected a list, of path and type"),
	MADE("test_datasets[].path", "data.val_path", ax_validation),
	MADE("test_datasets[].*", NULL, ax_same),
	STOP("pretraining_dataset.*", NULL, STREAMS),
	STOP("pretraining_dataset", "", STREAMS),
	MADE("val_set_size", "data.split", ax_held_out),
	MADE("train_on_inputs", "data.train_on", ax_inputs),
	MADE("sample_packing", "data.packing", ax_packing),
	COPY("sequence_len", "train.sequence_length"),
	NONE("eval_sequence_len", "evaluation has the sequences of training"),
	NONE("pad_to_sequence_len", "what a sequence has left is no target"),
	NONE("eval_sample_packing", "evaluation has the sequences of training"),
	NONE("multipack_real_batches", "[data] packing says it"),
	NONE("sample_packing_group_size", "[data] packing says it"),
	NONE("sample_packing_bin_size", "[data] packing says it"),
	NONE("sample_packing_sequentially", "[data] packing says it"),
	NONE("group_by_length", "[data] packing puts documents together by length"),
	MADE("chat_template", "data.template", ax_template),
	MADE("default_system_message", NULL, ax_system),
	MADE("eot_tokens", NULL, ax_eot_tokens),
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
	STOP("min_sample_len", "0", "no conversation is left out for being short"),
	MADE("excess_length_strategy", NULL, ax_excess),

	/* length, optimizer, schedule */
	COPY("micro_batch_size", "train.micro_batch_size"),
	COPY("gradient_accumulation_steps", "train.gradient_accumulation_steps"),
	MADE("batch_size", "train.gradient_accumulation_steps", batch),
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
	STOP("neftune_noise_alpha", "0", "embeddings get no noise"),

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
	MADE("activation_offloading", "activation.plugin", offloading),
	NONE("deepspeed", "empty"),
	MADE("fsdp", "zero.plugin", hf_fsdp),
	NONE("fsdp_config.*", "the stage says how parameters are gathered"),
	NONE("fsdp_config", "the stage says how parameters are gathered"),
	NONE("fsdp_version", "the stage says how parameters are gathered"),
	NONE("fsdp_final_state_dict_type", "a checkpoint is whole"),
	MADE("tensor_parallel_size", NULL, ranks),
	MADE("context_parallel_size", NULL, ranks),
	MADE("sequence_parallel_degree", NULL, ranks),
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
	WITH("plugins", NULL, plugins, KERNELS),
	NONE("liger_rope", KERNELS),
	NONE("liger_rms_norm_gated", KERNELS),
	STOP("liger_use_token_scaling", "no", "all targets have one weight"),
	NONE("use_scattermoe", KERNELS),
	NONE("use_sonicmoe", KERNELS),
	NONE("use_dsv4_kernels", KERNELS),
	NONE("use_glm_dsa_kernels", KERNELS),
	NONE("dsv4_fp4_grouped_mode", KERNELS),
	NONE("liger_rms_norm", KERNELS),
	NONE("liger_glu_activation", KERNELS),
	NONE("liger_swiglu", KERNELS),
	NONE("liger_layer_norm", KERNELS),
	NONE("liger_cross_entropy", KERNELS),
	NONE("liger_fused_linear_cross_entropy", KERNELS),
	NONE("cut_cross_entropy", KERNELS),
	NONE("chunked_cross_entropy", KERNELS),
	NONE("tiled_mlp", KERNELS),
	STOP("s2_attention", "no", "sequences have their whole attention"),
	NONE("gc_steps", "nothing is allocated after the first step"),
	NONE("torch_empty_cache_steps", "nothing is allocated after the first step"),

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
	NONE("loss_watchdog_threshold", "it ends a run whose loss stays high: watch it"),
	NONE("loss_watchdog_patience", "it ends a run whose loss stays high: watch it"),
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
	NONE("use_swanlab", MONITOR),
	NONE("swanlab_project", MONITOR),
	NONE("swanlab_experiment_name", MONITOR),
	NONE("swanlab_description", MONITOR),
	NONE("swanlab_mode", MONITOR),
	NONE("swanlab_workspace", MONITOR),
	NONE("swanlab_log_model", MONITOR),
	NONE("swanlab_log_completions", MONITOR),
	NONE("swanlab_completion_log_interval", MONITOR),
	NONE("swanlab_completion_max_buffer", MONITOR),
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
	STOP("relora", "no", "adapters are not merged while a run goes on (ReLoRA)"),
	STOP("relora_steps", "", "adapters are not merged while a run goes on (ReLoRA)"),
	STOP("lisa_n_layers", "", "the layers that learn do not change (LISA)"),
	STOP("loftq_bits", "", LOFTQ),
	STOP("gptq", "no", "weights of GPTQ are not read"),
	NONE("gptq_groupsize", GPTQ),
	NONE("gptq_model_v1", GPTQ),
	NONE("gptq_disable_exllama", GPTQ),
	NONE("eta_min", UNREAD),
	NONE("adam_eps", UNREAD ": adam_epsilon is"),
	NONE("full_finetune", UNREAD),
	NONE("base_model_ignore_patterns", UNREAD),
	NONE("sample_packing_seq_len_multiplier", UNREAD),
	NONE("torch_dtype", "[precision] plugin says it"),
	STOP("qat.*", NULL, "weights are not rounded to few bits in training (QAT)"),
	STOP("quantization.*", NULL, "weights are not rounded to few bits after training"),
	STOP("use_pose", "no", "positions are not skipped (PoSE)"),
	STOP("streaming", "no", STREAMS),
	STOP("diffusion.*", NULL, TUNED),
	STOP("llmcompressor.*", NULL, "weights are not pruned"),
	STOP("nvfp4_merge_aware", "no", "weights are not rounded to few bits in training (QAT)"),
	MADE("overrides_of_model_config.output_router_logits", "model.router_aux_loss_coef",
	     routers),
	MADE("model_config.output_router_logits", "model.router_aux_loss_coef", routers),
	STOP("overrides_of_model_config.*", NULL,
	     "config.json says what the model is; change it there"),
	STOP("model_config.*", NULL, "config.json says what the model is; change it there"),
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
	STOP("chat_template_jinja", "no 0", "Jinja is not run: [data] has forms"),
	STOP("chat_template_kwargs.*", NULL, "a template takes no arguments"),
	NONE("chunked_cross_entropy_num_chunks",
	     "of what is not asked for, or refused by its own key"),
	NONE("comet_api_key", MONITOR),
	NONE("comet_experiment_config.*", MONITOR),
	NONE("comet_experiment_key", MONITOR),
	NONE("comet_mode", MONITOR),
	NONE("comet_online", MONITOR),
	NONE("comet_workspace", MONITOR),
	NONE("cpo_alpha", OF_RL),
	STOP("curriculum_sampling", "no", "[data] order = sequential, without packing, is near it"),
	STOP("dataset_exact_deduplication", "no", "rows that are there twice are learned twice"),
	STOP("dataset_shard_idx", "", "save the part of the data set as a file of its own"),
	STOP("dataset_shard_num", "", "save the part of the data set as a file of its own"),
	NONE("deepcompile", KERNELS),
	NONE("dion_lr", "of an optimizer or schedule that is not here"),
	NONE("dion_momentum", "of an optimizer or schedule that is not here"),
	NONE("dion_rank_fraction", "of an optimizer or schedule that is not here"),
	NONE("dion_rank_multiple_of", "of an optimizer or schedule that is not here"),
	NONE("dp_replicate_size", COUNT),
	NONE("dp_shard_size", COUNT),
	NONE("expert_parallel_size", "each rank gathers the experts that its tokens need"),
	NONE("expert_parallel_num_nvl_bytes", COUNT),
	NONE("expert_parallel_token_capacity", COUNT),
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
	STOP("ebft.*", "no 0", TUNED),
	NONE("embeddings_skip_upcast", "nothing of a run here depends on it"),
	NONE("env_capabilities.*", "nothing of a run here depends on it"),
	NONE("experimental_skip_move_to_device", "nothing of a run here depends on it"),
	NONE("experts_implementation", KERNELS),
	STOP("fix_untrained_tokens", "no", "embeddings of untrained tokens stay as they are"),
	NONE("flash_attn_d512", KERNELS),
	NONE("flash_optimum", KERNELS),
	NONE("flex_attn_compile_kwargs.*", KERNELS),
	NONE("fp32_norm_classes", "nothing of a run here depends on it"),
	NONE("fp32_norms", "nothing of a run here depends on it"),
	NONE("fp8_config.*", "of what is not asked for, or refused by its own key"),
	NONE("fp8_enable_fsdp_float8_all_gather",
	     "of what is not asked for, or refused by its own key"),
	STOP("freeze_mm_modules", "no", MEDIA),
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
	STOP("jagged_restart_steps", "0", "no schedule here restarts by steps"),
	NONE("jagged_restart_warmup_steps", "of an optimizer or schedule that is not here"),
	NONE("kto_desirable_weight", OF_RL),
	NONE("kto_undesirable_weight", OF_RL),
	NONE("large_head_attention", KERNELS),
	STOP("layer_offloading", "no 0", "[offload.param] takes parameters to memory or disk"),
	NONE("lisa_layers_attribute", "of what is not asked for, or refused by its own key"),
	NONE("lisa_step_interval", "of what is not asked for, or refused by its own key"),
	NONE("llama4_linearized_experts", KERNELS),
	STOP("lora_target_parameters", "no 0",
	     "experts that are one tensor of three dimensions get no adapters"),
	NONE("lr_div_factor", "of an optimizer or schedule that is not here"),
	NONE("max_packed_sequence_len", "[data] says it"),
	NONE("max_prompt_len", OF_RL),
	NONE("mean_resizing_embeddings", "nothing of a run here depends on it"),
	STOP("merge_lora", "no 0", "`zeroth checkpoint export --merge` does"),
	NONE("merge_method", "of what is not asked for, or refused by its own key"),
	MADE("model_quantization_config", NULL, stored),
	MADE("model_quantization_config_kwargs.*", NULL, stored),
	STOP("noisy_embedding_alpha", "no 0", "embeddings get no noise"),
	NONE("num_dataset_shards_to_save", "[data] says it"),
	NONE("num_generation_samples", "`zeroth sample` writes text"),
	NONE("num_labels", OF_RL),
	NONE("orpo_alpha", OF_RL),
	NONE("otel_metrics_host", MONITOR),
	NONE("otel_metrics_port", MONITOR),
	STOP("overrides_of_model_kwargs.*", "no 0", "there is no Python class to give them to"),
	NONE("pad_to_multiple_of", "[data] says it"),
	STOP("peft.*", "no 0", LOFTQ),
	NONE("peft_autocast_adapter_dtype", "nothing of a run here depends on it"),
	NONE("peft_ensure_weight_tying", "nothing of a run here depends on it"),
	STOP("peft_init_lora_weights", "no 0", "adapters begin at 0"),
	STOP("peft_layer_replication", "no 0", "layers are not repeated"),
	STOP("peft_layers_pattern", "no 0", "give [adapter] layers_pattern"),
	STOP("peft_layers_to_transform", "no 0", "give [adapter] layers_to_transform"),
	STOP("peft_trainable_token_indices", "no 0", "embeddings learn whole, or not at all"),
	STOP("ple_cpu_offload", "no 0", "[offload.param] takes parameters to memory or disk"),
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
	STOP("processor_kwargs.*", NULL, MEDIA),
	STOP("processor_type", "", MEDIA),
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
	MADE("quantize_moe_experts", NULL, experts),
	NONE("ray_num_workers", RANKS),
	NONE("ray_run_name", RANKS),
	STOP("reinit_weights", "no 0", "pretrained weights are not drawn anew"),
	NONE("relora_cpu_offload", "of what is not asked for, or refused by its own key"),
	NONE("relora_prune_method", "of what is not asked for, or refused by its own key"),
	NONE("relora_prune_ratio", "of what is not asked for, or refused by its own key"),
	NONE("resources_per_worker.*", RANKS),
	NONE("revision_of_model", "[model] path is a directory: nothing is downloaded"),
	NONE("ring_attn_func", KERNELS),
	NONE("rpo_alpha", OF_RL),
	NONE("sample_packing_eff_est", "[data] says it"),
	NONE("sample_packing_mp_start_method", "[data] says it"),
	STOP("scaling_softmax", "no 0", "scores are not scaled by the length"),
	NONE("scaling_softmax_bias", "of what is not asked for, or refused by its own key"),
	NONE("scaling_softmax_factor", "of what is not asked for, or refused by its own key"),
	NONE("sdpa_varlen", KERNELS),
	STOP("selective_checkpointing", "no 0",
	     "[activation] plugin = recompute takes whole layers"),
	STOP("shrink_embeddings", "no", "an embedding is not made smaller"),
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
	STOP("trainer_cls", "", "there is no Python"),
	STOP("use_eaft", "no 0", "targets are not weighted by entropy (EAFT)"),
	NONE("use_kernels", KERNELS),
	STOP("use_onebitllms", "no 0", "there are no linear maps of ternary weights"),
	NONE("use_otel_metrics", MONITOR),
	NONE("use_ray", RANKS),
	NONE("use_trackio", MONITOR),
	STOP("vllm.*", "no 0", TUNED),
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
			rc = zr_import_fate(s, ZR_FATE_NONE,
					    "Axolotl reads it beside "
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
	return when ? 0 : hf_put_each_epoch(im, NULL, "checkpoint.every", note);
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
