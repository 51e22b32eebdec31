/* SPDX-License-Identifier: Apache-2.0
 *
 * hf.c - see hf.h.
 */
#include "cmd/import/hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct zr_setting *beside(struct zr_import *im, const struct zr_setting *s, const char *key)
{
	return zr_import_find(im, s->from->kind, key);
}

/* Whether DeepSpeed's configuration has an optimizer, but this parameter of it is missing:
 * transformers fills in "auto" only, so that DeepSpeed's default counts. */
static int is_left_out(struct zr_import *im, const char *parameter)
{
	return zr_import_find(im, im->deepspeed, "optimizer.type") &&
	       !zr_import_find(im, im->deepspeed, parameter);
}

static const char left_out[] = "DeepSpeed's default counts: give its optimizer \"auto\"";

/* accelerate replaces an optimizer that it does not know on the host, as those of 8 bits. */
static int is_replaced(struct zr_import *im, const char *plugin, const char *states)
{
	const struct zr_setting *force =
		zr_import_find(im, im->deepspeed, "zero_force_ds_cpu_optimizer");
	return (states || !strcmp(plugin, "sgd")) && !(force && json_is_false(force->value));
}

IMPORT_MAP(hf_optimizer)
{
	static const struct {
		const char *name, *plugin, *states;
	} known[] = {
		{ "adamw_torch", "adamw", NULL },
		{ "adamw_torch_fused", "adamw", NULL },
		{ "adamw_hf", "adamw", NULL },
		{ "adamw_apex_fused", "adamw", NULL },
		{ "adamw_torch_xla", "adamw", NULL },
		{ "adamw_torch_npu_fused", "adamw", NULL },
		{ "adamw", "adamw", NULL },
		{ "adamw_8bit", "adamw", "8bit" },
		{ "adamw_bnb_8bit", "adamw", "8bit" },
		{ "adamw_torch_8bit", "adamw", "8bit" },
		{ "paged_adamw_32bit", "adamw", NULL },
		{ "paged_adamw", "adamw", NULL },
		{ "paged_adamw_8bit", "adamw", "8bit" },
		{ "lion_32bit", "lion", NULL },
		{ "lion_pytorch", "lion", NULL },
		{ "paged_lion_32bit", "lion", NULL },
		{ "lion_8bit", "lion", "8bit" },
		{ "paged_lion_8bit", "lion", "8bit" },
		{ "sgd", "sgd", NULL },
		{ "adagrad", "adagrad", NULL },
		{ NULL, NULL, NULL },
	};
	const char *name = zr_import_word(s);
	int i = 0, rc;
	if (zr_import_given(im, k->to))
		return zr_import_no_effect(s, "DeepSpeed's configuration names the optimizer");

	while (known[i].name && strcmp(known[i].name, name))
		i++;
	if (!known[i].name)
		return zr_import_impossible(
			s, "there is no such optimizer here: AdamW and Lion with states "
			   "of 32 or 8 bits, Adagrad and SGD are");

	const char *plugin = known[i].plugin;
	const int offloaded = !!zr_import_given(im, "offload.optimizer.plugin");
	if (!strcmp(plugin, "adamw") && offloaded)
		plugin = "cpu_adam"; /* where its state is */
	rc = zr_import_put(im, s, k->to, plugin, NULL);
	if (!rc && known[i].states)
		rc = zr_import_put(im, s, "optimizer.states", known[i].states, NULL);
	if (!rc && offloaded && is_replaced(im, plugin, known[i].states))
		return zr_import_differs(
			s, "accelerate replaces it, beside offload_optimizer, by "
			   "DeepSpeedCPUAdam with fp32 states and adamw_mode off; here it is "
			   "what optim says");
	if (rc || offloaded || strncmp(name, "paged", 5))
		return rc;
	return zr_import_differs(s, "states stay on the device; [offload.optimizer] takes them to "
				    "memory or disk");
}

IMPORT_MAP(hf_beside)
{
	return zr_import_fate(s, ZR_FATE_MAPPED, "with %s", k->text);
}

/* What updates: the name in the INI, or the default's. */
static const char *plugin_of(const struct zr_import *im)
{
	const char *plugin = zr_import_given(im, "optimizer.plugin");
	if (plugin)
		return plugin;
	return "adamw";
}

/* Whether the rate of the arguments reaches DeepSpeed's schedule alone, and not its optimizer. */
static int is_rate_of_schedule(struct zr_import *im)
{
	const struct zr_setting *max =
		zr_import_find(im, im->deepspeed, "scheduler.params.warmup_max_lr");
	return is_left_out(im, "optimizer.params.lr") && max && zr_import_is(max->value, "auto");
}

