/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed_values.c - see deepspeed.h.
 */
#include "cmd/import/deepspeed.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ZERO "zero_optimization."

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->deepspeed, path);
}

static int is_on(struct zr_import *im, const char *path)
{
	return zr_import_is_on(im, im->deepspeed, path);
}

/* -1: none of 0 to 3. */
static int stage_of(struct zr_import *im)
{
	const struct zr_setting *s = find(im, ZERO "stage");
	const double stage = zr_import_number(s, s ? -1 : is_on(im, "zero_optimization"));
	return stage == 0 || stage == 1 || stage == 2 || stage == 3 ? (int)stage : -1;
}

IMPORT_MAP(ds_legacy_stage)
{
	if (json_is_boolean(s->value))
		return zr_import_put(im, s, k->to, json_is_true(s->value) ? "stage1" : "stage0",
				     NULL);
	if (json_is_object(s->value))
		return zr_import_no_effect(s, "empty");
	return zr_import_impossible(s, "expected { \"stage\": N }");
}

/* How many ranks share the parameters; 0: all. */
static int split_by(struct zr_import *im, const char *key, double off)
{
	const double n = zr_import_number(find(im, key), off);
	return n > off && stage_of(im) == 3 ? (int)n : 0;
}

IMPORT_MAP(ds_stage)
{
	const int hpz = split_by(im, ZERO "zero_hpz_partition_size", 1);
	const int mics = split_by(im, ZERO "mics_shard_size", 0);
	const int own = !strcmp(s->path, ZERO "stage"), stage = stage_of(im);
	char name[16];

	if (own && stage < 0)
		return zr_import_impossible(s, "expected 0, 1, 2 or 3");
	snprintf(name, sizeof name, "stage%d", stage);
	if (own && hpz)
		return zr_import_put(im, s, k->to, "hpz", NULL);
	if (own && mics)
		return zr_import_put(im, s, k->to, "mics", NULL);
	if (own)
		return zr_import_put(im, s, k->to, name, NULL);

	const int asked = strstr(s->path, "hpz") ? hpz : mics;
	if (!asked)
		return zr_import_no_effect(s, stage == 3 ? "off" : "only of stage 3");
	return zr_import_fate(s, ZR_FATE_PARTLY,
			      "parameters are split inside each node, by as many ranks "
			      "as it has");
}

IMPORT_MAP(ds_stage3)
{
	if (stage_of(im) == 3)
		return zr_import_as_it_is(im, s, k->to);
	return zr_import_no_effect(s, "only of stage 3");
}

IMPORT_MAP(ds_persistence)
{
	int rc = ds_stage3(im, s, k);
	if (rc)
		return rc;
	return zr_import_differs(
		s, "layers up to this size stay whole; DeepSpeed keeps single tensors");
}

IMPORT_MAP(ds_sub_group)
{
	const double n = zr_import_number(s, -1);
	if (n < 0 || n >= 2048)
		return zr_import_as_it_is(im, s, k->to);
	return zr_import_put(im, s, k->to, n > 0 ? "2048" : "auto", NULL);
}

/* The three tiers: DeepSpeed's names of their blocks and sections here. */
static const struct {
	const char *block, *section, *legacy;
} tiers[] = {
	{ ZERO "offload_optimizer", "offload.optimizer", ZERO "cpu_offload" },
	{ ZERO "offload_param", "offload.param", ZERO "cpu_offload_params" },
	{ ZERO "offload_gradients", "offload.gradient", ZERO "offload_gradients" },
};
#define TIERS ((int)(sizeof tiers / sizeof *tiers))

/* A processor's memory is the host's: taking something from one to the other moves nothing. */
static int is_same_memory(const struct zr_import *im, const char *device)
{
	return !strcmp(device, "cpu") && !strcmp(im->device, "cpu");
}

/* Why a tier of a block does nothing. */
static int idle(struct zr_import *im, struct zr_setting *s, int tier)
{
	if (tier == 1 && stage_of(im) != 3)
		return zr_import_no_effect(s, "only of stage 3");
	return zr_import_no_effect(
		s, !strcmp(im->device, "cpu") ?
			   "device and host are one memory with [device] plugin = cpu: "
			   "import with --device cuda for GPUs" :
			   "off");
}

