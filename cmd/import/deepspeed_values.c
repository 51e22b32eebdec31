/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed_values.c - see deepspeed.h.
 */
#define _GNU_SOURCE
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

static int as_it_is(struct zr_import *im, struct zr_setting *s, const char *to)
{
	char *text = NULL;

	int rc = zr_import_text(s->value, &text);
	if (!rc)
		rc = zr_import_put(im, s, to, text, NULL);
	free(text);
	return rc;
}

static int none(struct zr_setting *s, const char *why)
{
	return zr_import_fate(s, ZR_FATE_NONE, "%s", why);
}

static int partly(struct zr_setting *s, const char *why)
{
	if (s->fate == ZR_FATE_MAPPED)
		return zr_import_fate(s, ZR_FATE_PARTLY, "%s", why);
	return 0;
}

/* -1: none of 0 to 3. */
static int stage_of(struct zr_import *im)
{
	const struct zr_setting *s = find(im, ZERO "stage");
	const double stage = zr_import_number(s, s ? -1 : is_on(im, "zero_optimization"));
	return stage == 0 || stage == 1 || stage == 2 || stage == 3 ? (int)stage : -1;
}

int ds_legacy_stage(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (json_is_boolean(s->value))
		return zr_import_put(im, s, k->to, json_is_true(s->value) ? "stage1" : "stage0",
				     NULL);
	if (json_is_object(s->value))
		return none(s, "empty");
	return zr_import_fate(s, ZR_FATE_REFUSED, "expected { \"stage\": N }");
}

/* How many ranks share the parameters; 0: all. */
static int split_by(struct zr_import *im, const char *key, double off)
{
	const double n = zr_import_number(find(im, key), off);
	return n > off && stage_of(im) == 3 ? (int)n : 0;
}

int ds_stage(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const int hpz = split_by(im, ZERO "zero_hpz_partition_size", 1);
	const int mics = split_by(im, ZERO "mics_shard_size", 0);
	const int own = !strcmp(s->path, ZERO "stage"), stage = stage_of(im);
	char name[16];

	if (own && stage < 0)
		return zr_import_fate(s, ZR_FATE_REFUSED, "expected 0, 1, 2 or 3");
	snprintf(name, sizeof name, "stage%d", stage);
	if (own && hpz)
		return zr_import_put(im, s, k->to, "hpz", NULL);
	if (own && mics)
		return zr_import_put(im, s, k->to, "mics", NULL);
	if (own)
		return zr_import_put(im, s, k->to, name, NULL);

	const int asked = strstr(s->path, "hpz") ? hpz : mics;
	if (!asked)
		return none(s, stage == 3 ? "off" : "only of stage 3");
	return zr_import_fate(s, ZR_FATE_PARTLY,
			      "parameters are split inside each node, by as many ranks "
			      "as it has");
}

int ds_stage3(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (stage_of(im) == 3)
		return as_it_is(im, s, k->to);
	return none(s, "only of stage 3");
}

int ds_persistence(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	int rc = ds_stage3(im, s, k);
	if (rc)
		return rc;
	return partly(s, "layers up to this size stay whole; DeepSpeed keeps single tensors");
}

