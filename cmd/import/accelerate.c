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

#define MAP(name)                                                                                  \
	static int name(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)

static const char *text_of(const struct zr_setting *s)
{
	if (s && json_is_string(s->value))
		return json_string_value(s->value);
	return "";
}

static int none(struct zr_setting *s, const char *why)
{
	return zr_import_fate(s, ZR_FATE_NONE, "%s", why);
}

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->source[0].kind, path);
}

static int is_type(struct zr_import *im, const char *type)
{
	return !strcasecmp(text_of(find(im, "distributed_type")), type);
}

/* How ranks share a model: of FSDP and DeepSpeed their own keys say it. */
MAP(distributed)
{
	static const char *const whole[] = { "NO", "MULTI_GPU", "MULTI_CPU" };

	if (is_type(im, "FSDP") || is_type(im, "DEEPSPEED"))
		return zr_import_fate(s, ZR_FATE_MAPPED, "with [zero] plugin");

	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
		if (is_type(im, whole[i]) || json_is_false(s->value))
			return zr_import_put(im, s, k->to, "stage0", NULL);
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "ranks share a model as FSDP or DeepSpeed do, or "
			      "each has all of it");
}

MAP(mixed)
{
	const char *type = text_of(s);
	if (!strcmp(type, "no") || json_is_false(s->value))
		return none(s, "off");
	if (!strcmp(type, "bf16") || !strcmp(type, "fp16"))
		return zr_import_put(im, s, k->to, type, NULL);
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "expected no, bf16 or fp16: products have no 8 "
			      "bits here");
}

MAP(sharding)
{
	static const char *const names[][2] = {
		{ "FULL_SHARD", "stage3" }, { "1", "stage3" },        { "SHARD_GRAD_OP", "stage2" },
		{ "2", "stage2" },          { "NO_SHARD", "stage0" }, { "3", "stage0" },
		{ "HYBRID_SHARD", "hpz" },  { "4", "hpz" },
	};
	char *text = NULL;

	if (!is_type(im, "FSDP"))
		return none(s, "distributed_type is another one");

	int rc = zr_import_text(s->value, &text);
	for (size_t i = 0; !rc && i < sizeof names / sizeof *names; i++)
		if (!strcasecmp(names[i][0], text))
			rc = zr_import_put(im, s, k->to, names[i][1], NULL);
	free(text);
	if (!rc && s->fate == ZR_FATE_OPEN)
		rc = zr_import_fate(s, ZR_FATE_REFUSED,
				    "expected FULL_SHARD, SHARD_GRAD_OP, "
				    "NO_SHARD or HYBRID_SHARD");
	return rc;
}

/* FSDP2: parameters are gathered again in backward (stage3), or stay (stage2). */
MAP(reshard)
{
	if (!is_type(im, "FSDP"))
		return none(s, "distributed_type is another one");
	if (json_is_boolean(s->value))
		return zr_import_put(im, s, k->to, json_is_true(s->value) ? "stage3" : "stage2",
				     NULL);
	return sharding(im, s, k);
}

MAP(fsdp_offload)
{
	(void)k;
	if (!json_is_true(s->value) || !is_type(im, "FSDP"))
		return none(s, "off");
	if (!strcmp(im->device, "cpu"))
		return none(s, "device and host are one memory with [device] plugin = cpu");

	int rc = zr_import_put(im, s, "offload.optimizer.plugin", "cpu", NULL);
	if (rc)
		return rc;
	return zr_import_put(im, s, "offload.param.plugin", "cpu", NULL);
}

MAP(stage)
{
	const double n = zr_import_number(s, -1);
	char text[16];

	if (!is_type(im, "DEEPSPEED"))
		return none(s, "distributed_type is another one");
	if (n != 0 && n != 1 && n != 2 && n != 3)
		return zr_import_fate(s, ZR_FATE_REFUSED, "expected 0, 1, 2 or 3");

	snprintf(text, sizeof text, "stage%.0f", n);
	return zr_import_put(im, s, k->to, text, NULL);
}

MAP(device)
{
	const char *name = text_of(s);
	if (!strcmp(name, "none") || !is_type(im, "DEEPSPEED"))
		return none(s, "off");
	if (!strcmp(name, "cpu") && !strcmp(im->device, "cpu"))
		return none(s, "device and host are one memory with [device] plugin = cpu");
	return zr_import_put(im, s, k->to, name, NULL);
}

