/* SPDX-License-Identifier: Apache-2.0
 *
 * accelerate.c - the keys of the YAML that `accelerate config` writes, and what they are here.
 * Source: the classes of commands/config of accelerate 1.15. It has no length, data or optimizer:
 * beside it a script does.
 */
#include "cmd/import/hf.h"
#include "cmd/import/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->source[0].kind, path);
}

static int is_type(struct zr_import *im, const char *type)
{
	return !strcasecmp(zr_import_word(find(im, "distributed_type")), type);
}

/* How ranks share a model: of FSDP and DeepSpeed their own keys say it. */
static IMPORT_MAP(distributed)
{
	static const char *const whole[] = { "NO", "MULTI_GPU", "MULTI_CPU" };

	if (is_type(im, "FSDP") || is_type(im, "DEEPSPEED"))
		return zr_import_fate(s, ZR_FATE_MAPPED, "with [zero] plugin");

	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		if (is_type(im, whole[i]) || json_is_false(s->value))
			return zr_import_put(im, s, k->to, "stage0", NULL);
	return zr_import_impossible(s, "ranks share a model as FSDP or DeepSpeed do, or "
				       "each has all of it");
}

static IMPORT_MAP(mixed)
{
	const char *type = zr_import_word(s);
	if (!strcmp(type, "no") || json_is_false(s->value))
		return zr_import_no_effect(s, "off");
	if (!strcmp(type, "bf16") || !strcmp(type, "fp16"))
		return zr_import_put(im, s, k->to, type, NULL);
	return zr_import_impossible(s, "expected no, bf16 or fp16; its scales of 8 bits are "
				       "others than those of [precision] plugin = bf16 with "
				       "products = fp8, which can be set instead");
}

static IMPORT_MAP(sharding)
{
	static const char *const names[][2] = {
		{ "FULL_SHARD", "stage3" }, { "1", "stage3" },        { "SHARD_GRAD_OP", "stage2" },
		{ "2", "stage2" },          { "NO_SHARD", "stage0" }, { "3", "stage0" },
		{ "HYBRID_SHARD", "hpz" },  { "4", "hpz" },
	};
	char *text = NULL;

	if (!is_type(im, "FSDP"))
		return zr_import_no_effect(s, "distributed_type is another one");

	int rc = zr_import_text(s->value, &text);
	for (size_t i = 0; !rc && i < sizeof names / sizeof *names; i++)
		if (!strcasecmp(names[i][0], text))
			rc = zr_import_put(im, s, k->to, names[i][1], NULL);
	free(text);
	if (!rc && s->fate == ZR_FATE_OPEN)
		rc = zr_import_impossible(s, "expected FULL_SHARD, SHARD_GRAD_OP, "
					     "NO_SHARD or HYBRID_SHARD");
	return rc;
}

/* FSDP2: parameters are gathered again in backward (stage3), or stay (stage2). */
static IMPORT_MAP(reshard)
{
	if (!is_type(im, "FSDP"))
		return zr_import_no_effect(s, "distributed_type is another one");
	if (json_is_boolean(s->value))
		return zr_import_put(im, s, k->to, json_is_true(s->value) ? "stage3" : "stage2",
				     NULL);
	return sharding(im, s, k);
}

static IMPORT_MAP(fsdp_offload)
{
	if (!json_is_true(s->value) || !is_type(im, "FSDP"))
		return zr_import_no_effect(s, "off");
	if (!strcmp(im->device, "cpu"))
		return zr_import_no_effect(
			s, "device and host are one memory with [device] plugin = cpu");

	int rc = zr_import_put(im, s, "offload.optimizer.plugin", "cpu", NULL);
	if (rc)
		return rc;
	return zr_import_put(im, s, "offload.param.plugin", "cpu", NULL);
}

static IMPORT_MAP(stage)
{
	const double n = zr_import_number(s, -1);
	char text[16];

	if (!is_type(im, "DEEPSPEED"))
		return zr_import_no_effect(s, "distributed_type is another one");
	if (n != 0 && n != 1 && n != 2 && n != 3)
		return zr_import_impossible(s, "expected 0, 1, 2 or 3");

	snprintf(text, sizeof text, "stage%.0f", n);
	return zr_import_put(im, s, k->to, text, NULL);
}

static IMPORT_MAP(device)
{
	const char *name = zr_import_word(s);
	if (!strcmp(name, "none") || !is_type(im, "DEEPSPEED"))
		return zr_import_no_effect(s, "off");
	if (!strcmp(name, "cpu") && !strcmp(im->device, "cpu"))
		return zr_import_no_effect(
			s, "device and host are one memory with [device] plugin = cpu");
	return zr_import_put(im, s, k->to, name, NULL);
}

#define RANKS   "[comm] and [boot] say how ranks meet, `zeroth train -n N` how many there are"
#define TPU     "[device] plugin says it"
#define GATHER  "the stage says how parameters are gathered"
#define OTHERS  "there is no such way to share a model here"
#define WRITTEN "a checkpoint is whole; `zeroth checkpoint export` writes safetensors"

#define PARALLEL "parallelism_config.parallelism_config_"