int ds_sub_group(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const double n = zr_import_number(s, -1);
	if (n < 0 || n >= 2048)
		return as_it_is(im, s, k->to);
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
		return none(s, "only of stage 3");
	return none(s, !strcmp(im->device, "cpu") ?
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

int ds_device(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const int tier = tier_of(k->to);
	const char *device = device_of(im, tier);
	char path[64];
	int rc;

	snprintf(path, sizeof path, "%s.nvme_path", tiers[tier].block);
	if (zr_import_is(s->value, "none"))
		return none(s, "off");
	if (!strcmp(device, "none"))
		return idle(im, s, tier);
	if (strcmp(device, "cpu") && strcmp(device, "nvme"))
		return zr_import_fate(s, ZR_FATE_REFUSED, "expected none, cpu or nvme");
	if (!strcmp(device, "nvme") && !find(im, path))
		return zr_import_fate(s, ZR_FATE_REFUSED, "give nvme_path beside it: a directory");

	rc = zr_import_put(im, s, k->to, device, NULL);
	if (rc || strcmp(device, "nvme") || tier || stage_of(im) == 3)
		return rc;
	return partly(s, "it is on disk; DeepSpeed takes it to memory in stages 1 and 2");
}

int ds_legacy_offload(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const int tier = tier_of(k->to);

	if (json_is_string(s->value) && strcmp(json_string_value(s->value), "cpu"))
		return zr_import_fate(s, ZR_FATE_REFUSED, "expected true or false");
	if (!zr_import_is_on(im, im->deepspeed, s->path))
		return none(s, "off");
	if (strcmp(device_of(im, tier), "cpu"))
		return idle(im, s, tier);
	return zr_import_put(im, s, k->to, "cpu", NULL);
}

int ds_pinned(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const char *device = device_of(im, tier_of(k->to));
	if (strcmp(device, "cpu"))
		return none(s, strcmp(device, "nvme") ?
				       "this is not offloaded to memory" :
				       "what a device copies is pinned without it");
	return as_it_is(im, s, k->to);
}

int ds_disk(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (strcmp(device_of(im, tier_of(k->to)), "nvme"))
		return none(s, "this is not on disk");
	return as_it_is(im, s, k->to);
}

int ds_aio(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	int rc = 0, any = 0;

	if (!strcmp(k->to, "block_size") && (long long)zr_import_number(s, 1) % 4096)
		return zr_import_fate(s, ZR_FATE_REFUSED, "expected a multiple of 4096 bytes");

	for (int t = 0; !rc && t < TIERS; t++) {
		char to[64];
		snprintf(to, sizeof to, "%s.%s", tiers[t].section, k->to);
		if (strcmp(device_of(im, t), "nvme"))
			continue;

		any = 1;
		rc = as_it_is(im, s, to);
	}

	return rc || any ? rc : none(s, "nothing is on disk");
}

/* "adam" is AdamW in DeepSpeed, unless adam_w_mode says other. */
static int is_l2(struct zr_import *im)
{
	const struct zr_setting *type = find(im, "optimizer.type");
	const struct zr_setting *mode = find(im, "optimizer.params.adam_w_mode");
	return type && json_is_string(type->value) &&
	       !strcasecmp(json_string_value(type->value), "adam") && mode &&
	       json_is_false(mode->value);
}

static int put_adam(struct zr_import *im, struct zr_setting *s, const char *to)
{
	const int l2 = is_l2(im);
	int rc;

	if (!strcmp(device_of(im, 0), "none"))
		return zr_import_put(im, s, to, l2 ? "adam" : "adamw", NULL);

	rc = zr_import_put(im, s, to, "cpu_adam", NULL);
	return rc || !l2 ? rc : zr_import_put(im, s, "optimizer.adamw_mode", "no", NULL);
}

int ds_optimizer(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	static const char *const same[] = { "lamb", "lion", "adagrad", "sgd", NULL };

	const char *name = json_is_string(s->value) ? json_string_value(s->value) : "";
	if (!strcasecmp(name, "adam") || !strcasecmp(name, "adamw"))
		return put_adam(im, s, k->to);

	for (int i = 0; same[i]; i++)
		if (!strcasecmp(name, same[i]))
			return zr_import_put(im, s, k->to, same[i], NULL);
	if (!strcasecmp(name, "muon"))
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "use AdamW, and add [optimizer.NAME] with plugin = "
				      "muon and match = patterns of the hidden matrices");
	return zr_import_fate(s, ZR_FATE_REFUSED, "use Adam, AdamW, Lamb, Lion, Adagrad or SGD");
}

int ds_parameter(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	return as_it_is(im, s, k->to);
}

int ds_adam_w_mode(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	(void)im, (void)k;
	if (strstr(s->path, "torch_adam"))
		return none(s, "there is one AdamW");
	return zr_import_fate(s, ZR_FATE_MAPPED, "with optimizer.type");
}

int ds_clipping(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	(void)im, (void)k;
	if (zr_import_number(s, 1) == 0)
		return none(s, "off");
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "DeepSpeed does not clip by it; use \"gradient_clipping\"");
}