IMPORT_MAP(hf_learning_rate)
{
	if (!is_left_out(im, "optimizer.params.lr"))
		return zr_import_as_it_is(im, s, k->to);
	if (is_rate_of_schedule(im))
		return zr_import_as_it_is(im, s, "scheduler.warmup_max_lr");
	return zr_import_no_effect(s, left_out);
}

IMPORT_MAP(hf_epsilon)
{
	const struct zr_setting *name = beside(im, s, k->text);

	if (is_left_out(im, "optimizer.params.eps"))
		return zr_import_no_effect(s, left_out);
	if (strstr(zr_import_word(name), "lion") || strstr(zr_import_word(name), "sgd"))
		return zr_import_no_effect(s, "the optimizer has none");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(hf_weight_decay)
{
	if (is_left_out(im, "optimizer.params.weight_decay"))
		return zr_import_no_effect(s, left_out);

	int rc = zr_import_as_it_is(im, s, k->to);
	if (rc || zr_import_number(s, 0) == 0)
		return rc;
	return zr_import_differs(s, "biases and norms decay, too, unless "
				    "an [optimizer.NAME] gives them 0");
}

IMPORT_MAP(hf_clipping)
{
	if (im->n_sources > 1 && !zr_import_find(im, im->deepspeed, "gradient_clipping"))
		return zr_import_no_effect(
			s, "DeepSpeed clips, by its default: give it \"gradient_clipping\": "
			   "\"auto\"");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(hf_epochs)
{
	if (zr_import_number(beside(im, s, "max_steps"), -1) > 0)
		return zr_import_no_effect(s, "max_steps says how long");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(hf_max_steps)
{
	if (zr_import_number(s, -1) > 0)
		return zr_import_as_it_is(im, s, k->to);
	return zr_import_no_effect(s, "off: epochs say how long");
}

/* Without DeepSpeed fp16 has the loss scale of torch's GradScaler: it begins at 2^16, too. */
static int put_grad_scaler(struct zr_import *im)
{
	static const char note[] = "as torch's GradScaler";

	int rc = zr_import_put(im, NULL, "precision.loss_scale_window", "2000", note);
	if (!rc)
		rc = zr_import_put(im, NULL, "precision.hysteresis", "1", note);
	if (rc)
		return rc;
	return zr_import_put(im, NULL, "precision.on_nonfinite", "skip", note);
}

IMPORT_MAP(hf_precision)
{
	if (!zr_import_is_on(im, s->from->kind, s->path))
		return zr_import_no_effect(s, "off");

	int rc = zr_import_put(im, s, k->to, k->text, NULL);
	if (rc || strcmp(k->text, "fp16") || im->n_sources > 1)
		return rc;
	return put_grad_scaler(im);
}

IMPORT_MAP(hf_tf32)
{
	if (strcmp(im->device, "cuda"))
		return zr_import_no_effect(s, "of GPUs");
	return zr_import_as_it_is(im, s, k->to);
}

IMPORT_MAP(hf_recompute)
{
	if (json_is_false(s->value) || json_is_null(s->value))
		return zr_import_no_effect(s, "off");
	if (strcmp(zr_import_word(s), "offload") && strcmp(zr_import_word(s), "offload_disk"))
		return zr_import_put(im, s, k->to, "recompute", NULL);

	int rc = zr_import_put(im, s, k->to, "recompute", NULL);
	if (rc)
		return rc;
	if (!strcmp(im->device, "cpu"))
		return zr_import_differs(
			s, "with [device] plugin = cpu nothing leaves for host memory");
	return zr_import_put(im, s, "activation.outputs", "offload", NULL);
}

IMPORT_MAP(hf_count)
{
	const double n = zr_import_number(s, 1);
	if (n > 0 && n < 1)
		return zr_import_impossible(s, "give a number of steps, not a share of them");
	if (n <= 0)
		return zr_import_no_effect(s, "off");
	return zr_import_as_it_is(im, s, k->to);
}

int hf_put_share(struct zr_import *im, struct zr_setting *s, const char *to, double share,
		 const char *note)
{
	char *text = NULL, ratio[64];
	json_t *value = json_real(share);
	int rc = value ? zr_import_text(value, &text) : ZR_ENOMEM;

	snprintf(ratio, sizeof ratio, "%s_ratio", to);
	if (!rc)
		rc = zr_import_put(im, s, ratio, text, note);

	json_decref(value);
	free(text);
	return rc;
}

/* How many epochs the arguments, or Axolotl's file, ask for. */
static double epochs_of(struct zr_import *im)
{
	const struct zr_import_kind *kind = im->source[0].kind;
	return zr_import_number(zr_import_find(im, kind, kind->epochs), kind->epochs_default);
}

int hf_put_each_epoch(struct zr_import *im, struct zr_setting *s, const char *to, const char *note)
{
	const struct zr_setting *most = zr_import_find(im, im->source[0].kind, "max_steps");
	const double epochs = epochs_of(im);

	if (s && zr_import_number(most, -1) > 0)
		return zr_import_impossible(s,
					    "how many steps an epoch has depends on the data, and "
					    "max_steps says how long: give a number of steps");
	if (s && epochs > 1 && epochs != floor(epochs))
		return zr_import_fate(s, ZR_FATE_REFUSED,
				      "%g epochs are not whole: an epoch is no even share of their "
				      "steps: give a number of steps",
				      epochs);

	/* Shares that are no binary fractions are a little less, so that a run's steps, of which an
	 * epoch has exactly this part, do not round up to one more. */
	const double parts = zr_import_number(most, -1) > 0 ? 1 : fmax(1, floor(epochs));
	return hf_put_share(im, s, to, floor(1e12 / parts) / 1e12, note);
}

/* A number of steps, or a share of all of them. */
static int steps_or_share(struct zr_import *im, struct zr_setting *s, const char *to)
{
	const double n = zr_import_number(s, 1);
	if (n <= 0)
		return zr_import_no_effect(s, "off");
	if (n < 1)
		return hf_put_share(im, s, to, n, NULL);
	return zr_import_as_it_is(im, s, to);
}

IMPORT_MAP(hf_save_steps)
{
	const char *when = zr_import_word(beside(im, s, "save_strategy"));
	if (*when && strcmp(when, "steps"))
		return zr_import_no_effect(s, "save_strategy says when");
	return steps_or_share(im, s, k->to);
}

IMPORT_MAP(hf_save_strategy)
{
	if (zr_import_is(s->value, "steps"))
		return zr_import_fate(s, ZR_FATE_MAPPED, "with save_steps");
	if (zr_import_is(s->value, "no") || json_is_false(s->value))
		return zr_import_put(im, s, k->to, "0", NULL);
	if (zr_import_is(s->value, "best"))
		return zr_import_put(im, s, "checkpoint.keep_best", "yes", NULL);
	if (!zr_import_is(s->value, "epoch"))
		return zr_import_impossible(s, "expected no, steps, epoch or best");
	return hf_put_each_epoch(im, s, k->to, NULL);
}

IMPORT_MAP(hf_eval_steps)
{
	const struct zr_setting *given = beside(im, s, "eval_strategy");
	if (!given)
		given = beside(im, s, "evaluation_strategy");
	const char *when = zr_import_word(given);
	if (*when && strcmp(when, "steps"))
		return zr_import_no_effect(s, "eval_strategy says when");
	if (!given && !s->from->kind->steps_evaluate)
		return zr_import_no_effect(s, "eval_strategy is no where it is not given");
	return steps_or_share(im, s, k->to);
}

/* Without eval_steps transformers takes logging_steps, and its default. */
static int eval_by_steps(struct zr_import *im, struct zr_setting *s, const char *to)
{
	struct zr_setting *logging = beside(im, s, "logging_steps");

	if (beside(im, s, "eval_steps") || beside(im, s, "evals_per_epoch"))
		return zr_import_fate(s, ZR_FATE_MAPPED, "with eval_steps");
	if (logging && zr_import_number(logging, 0) >= 1) {
		char *text = NULL;
		int rc = zr_import_text(logging->value, &text);
		if (!rc)
			rc = zr_import_put(im, s, to, text, NULL);
		free(text);
		return rc;
	}

	if (logging || s->from->kind->steps_evaluate)
		return zr_import_impossible(s, "give eval_steps, a number of steps");
	return zr_import_put(im, s, to, "500", NULL);
}

IMPORT_MAP(hf_eval_strategy)
{
	if (zr_import_is(s->value, "steps"))
		return eval_by_steps(im, s, k->to);
	if (zr_import_is(s->value, "no") || json_is_false(s->value))
		return zr_import_put(im, s, k->to, "0", NULL);
	if (!zr_import_is(s->value, "epoch"))
		return zr_import_impossible(s, "expected no, steps or epoch");
	return hf_put_each_epoch(im, s, k->to, NULL);
}

IMPORT_MAP(hf_model)
{
	if (im->model)
		return zr_import_no_effect(s, "--model says it");

	int rc = zr_import_as_it_is(im, s, k->to);
	if (rc)
		return rc;
	return zr_import_differs(s, "a directory on this machine: nothing is downloaded");
}

IMPORT_MAP(hf_yes)
{
	if (zr_import_is_on(im, s->from->kind, s->path))
		return zr_import_put(im, s, k->to, k->text, NULL);
	return zr_import_no_effect(s, "off");
}

/* TRL's masks have the white space behind an answer, too. */
IMPORT_MAP(hf_learned)
{
	int rc = hf_yes(im, s, k);

	if (rc || !zr_import_is_on(im, s->from->kind, s->path))
		return rc;
	return zr_import_put(im, s, "data.mask", "trl", NULL);
}

IMPORT_MAP(hf_monitors)
{
	char *text = NULL;

	int rc = zr_import_text(s->value, &text);
	if (rc)
		return rc;

	const int off = !*text || !strcmp(text, "none");
	const int tensorboard = strstr(text, "tensorboard") || !strcmp(text, "all");
	free(text);
	if (tensorboard)
		return zr_import_put(im, s, "monitor.tensorboard.plugin", "tensorboard", NULL);
	if (off)
		return zr_import_no_effect(s, "off");
	return zr_import_no_effect(
		s, "a run writes metrics.jsonl; use tensorboard, which `wandb sync` reads");
}

IMPORT_MAP(hf_fsdp)
{
	char *text = NULL;

	int rc = zr_import_text(s->value, &text);
	if (rc)
		return rc;

	const char *stage = "stage3";
	if (strstr(text, "hybrid_shard"))
		stage = "hpz";
	else if (strstr(text, "shard_grad_op"))
		stage = "stage2";
	else if (strstr(text, "no_shard"))
		stage = "stage0";
	const int off = !*text || !strcmp(text, "no"), offload = !!strstr(text, "offload");
	free(text);
	if (off)
		return zr_import_no_effect(s, "off");

	rc = zr_import_put(im, s, k->to, stage, NULL);
	if (rc || !offload)
		return rc;
	if (!strcmp(im->device, "cpu"))
		return zr_import_differs(
			s, "device and host are one memory with [device] plugin = cpu");

	rc = zr_import_put(im, s, "offload.optimizer.plugin", "cpu", NULL);
	if (rc || strcmp(stage, "stage3"))
		return rc;
	return zr_import_put(im, s, "offload.param.plugin", "cpu", NULL);
}

static int finish_betas(struct zr_import *im, const struct hf_names *n)
{
	struct zr_setting *one = zr_import_find(im, n->kind, "adam_beta1");
	struct zr_setting *two = zr_import_find(im, n->kind, "adam_beta2");
	const char *plugin = plugin_of(im);
	char text[64];
	const int given = !!zr_import_given(im, "optimizer.betas");
	const int missing = is_left_out(im, "optimizer.params.betas");
	const char *why = "the optimizer has none";
	if (missing)
		why = left_out;
	else if (given)
		why = "DeepSpeed's configuration says them";

	if (!one && !two)
		return 0;
	if (missing || given || !strstr("adamw cpu_adam lion lamb", plugin)) {
		int rc = one ? zr_import_no_effect(one, why) : 0;
		return rc || !two ? rc : zr_import_no_effect(two, why);
	}

	snprintf(text, sizeof text, "%.15g, %.15g", zr_import_number(one, 0.9),
		 zr_import_number(two, 0.999));
	return zr_import_put(im, one ? one : two, "optimizer.betas", text, NULL);
}

int hf_finish(struct zr_import *im, const struct hf_names *n)
{
	int rc = finish_betas(im, n);
	if (!rc)
		rc = hf_finish_schedule(im, n);
	for (int i = 0; !rc && n->defaults[i][0]; i++) {
		const char *to = n->defaults[i][0];
		char ratio[80];
		if (!strcmp(to, "optimizer.lr") && is_rate_of_schedule(im))
			to = "scheduler.warmup_max_lr";
		snprintf(ratio, sizeof ratio, "%s_ratio", to);
		if (!zr_import_given(im, to) && !zr_import_given(im, ratio))
			rc = zr_import_put(im, NULL, to, n->defaults[i][1], n->note);
	}

	return rc;
}