#define RANKS   "[comm] and [boot] say how ranks meet, `zeroth train -n N` how many there are"
#define TPU     "[device] plugin says it"
#define GATHER  "the stage says how parameters are gathered"
#define OTHERS  "there is no such way to share a model here"
#define WRITTEN "a checkpoint is whole; `zeroth checkpoint export` writes safetensors"

static const struct zr_import_key keys[] = {
	NONE("compute_environment", RANKS),
	NONE("debug", "every program is proven before it runs"),
	MADE("distributed_type", "zero.plugin", distributed),
	MADE("mixed_precision", "precision.plugin", mixed),
	STOP("downcast_bf16", "no", "there is one bf16"),
	NONE("machine_rank", RANKS),
	NONE("main_process_ip", RANKS),
	NONE("main_process_port", RANKS),
	NONE("main_training_function", "there is no Python"),
	NONE("num_machines", RANKS),
	NONE("num_processes", RANKS),
	NONE("rdzv_backend", RANKS),
	NONE("same_network", RANKS),
	NONE("gpu_ids", RANKS),
	NONE("use_cpu", "[device] plugin says it"),
	NONE("enable_cpu_affinity", "threads of a rank keep to its processors"),
	NONE("commands", RANKS),
	NONE("command_file", RANKS),
	NONE("mpirun_config.*", RANKS),
	NONE("tpu_env", TPU),
	NONE("tpu_name", TPU),
	NONE("tpu_vm", TPU),
	NONE("tpu_zone", TPU),
	NONE("tpu_use_cluster", TPU),
	NONE("tpu_use_sudo", TPU),
	NONE("dynamo_config.*", "all kernels are fused"),
	NONE("dynamo_backend", "all kernels are fused"),
	STOP("fp8_config.*", NULL, "products have no 8 bits here"),
	STOP("megatron_lm_config.*", NULL, OTHERS),
	STOP("parallelism_config.*", NULL, OTHERS),

	MADE("fsdp_config.fsdp_sharding_strategy", "zero.plugin", sharding),
	MADE("fsdp_config.fsdp_reshard_after_forward", "zero.plugin", reshard),
	MADE("fsdp_config.fsdp_offload_params", NULL, fsdp_offload),
	MADE("fsdp_config.fsdp_activation_checkpointing", "activation.plugin", hf_recompute),
	NONE("fsdp_config.fsdp_version", GATHER),
	NONE("fsdp_config.fsdp_auto_wrap_policy", "each layer is a unit"),
	NONE("fsdp_config.fsdp_transformer_layer_cls_to_wrap", "each layer is a unit"),
	NONE("fsdp_config.fsdp_min_num_params", "each layer is a unit"),
	NONE("fsdp_config.fsdp_backward_prefetch", GATHER),
	NONE("fsdp_config.fsdp_backward_prefetch_policy", GATHER),
	NONE("fsdp_config.fsdp_forward_prefetch", GATHER),
	NONE("fsdp_config.fsdp_cpu_ram_efficient_loading", "every rank reads only what it holds"),
	NONE("fsdp_config.fsdp_state_dict_type", WRITTEN),
	NONE("fsdp_config.fsdp_sync_module_states", "every rank reads only what it holds"),
	NONE("fsdp_config.fsdp_use_orig_params", "each layer says which parameters it uses"),

	MADE("deepspeed_config.zero_stage", "zero.plugin", stage),
	COPY("deepspeed_config.gradient_accumulation_steps", "train.gradient_accumulation_steps"),
	COPY("deepspeed_config.gradient_clipping", "train.gradient_clipping"),
	MADE("deepspeed_config.offload_optimizer_device", "offload.optimizer.plugin", device),
	MADE("deepspeed_config.offload_param_device", "offload.param.plugin", device),
	COPY("deepspeed_config.offload_optimizer_nvme_path", "offload.optimizer.path"),
	COPY("deepspeed_config.offload_param_nvme_path", "offload.param.path"),
	NONE("deepspeed_config.zero3_init_flag", "every rank reads only what it holds"),
	NONE("deepspeed_config.zero3_save_16bit_model", WRITTEN),
	NONE("deepspeed_config.deepspeed_multinode_launcher", RANKS),
	NONE("deepspeed_config.deepspeed_hostfile", RANKS),
	NONE("deepspeed_config.deepspeed_exclusion_filter", RANKS),
	NONE("deepspeed_config.deepspeed_inclusion_filter", RANKS),
	NONE("deepspeed_config.deepspeed_moe_layer_cls_names", "each expert is a unit"),
	STOP("deepspeed_config.deepspeed_config_file", "none",
	     "import that file: it says all of DeepSpeed"),
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