static const struct zr_import_key keys[] = {
	NONE(RANKS, "compute_environment", "machine_rank", "main_process_ip", "main_process_port",
	     "num_machines", "num_processes", "rdzv_backend", "same_network", "gpu_ids", "commands",
	     "command_file", "mpirun_config.*", "deepspeed_config.deepspeed_multinode_launcher",
	     "deepspeed_config.deepspeed_hostfile", "deepspeed_config.deepspeed_exclusion_filter",
	     "deepspeed_config.deepspeed_inclusion_filter"),
	NONE("every program is proven before it runs", "debug"),
	MADE("distributed_type", "zero.plugin", distributed),
	MADE("mixed_precision", "precision.plugin", mixed),
	STOP("no", "there is one bf16", "downcast_bf16"),
	NONE("there is no Python", "main_training_function"),
	NONE("[device] plugin says it", "use_cpu"),
	NONE("threads of a rank keep to its processors", "enable_cpu_affinity"),
	NONE(TPU, "tpu_env", "tpu_name", "tpu_vm", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo"),
	NONE("all kernels are fused", "dynamo_config.*", "dynamo_backend"),
	STOP(NULL,
	     "take it out, and set [precision] plugin = bf16 with products = fp8: "
	     "its scales are others",
	     "fp8_config.*"),
	STOP(NULL, OTHERS, "megatron_lm_config.*"),
	MADE(PARALLEL "cp_size", "train.sequence_ranks", zr_import_sequence_ranks),
	MADE(PARALLEL "sp_size", "train.sequence_ranks", zr_import_sequence_ranks),
	STOP("1", "layers are not split over ranks; use stage3", PARALLEL "tp_size"),
	NONE("the stage says what ranks split, `zeroth train -n N` how many there are",
	     PARALLEL "dp_replicate_size", PARALLEL "dp_shard_size"),
	NONE("keys and values of a sequence are exchanged once a layer", PARALLEL "cp_backend",
	     PARALLEL "cp_comm_strategy", PARALLEL "sp_backend", PARALLEL "sp_attn_implementation"),
	NONE("all sequences have [train] sequence_length", PARALLEL "sp_seq_length",
	     PARALLEL "sp_seq_length_is_variable"),

	MADE("fsdp_config.fsdp_sharding_strategy", "zero.plugin", sharding),
	MADE("fsdp_config.fsdp_reshard_after_forward", "zero.plugin", reshard),
	MADE("fsdp_config.fsdp_offload_params", NULL, fsdp_offload),
	MADE("fsdp_config.fsdp_activation_checkpointing", "activation.plugin", hf_recompute),
	NONE(GATHER, "fsdp_config.fsdp_version", "fsdp_config.fsdp_backward_prefetch",
	     "fsdp_config.fsdp_backward_prefetch_policy", "fsdp_config.fsdp_forward_prefetch"),
	NONE("each layer is a unit", "fsdp_config.fsdp_auto_wrap_policy",
	     "fsdp_config.fsdp_transformer_layer_cls_to_wrap", "fsdp_config.fsdp_min_num_params"),
	NONE("every rank reads only what it holds", "fsdp_config.fsdp_cpu_ram_efficient_loading",
	     "fsdp_config.fsdp_sync_module_states", "deepspeed_config.zero3_init_flag"),
	NONE(WRITTEN, "fsdp_config.fsdp_state_dict_type",
	     "deepspeed_config.zero3_save_16bit_model"),
	NONE("each layer says which parameters it uses", "fsdp_config.fsdp_use_orig_params"),

	MADE("deepspeed_config.zero_stage", "zero.plugin", stage),
	COPY("deepspeed_config.gradient_accumulation_steps", "train.gradient_accumulation_steps"),
	COPY("deepspeed_config.gradient_clipping", "train.gradient_clipping"),
	MADE("deepspeed_config.offload_optimizer_device", "offload.optimizer.plugin", device),
	MADE("deepspeed_config.offload_param_device", "offload.param.plugin", device),
	COPY("deepspeed_config.offload_optimizer_nvme_path", "offload.optimizer.path"),
	COPY("deepspeed_config.offload_param_nvme_path", "offload.param.path"),
	NONE("each expert is a unit", "deepspeed_config.deepspeed_moe_layer_cls_names"),
	STOP("none", "import that file: it says all of DeepSpeed",
	     "deepspeed_config.deepspeed_config_file"),
	{ 0 },
};

/* accelerate's own defaults where a strategy is not named. */
static int finish(struct zr_import *im)
{
	static const char note[] = "accelerate's default";
	int rc = 0;

	if (!zr_import_given(im, "zero.plugin") && is_type(im, "FSDP"))
		rc = zr_import_put(im, NULL, "zero.plugin", "stage3", note);
	if (!rc && !zr_import_given(im, "zero.plugin") && is_type(im, "DEEPSPEED"))
		rc = zr_import_put(im, NULL, "zero.plugin", "stage2", note);
	return rc;
}

const struct zr_import_kind zr_accelerate = { .name = "accelerate",
					      .keys = keys,
					      .finish = finish };