/* "none", "cpu", "nvme", or what else the file says. */
static const char *device_of(struct zr_import *im, int tier)
{
	char path[64];

	snprintf(path, sizeof path, "%s.device", tiers[tier].block);
	const struct zr_setting *s = find(im, path);
	const char *device = "none";
	if (s && json_is_string(s->value))
		device = json_string_value(s->value);
	else if (is_on(im, tiers[tier].legacy))
		device = "cpu";
	if (tier == 1 && is_on(im, ZERO "cpu_offload_param"))
		device = "cpu";
	if ((tier == 1 && stage_of(im) != 3) || is_same_memory(im, device))
		return "none";
	return device;
}

static int tier_of(const char *to)
{
	int t = 0;
	while (t < TIERS - 1 && strncmp(tiers[t].section, to, strlen(tiers[t].section)))
		t++;
	return t;
}

IMPORT_MAP(ds_device)
{
	const int tier = tier_of(k->to);
	const char *device = device_of(im, tier);
	char path[64];
	int rc;

	snprintf(path, sizeof path, "%s.nvme_path", tiers[tier].block);
	if (zr_import_is(s->value, "none"))
		return zr_import_no_effect(s, "off");
	if (!strcmp(device, "none"))
		return idle(im, s, tier);
	if (strcmp(device, "cpu") && strcmp(device, "nvme"))
		return zr_import_impossible(s, "expected none, cpu or nvme");
	if (!strcmp(device, "nvme") && !find(im, path))
		return zr_import_impossible(s, "give nvme_path beside it: a directory");

	rc = zr_import_put(im, s, k->to, device, NULL);
	if (rc || strcmp(device, "nvme") || tier || stage_of(im) == 3)
		return rc;
	return zr_import_differs(s,
				 "it is on disk; DeepSpeed takes it to memory in stages 1 and 2");
}

IMPORT_MAP(ds_legacy_offload)
{
	const int tier = tier_of(k->to);

	if (json_is_string(s->value) && strcmp(json_string_value(s->value), "cpu"))
		return zr_import_impossible(s, "expected true or false");
	if (!zr_import_is_on(im, im->deepspeed, s->path))
		return zr_import_no_effect(s, "off");
	if (strcmp(device_of(im, tier), "cpu"))
		return idle(im, s, tier);
	return zr_import_put(im, s, k->to, "cpu", NULL);
}

