/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - zeroth schedule CONF --steps N: the learning rates of the first N updates. Needs the
 * plugins of CONF, but neither its data nor its model.
 */
#include <math.h>
#include <stdio.h>
#include <zeroth/scheduler.h>

#include "cmd/cmd.h"
#include "core/config/options.h"
#include "core/plugin/host.h"

struct schedule_args {
	const char *overrides[ZR_CMD_OVERRIDES];
	int n_overrides;
	int64_t steps; /* 0: not given */
};

static const struct zr_cmd_option options[] = {
	{ 'n', "steps", "N", "default: [train] steps; with epochs, these are N",
	  .kind = ZR_CMD_WHOLE, .at = offsetof(struct schedule_args, steps), .least = 1,
	  .counts = "a number of steps" },
	ZR_CMD_OPTION_SET(struct schedule_args,
			  "sets an option over CONF; the last of several wins"),
	{ 0 },
};

const struct zr_cmd_usage zr_schedule_usage = {
	.command = "schedule",
	.form = { { NULL, "CONF", NULL } },
	.about = "Prints `step,lr` for each of the first N updates, as the scheduler of CONF "
		 "gives it.\n"
		 "step counts the updates before: 0 is that of step 1 of a training.\n",
	.option = options,
};

static int base_lr(const struct zr_config *cfg, double *lr, struct zr_error *err)
{
	const struct zr_section *sec = zr_config_find(cfg, "optimizer");

	const struct zr_opt *o = zr_table_find(&sec->table, "lr");
	if (!o || o->type != ZR_T_F64)
		return zr_err(
			err, ZR_EINVAL,
			"optimizer %s declares no option lr of type number, which the scheduler "
			"drives",
			sec->plugin->desc->id);

	*lr = *(const double *)((const char *)sec->opts + o->offset);
	return 0;
}

static int print_rows(struct zr_instance *it, int64_t steps, int64_t total, double base,
		      struct zr_error *err)
{
	const struct zr_scheduler_v1 *sched = it->vtbl;
	struct zr_sched_point at = { .size = sizeof at, .total_steps = total, .base = base };
	double lr;

	puts("step,lr");
	for (at.step = 0; at.step < steps; at.step++) {
		int rc = sched->value(it->inst, &at, &lr);
		if (rc)
			return zr_instance_failed(it, rc, "value", err);
		if (!isfinite(lr) || lr < 0)
			return zr_err(err, ZR_EINVAL, "scheduler %s gives %g at step %lld",
				      it->section->plugin->desc->id, lr, (long long)at.step);

		printf("%lld,%.9g\n", (long long)at.step, lr);
	}

	return 0;
}

static int schedule(struct zr_config *cfg, int64_t steps, struct zr_error *err)
{
	const struct zr_train_opts *train = zr_config_find(cfg, "train")->opts;
	int64_t total = (int64_t)train->steps;
	struct zr_process process = { .world = 1, .local_world = 1 };
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1, .steps = total };
	struct zr_instance it = { 0 };

	if (train->epochs > 0 && !steps)
		return zr_err(err, ZR_EINVAL,
			      "[train] epochs = %g: how many steps that is the "
			      "data says, which is not read here: give --steps N",
			      train->epochs);
	if (train->epochs > 0)
		total = facts.steps = steps;
	int rc = base_lr(cfg, &facts.lr, err);
	if (!rc)
		rc = zr_config_resolve(cfg, "scheduler", &facts, err);
	if (!rc)
		rc = zr_instance_create(&it, &process, zr_config_find(cfg, "scheduler"),
					"zr.scheduler/1", err);
	if (!rc)
		rc = print_rows(&it, steps ? steps : total, total, facts.lr, err);
	zr_instance_destroy(&it);
	return rc;
}

int zr_cmd_schedule(int argc, char **argv)
{
	struct schedule_args a = { 0 };
	struct zr_cmd_operands operands;
	struct zr_config *cfg = NULL;
	struct zr_error err = { 0 };

	int rc = zr_cmd_parse(argc, argv, &zr_schedule_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;

	rc = zr_config_load(operands.at[0], a.overrides, a.n_overrides, &cfg, &err);
	if (!rc)
		rc = schedule(cfg, a.steps, &err);
	zr_config_free(cfg);
	return rc ? zr_cmd_failed(&err) : 0;
}
