/* SPDX-License-Identifier: Apache-2.0
 *
 * fp16.c - parameters and activations in fp16 over an fp32 master, and a loss scale that keeps
 * gradients above fp16's smallest numbers: fixed, or DeepSpeed's dynamic one, which climbs until
 * gradients overflow.
 *
 *   overflow the step is skipped; if r = 1 the scale is halved, down to min_loss_scale at least,
 *   else r falls by 1
 *   else after every loss_scale_window further steps since the last overflow the scale doubles and
 *   r = hysteresis;
 *              with consecutive_hysteresis r = hysteresis after every step
 *
 * r is the record's hysteresis, at first the option's; halving does not refill it. An overflow that
 * would halve the scale at its floor is what on_nonfinite is about, and so is every overflow under
 * a fixed scale.
 */
#include <zeroth/precision.h>

#include <math.h>
#include <stdlib.h>

#include "plugins/descriptor.h"

enum { ON_STOP, ON_SKIP };
static const char *const choices[] = { "stop", "skip", NULL };

struct fp16_opts {
	double loss_scale;
	int64_t initial_scale_power;
	int64_t loss_scale_window;
	int64_t hysteresis;
	uint8_t consecutive_hysteresis;
	double min_loss_scale;
	int32_t on_nonfinite;
};

#define MOST_POWER 126 /* of a scale in fp32 */
#define POWER      16
#define WINDOW     1000
#define HYSTERESIS 2
#define FLOOR      1
#define TEXT_(x)   #x
#define TEXT(x)    TEXT_(x)

static const struct zr_opt options[] = {
	ZR_OPT(struct fp16_opts, loss_scale, ZR_T_F64, ZR_O_NUMERIC, "0", 0, 0x1p126, "",
	       "Factor of the loss and so of all gradients, taken out again before the update; 0 "
	       "is a dynamic one."),
	ZR_OPT(struct fp16_opts, initial_scale_power, ZR_T_I64, ZR_O_NUMERIC, TEXT(POWER), 0,
	       MOST_POWER, "", "A dynamic scale starts at 2 to this power."),
	ZR_OPT(struct fp16_opts, loss_scale_window, ZR_T_I64, ZR_O_NUMERIC, TEXT(WINDOW), 1, ZR_HI,
	       "steps", "Steps without overflow after which a dynamic scale doubles."),
	ZR_OPT(struct fp16_opts, hysteresis, ZR_T_I64, ZR_O_NUMERIC, TEXT(HYSTERESIS), 1, ZR_HI,
	       "steps",
	       "The overflow of this number halves a dynamic scale; those before it only skip "
	       "their step."),
	ZR_OPT(struct fp16_opts, consecutive_hysteresis, ZR_T_BOOL, ZR_O_NUMERIC, "no", 0, 0, "",
	       "Count overflows anew after every step without one, instead of when the scale "
	       "doubles."),
	ZR_OPT(struct fp16_opts, min_loss_scale, ZR_T_F64, ZR_O_NUMERIC | ZR_O_MIN_OPEN,
	       TEXT(FLOOR), 0, 0x1p126, "", "The floor of a dynamic scale."),
	ZR_OPT_ENUM(struct fp16_opts, on_nonfinite, ZR_O_NUMERIC, "stop", choices,
		    "What an overflow does if the scale cannot fall, at its floor or because it is "
		    "fixed: end the run, or skip the step."),
};

struct zr_inst {
	const struct fp16_opts *o;
};

static int fp16_info(struct zr_inst *inst, struct zr_precision_info *info)
{
	(void)inst;
	info->dtype = ZR_F16;
	info->comm_dtype = ZR_F32;
	info->scaled = 1;
	return ZR_OK;
}

static int fp16_start(struct zr_inst *inst, struct zr_scale *s)
{
	const struct fp16_opts *o = inst->o;
	double scale;

	if (o->loss_scale > 0)
		scale = o->loss_scale;
	else
		scale = ldexp(1, (int)o->initial_scale_power);
	*s = (struct zr_scale){ .scale = scale, .last_overflow = -1, .hysteresis = o->hysteresis };
	return ZR_OK;
}

static void fall(const struct fp16_opts *o, struct zr_scale *s, int32_t *action)
{
	int fixed = o->loss_scale > 0;

	*action = ZR_STEP_SKIP;
	s->last_overflow = s->step;
	if (!fixed && s->hysteresis > 1)
		s->hysteresis--;
	else if (!fixed && s->scale > o->min_loss_scale)
		s->scale = fmax(s->scale / 2, o->min_loss_scale);
	else if (o->on_nonfinite == ON_STOP)
		*action = ZR_STEP_STOP;
}

static void climb(const struct fp16_opts *o, struct zr_scale *s)
{
	int64_t calm = s->step - s->last_overflow - 1;
	int doubles = calm > 0 && calm % o->loss_scale_window == 0;
	if (o->consecutive_hysteresis || doubles)
		s->hysteresis = o->hysteresis;
	if (doubles)
		s->scale *= 2;
}

static int fp16_next(struct zr_inst *inst, struct zr_scale *s, int32_t overflow, int32_t *action)
{
	const struct fp16_opts *o = inst->o;

	*action = ZR_STEP_APPLY;
	if (overflow)
		fall(o, s, action);
	else if (!(o->loss_scale > 0))
		climb(o, s);
	s->step++;
	return ZR_OK;
}

/* The first option of a dynamic scale that is not at its default, or NULL. */
static const char *changed(const struct fp16_opts *o)
{
	if (o->initial_scale_power != POWER)
		return "initial_scale_power";
	if (o->loss_scale_window != WINDOW)
		return "loss_scale_window";
	if (o->hysteresis != HYSTERESIS)
		return "hysteresis";
	if (o->consecutive_hysteresis)
		return "consecutive_hysteresis";

	return o->min_loss_scale != FLOOR ? "min_loss_scale" : NULL;
}

static int fp16_check(const struct zr_host *h, const void *opts)
{
	const struct fp16_opts *o = opts;
	const char *dead = changed(o);
	double first = ldexp(1, (int)o->initial_scale_power);

	if (o->loss_scale > 0 && dead)
		return zr_fail(
			h, ZR_EINVAL,
			"loss_scale = %g is fixed, so %s does nothing: drop it, or set loss_scale "
			"= 0",
			o->loss_scale, dead);
	if (!(o->loss_scale > 0) && first < o->min_loss_scale)
		return zr_fail(
			h, ZR_EINVAL,
			"initial_scale_power = %lld starts the scale at %g, below min_loss_scale = "
			"%g",
			(long long)o->initial_scale_power, first, o->min_loss_scale);

	return ZR_OK;
}

static int fp16_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->o = opts;
	*out = inst;
	return ZR_OK;
}

static void fp16_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_precision_v1 vtbl = {
	.size = sizeof vtbl,
	.info = fp16_info,
	.start = fp16_start,
	.next = fp16_next,
};

PLUGIN(precision, "fp16", &vtbl, .version = "1",
       .summary = "Parameters and activations in fp16 over an fp32 master, with a loss scale.",
       PLUGIN_OPTIONS(struct fp16_opts, options), .check = fp16_check, .create = fp16_create,
       .destroy = fp16_destroy);