IMPORT_MAP(ds_pinned)
{
	const char *device = device_of(im, tier_of(k->to));
	if (strcmp(device, "cpu"))
		return zr_import_no_effect(s, strcmp(device, "nvme") ?
						      "this is not offloaded to memory" :
						      "what a device copies is pinned without it");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(ds_disk)
{
	if (strcmp(device_of(im, tier_of(k->to)), "nvme"))
		return zr_import_no_effect(s, "this is not on disk");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(ds_aio)
{
	int rc = 0, any = 0;

	if (!strcmp(k->to, "block_size") && (long long)zr_import_number(s, 1) % 4096)
		return zr_import_impossible(s, "expected a multiple of 4096 bytes");

	for (int t = 0; !rc && t < TIERS; t++) {
		char to[64];
		snprintf(to, sizeof to, "%s.%s", tiers[t].section, k->to);
		if (strcmp(device_of(im, t), "nvme"))
			continue;

		any = 1;
		rc = zr_import_as_it_is(im, s, to);
	}

	if (rc || any)
		return rc;
	return zr_import_no_effect(s, "nothing is on disk");
}

/* "adam" is AdamW in DeepSpeed, unless adam_w_mode says other; so is what Muon leaves to it. */
static int is_l2(struct zr_import *im)
{
	const struct zr_setting *type = find(im, "optimizer.type");
	const struct zr_setting *mode = find(im, "optimizer.params.adam_w_mode");
	const char *name = zr_import_word(type);
	return mode && json_is_false(mode->value) &&
	       (!strcasecmp(name, "adam") || !strcasecmp(name, "muon"));
}

static int put_adam(struct zr_import *im, struct zr_setting *s, const char *to)
{
	const int l2 = is_l2(im);
	int rc;

	if (!strcmp(device_of(im, 0), "none"))
		return zr_import_put(im, s, to, l2 ? "adam" : "adamw", NULL);

	rc = zr_import_put(im, s, to, "cpu_adam", NULL);
	if (rc || !l2)
		return rc;
	return zr_import_put(im, s, "optimizer.adamw_mode", "no", NULL);
}

IMPORT_MAP(ds_optimizer)
{
	static const char *const same[] = { "lamb", "lion", "adagrad", "sgd", NULL };

	const char *name = zr_import_word(s);
	if (!strcasecmp(name, "adam") || !strcasecmp(name, "adamw"))
		return put_adam(im, s, k->to);

	for (int i = 0; same[i]; i++)
		if (!strcasecmp(name, same[i]))
			return zr_import_put(im, s, k->to, same[i], NULL);
	if (strcasecmp(name, "muon"))
		return zr_import_impossible(s, "use Adam, AdamW, Lamb, Lion, Adagrad, Muon or "
					       "SGD");

	int rc = put_adam(im, s, k->to);
	if (rc)
		return rc;
	return ds_put_muon(im, s);
}

IMPORT_MAP(ds_parameter)
{
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(ds_adam_w_mode)
{
	if (strstr(s->path, "torch_adam"))
		return zr_import_no_effect(s, "there is one AdamW");
	return zr_import_fate(s, ZR_FATE_MAPPED, "with optimizer.type");
}

IMPORT_MAP(ds_clipping)
{
	if (zr_import_number(s, 1) == 0)
		return zr_import_no_effect(s, "off");
	return zr_import_impossible(s, "DeepSpeed does not clip by it; use \"gradient_clipping\"");
}

IMPORT_MAP(ds_scheduler)
{
	static const char *const names[][2] = {
		{ "WarmupLR", "warmup_lr" },
		{ "WarmupDecayLR", "warmup_decay_lr" },
		{ "WarmupCosineLR", "warmup_cosine_lr" },
		{ "OneCycle", "one_cycle" },
		{ "LRRangeTest", "lr_range_test" },
		{ NULL, NULL },
	};
	const char *name = zr_import_word(s);

	for (int i = 0; names[i][0]; i++)
		if (!strcasecmp(name, names[i][0]))
			return zr_import_put(im, s, k->to, names[i][1], NULL);
	return zr_import_impossible(s, "use WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or "
				       "LRRangeTest");
}

IMPORT_MAP(ds_precision)
{
	if (!zr_import_is_on(im, im->deepspeed, s->path))
		return zr_import_no_effect(s, "off");
	return zr_import_put(im, s, k->to, *s->path == 'b' ? "bf16" : "fp16", NULL);
}

IMPORT_MAP(ds_skip_nonfinite)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "skip", NULL);
	return zr_import_no_effect(s, "a step that is not finite never changes a parameter");
}

IMPORT_MAP(ds_bf16_master)
{
	int rc;
	if (json_is_true(s->value))
		rc = zr_import_put(im, s, k->to, "none", NULL);
	else
		rc = zr_import_no_effect(s, "off");
	if (rc)
		return rc;
	return zr_import_differs(s, "updates are rounded stochastically, not to the nearest");
}

IMPORT_MAP(ds_bf16_states)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "bf16", NULL);
	return zr_import_no_effect(s, "off");
}

/* fp32, fp16 or bf16; NULL: none of them. */
static const char *type_of(const json_t *value)
{
	static const char *const names[][2] = {
		{ "fp32", "fp32" },
		{ "float32", "fp32" },
		{ "float", "fp32" },
		{ "torch.float32", "fp32" },
		{ "fp16", "fp16" },
		{ "float16", "fp16" },
		{ "half", "fp16" },
		{ "torch.float16", "fp16" },
		{ "bf16", "bf16" },
		{ "bfloat16", "bf16" },
		{ "torch.bfloat16", "bf16" },
		{ "bfp16", "bf16" },
		{ NULL, NULL },
	};

	for (int i = 0; names[i][0]; i++)
		if (zr_import_is(value, names[i][0]))
			return names[i][1];
	return NULL;
}