int ds_scheduler(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	static const char *const names[][2] = {
		{ "WarmupLR", "warmup_lr" },
		{ "WarmupDecayLR", "warmup_decay_lr" },
		{ "WarmupCosineLR", "warmup_cosine_lr" },
		{ "OneCycle", "one_cycle" },
		{ "LRRangeTest", "lr_range_test" },
		{ NULL, NULL },
	};
	const char *name = json_is_string(s->value) ? json_string_value(s->value) : "";

	for (int i = 0; names[i][0]; i++)
		if (!strcasecmp(name, names[i][0]))
			return zr_import_put(im, s, k->to, names[i][1], NULL);
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "use WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or "
			      "LRRangeTest");
}

int ds_precision(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (!zr_import_is_on(im, im->deepspeed, s->path))
		return none(s, "off");
	return zr_import_put(im, s, k->to, *s->path == 'b' ? "bf16" : "fp16", NULL);
}

int ds_skip_nonfinite(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "skip", NULL);
	return none(s, "a step that is not finite never changes a parameter");
}

int ds_bf16_master(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	int rc;
	if (json_is_true(s->value))
		rc = zr_import_put(im, s, k->to, "none", NULL);
	else
		rc = none(s, "off");
	if (rc)
		return rc;
	return partly(s, "updates are rounded stochastically, not to the nearest");
}

int ds_bf16_states(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "bf16", NULL);
	return none(s, "off");
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

int ds_comm_type(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const char *type = type_of(s->value);
	if (type)
		return zr_import_put(im, s, k->to, type, NULL);
	return zr_import_fate(s, ZR_FATE_REFUSED, "expected fp32, fp16 or bf16");
}

int ds_autocast(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const struct zr_setting *dtype = find(im, "torch_autocast.dtype");
	const char *type = dtype ? type_of(dtype->value) : "bf16";
	int rc;

	if (!json_is_true(s->value))
		return none(s, "off");
	if (!type)
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "expected \"dtype\": \"bfloat16\" or \"float16\"");

	rc = zr_import_put(im, s, k->to, type, NULL);
	if (rc)
		return rc;
	return partly(s, "parameters have 16 bits, too, beside an fp32 master");
}

int ds_log_level(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	static const char *const names[][2] = { { "debug", "debug" },    { "info", "info" },
						{ "warning", "warn" },   { "error", "error" },
						{ "critical", "error" }, { NULL, NULL } };

	for (int i = 0; names[i][0]; i++)
		if (zr_import_is(s->value, names[i][0]))
			return zr_import_put(im, s, k->to, names[i][1], NULL);
	return zr_import_fate(s, ZR_FATE_REFUSED,
			      "expected debug, info, warning, error or critical");
}

int ds_cpu_checkpointing(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	int rc;

	if (!json_is_true(s->value))
		return none(s, "off");

	rc = zr_import_put(im, s, k->to, "recompute", NULL);
	if (rc || is_same_memory(im, "cpu"))
		return rc ? rc :
			    partly(s, "with [device] plugin = cpu nothing leaves for host memory");
	return zr_import_put(im, s, "activation.outputs", "offload", NULL);
}

int ds_csv(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "csv", NULL);
	return none(s, "off");
}

int ds_csv_path(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	const char *dir = json_is_string(s->value) ? json_string_value(s->value) : "";
	char path[4096];
	int rc;

	if (!*dir)
		return none(s, "empty");

	snprintf(path, sizeof path, "%s%smetrics.csv", dir, dir[strlen(dir) - 1] == '/' ? "" : "/");
	rc = zr_import_put(im, s, k->to, path, NULL);
	if (rc)
		return rc;
	return partly(s, "one file with a column for each metric");
}

int ds_tensorboard(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (json_is_true(s->value))
		return zr_import_put(im, s, k->to, "tensorboard", NULL);
	return none(s, "off");
}

int ds_path(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (zr_import_is(s->value, ""))
		return none(s, "empty");
	return as_it_is(im, s, k->to);
}

int ds_steps_per_print(struct zr_import *im, struct zr_setting *s, const struct zr_import_key *k)
{
	if (im->source[0].kind != im->deepspeed)
		return none(s, "logging_steps says it: transformers turns this off");
	if (zr_import_number(s, 1) >= 1)
		return as_it_is(im, s, k->to);
	return none(s, "off");
}
