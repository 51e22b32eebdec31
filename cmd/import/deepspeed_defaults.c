/* SPDX-License-Identifier: Apache-2.0
 *
 * deepspeed_defaults.c - what DeepSpeed does where its file says nothing, if zeroth would do
 * otherwise, or if versions of DeepSpeed differ in it. Source: DeepSpeed 0.19.6.
 */
#include "cmd/import/deepspeed.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT "DeepSpeed's default"

static struct zr_setting *find(struct zr_import *im, const char *path)
{
	return zr_import_find(im, im->deepspeed, path);
}

/* Adds a line for a setting that is missing. One that is auto is not: the arguments say it. */
static int put_missing(struct zr_import *im, const char *path, const char *to, const char *value,
		       const char *note)
{
	if (find(im, path))
		return 0;
	return zr_import_put(im, NULL, to, value, note);
}

/* Of the three sizes of a batch, two are enough; with all of them the number of ranks would be
 * fixed. */
static int finish_batch(struct zr_import *im)
{
	const long long all = zr_import_given_count(im, "train.train_batch_size");
	const long long micro = zr_import_given_count(im, "train.micro_batch_size");
	const long long steps = zr_import_given_count(im, "train.gradient_accumulation_steps");
	const long long share = zr_import_given_count(im, "train.sequence_ranks");

	struct zr_setting *s = find(im, "train_batch_size");
	if (s && all && micro && steps) {
		zr_import_drop(im, "train.train_batch_size");
		if (all % (micro * steps))
			return zr_import_impossible(
				s, "no multiple of the other two; drop one of the three");
		return zr_import_fate(s, ZR_FATE_PARTLY, "it is that with `-n %lld`",
				      all / micro / steps * (share ? share : 1));
	}

	if (all || micro || im->source[0].kind != im->deepspeed)
		return 0;
	return zr_import_change(im, "train.micro_batch_size", "1", "no size was given: choose one");
}

/* Training arguments reach a parameter by "auto" only, so that beside them all of DeepSpeed's
 * defaults need a line. */
static int has_arguments(const struct zr_import *im)
{
	return im->source[0].kind != im->deepspeed;
}

/* Of both groups: AdamW's options are other ones beside Muon. */
static int finish_muon(struct zr_import *im)
{
	static const char *const defaults[][4] = {
		{ "lr", "adam_lr", "optimizer.lr", "0.0003" },
		{ "betas", "betas", "optimizer.betas", "0.9, 0.95" },
		{ "eps", "eps", "optimizer.eps", "1e-10" },
		{ "weight_decay", "weight_decay", "optimizer.weight_decay", "0" },
		{ "lr", "muon_lr", "optimizer.matrices.lr", "0.02" },
		{ "ns_method", "ns_method", "optimizer.matrices.method", "gram" },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof defaults / sizeof *defaults && !rc; i++) {
		const char *const *d = defaults[i];
		char either[64], own[64];
		snprintf(either, sizeof either, "optimizer.params.%s", d[0]);
		snprintf(own, sizeof own, "optimizer.params.%s", d[1]);
		if (!find(im, either))
			rc = put_missing(im, own, d[2], d[3], DEFAULT);
	}
	return rc;
}

static int finish_optimizer(struct zr_import *im)
{
	const char *plugin = zr_import_given(im, "optimizer.plugin");
	int rc = 0;

	if (!plugin || !find(im, "optimizer.type"))
		return 0;

	if (ds_has_muon(im))
		return finish_muon(im);

	const int lion = !strcmp(plugin, "lion");
	const int l2 = !!zr_import_given(im, "optimizer.adamw_mode");
	const int adamw = !strcmp(plugin, "adamw") || (!strcmp(plugin, "cpu_adam") && !l2);
	if (lion || has_arguments(im))
		rc = put_missing(im, "optimizer.params.lr", "optimizer.lr",
				 strcmp(plugin, "adagrad") ? "0.001" : "0.01", DEFAULT);
	if (!rc && lion)
		rc = put_missing(im, "optimizer.params.betas", "optimizer.betas", "0.9, 0.999",
				 DEFAULT);
	if (!rc && adamw && zr_import_is_on(im, im->deepspeed, "optimizer.params.torch_adam"))
		rc = put_missing(im, "optimizer.params.weight_decay", "optimizer.weight_decay",
				 "0.01", "the default of torch's AdamW");
	return rc;
}

/* OneCycle moves the first beta against the learning rate and makes the second one 0.99, unless
 * cycle_momentum is false or the optimizer has no betas. A missing one is refused as true is. */