static IMPORT_MAP(comm_type)
{
	const char *type = type_of(s->value);
	if (type)
		return zr_import_put(im, s, k->to, type, NULL);
	return zr_import_impossible(s, "expected fp32, fp16 or bf16");
}

IMPORT_MAP(ds_own_comm_type)
{
	if (zr_import_is_shared(im))
		return zr_import_no_effect(s, "seq_parallel_communication_data_type says it, as "
					      "ranks share sequences");
	return comm_type(im, s, k);
}

IMPORT_MAP(ds_shared_comm_type)
{
	if (!zr_import_is_shared(im))
		return zr_import_no_effect(s, "ranks share no sequences");
	return comm_type(im, s, k);
}

/* AutoEP, which has a part of the experts on each of autoep_size ranks: neighbours, as here. */
IMPORT_MAP(ds_experts)
{
	(void)im;
	if (!json_is_true(s->value))
		return zr_import_no_effect(s, "off here, too");
	return zr_import_no_effect(s, "expert_ranks says it");
}

IMPORT_MAP(ds_autocast)
{
	const struct zr_setting *dtype = find(im, "torch_autocast.dtype");
	const char *type = dtype ? type_of(dtype->value) : "bf16";
	int rc;

	if (!json_is_true(s->value))
		return zr_import_no_effect(s, "off");
	if (!type)
		return zr_import_impossible(s, "expected \"dtype\": \"bfloat16\" or \"float16\"");

	rc = zr_import_put(im, s, k->to, type, NULL);
	if (rc)
		return rc;
	return zr_import_differs(s, "parameters have 16 bits, too, beside an fp32 master");
}

IMPORT_MAP(ds_log_level)
{
	static const char *const names[][2] = { { "debug", "debug" },    { "info", "info" },
						{ "warning", "warn" },   { "error", "error" },
						{ "critical", "error" }, { NULL, NULL } };

	for (int i = 0; names[i][0]; i++)
		if (zr_import_is(s->value, names[i][0]))
			return zr_import_put(im, s, k->to, names[i][1], NULL);
	return zr_import_impossible(s, "expected debug, info, warning, error or critical");
}

IMPORT_MAP(ds_cpu_checkpointing)
{
	int rc;

	if (!json_is_true(s->value))
		return zr_import_no_effect(s, "off");

	rc = zr_import_put(im, s, k->to, "recompute", NULL);
	if (rc)
		return rc;
	if (is_same_memory(im, "cpu"))
		return zr_import_differs(
			s, "with [device] plugin = cpu nothing leaves for host memory");
	return zr_import_put(im, s, "activation.outputs", "offload", NULL);
}

IMPORT_MAP(ds_csv)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "csv", NULL);
	return zr_import_no_effect(s, "off");
}

IMPORT_MAP(ds_csv_path)
{
	const char *dir = zr_import_word(s);
	char path[4096];
	int rc;

	if (!*dir)
		return zr_import_no_effect(s, "empty");

	snprintf(path, sizeof path, "%s%smetrics.csv", dir, dir[strlen(dir) - 1] == '/' ? "" : "/");
	rc = zr_import_put(im, s, k->to, path, NULL);
	if (rc)
		return rc;
	return zr_import_differs(s, "one file with a column for each metric");
}

IMPORT_MAP(ds_tensorboard)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "tensorboard", NULL);
	return zr_import_no_effect(s, "off");
}

IMPORT_MAP(ds_path)
{
	if (zr_import_is(s->value, ""))
		return zr_import_no_effect(s, "empty");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(ds_steps_per_print)
{
	if (im->source[0].kind != im->deepspeed)
		return zr_import_no_effect(s, "logging_steps says it: transformers turns this off");
	if (zr_import_number(s, 1) >= 1)
		return zr_import_as_it_is(im, s, k->to);
	return zr_import_no_effect(s, "off");
}