static int finish_momentum(struct zr_import *im)
{
	const char *optimizer = zr_import_given(im, "optimizer.plugin");
	struct zr_setting *s = find(im, "scheduler.params.cycle_momentum");

	const int betas = !optimizer || !strstr("adagrad sgd", optimizer);
	if (!betas)
		return s ? zr_import_no_effect(s, "the optimizer has no betas") : 0;
	if (s)
		return 0;
	return zr_import_fate(find(im, "scheduler.type"), ZR_FATE_REFUSED,
			      "OneCycle moves betas by default, and here they stay as they "
			      "are; set cycle_momentum to false");
}

static int finish_scheduler(struct zr_import *im)
{
	const char *plugin = zr_import_given(im, "scheduler.plugin");
	int rc = 0;

	if (!plugin || !find(im, "scheduler.type"))
		return 0;
	if (!strcmp(plugin, "warmup_lr"))
		rc = put_missing(im, "scheduler.params.warmup_max_lr", "scheduler.warmup_max_lr",
				 "auto", DEFAULT " since 0.17.2; 0.001 before");
	if (!strcmp(plugin, "warmup_decay_lr"))
		rc = put_missing(im, "scheduler.params.warmup_max_lr", "scheduler.warmup_max_lr",
				 "0.001", DEFAULT);
	if (!strcmp(plugin, "lr_range_test"))
		rc = put_missing(im, "scheduler.params.lr_range_test_min_lr",
				 "scheduler.lr_range_test_min_lr", "0.001", DEFAULT);
	if (!strcmp(plugin, "one_cycle"))
		rc = finish_momentum(im);
	if (!rc && !strncmp(plugin, "warmup", 6) && has_arguments(im))
		rc = put_missing(im, "scheduler.params.warmup_num_steps",
				 "scheduler.warmup_num_steps", "1000", DEFAULT);
	return rc;
}

/* With bf16 stages 1 and 2 leave out steps that are not finite, unless told otherwise. */
static int finish_bf16(struct zr_import *im, const char *stage)
{
	if (!strstr("stage1 stage2", stage) || find(im, "bf16.check_overflow"))
		return 0;
	return put_missing(im, "bf16.check_grad_overflow", "precision.on_nonfinite", "skip",
			   DEFAULT);
}

/* With fp16 steps that overflow are left out, but in stages 1 to 3 a dynamic scale at its floor
 * ends the run. In stage 0 each overflow makes a dynamic scale smaller. */
static int finish_fp16(struct zr_import *im, const char *stage)
{
	const char *scale = zr_import_given(im, "precision.loss_scale");
	const int dynamic = !scale || !(strtod(scale, NULL) > 0), none = !strcmp(stage, "stage0");
	struct zr_setting *hysteresis = find(im, "fp16.hysteresis");
	int rc = 0;

	if (!dynamic || none)
		rc = zr_import_put(im, NULL, "precision.on_nonfinite", "skip",
				   "DeepSpeed leaves the step out and goes on");
	if (rc || !dynamic || !none)
		return rc;
	if (hysteresis)
		rc = zr_import_no_effect(hysteresis, "stage 0 of DeepSpeed has none");
	if (rc)
		return rc;
	return zr_import_change(im, "precision.hysteresis", "1", "as in stage 0 of DeepSpeed");
}

static int finish_precision(struct zr_import *im)
{
	const char *plugin = zr_import_given(im, "precision.plugin");

	const char *stage = zr_import_given(im, "zero.plugin");
	if (!stage)
		stage = "stage0";
	if (plugin && !strcmp(plugin, "bf16"))
		return finish_bf16(im, stage);
	if (plugin && !strcmp(plugin, "fp16"))
		return finish_fp16(im, stage);
	return 0;
}

/* Gradients of ranks that share sequences are summed in fp32, whatever communication_data_type
 * says. */
static int finish_sequences(struct zr_import *im)
{
	if (!zr_import_is_shared(im))
		return 0;
	return put_missing(im, "seq_parallel_communication_data_type",
			   "train.communication_data_type", "fp32",
			   DEFAULT " where ranks share sequences");
}

int ds_finish(struct zr_import *im)
{
	int rc = finish_batch(im);
	if (!rc)
		rc = finish_sequences(im);
	if (!rc)
		rc = finish_optimizer(im);
	if (!rc)
		rc = finish_scheduler(im);
	if (!rc)
		rc = finish_precision(im);
	if (rc)
		return rc;
	return put_missing(im, "gradient_clipping", "train.gradient_clipping", "1",
			   DEFAULT " since 0.19.3; 0 (off) before");
}
