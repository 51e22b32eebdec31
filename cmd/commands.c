/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.c - the table of all subcommands.
 */
#include "cmd/cmd.h"

const struct zr_command zr_commands[] = {
	{ "train", "train a model", zr_cmd_train, &zr_train_usage },
	{ "launch", "train a model on several machines", zr_cmd_launch, &zr_launch_usage },
	{ "tokenize", "turn text into the tokens of a tokenizer.json", zr_cmd_tokenize,
	  &zr_tokenize_usage },
	{ "eval", "measure how well a model predicts what is held out", zr_cmd_eval,
	  &zr_eval_usage },
	{ "report", "write a page of runs: curves, time, memory, differences", zr_cmd_report,
	  &zr_report_usage },
	{ "watch", "show a run in the terminal while it trains", zr_cmd_watch, &zr_watch_usage },
	{ "sample", "print text that a trained model continues", zr_cmd_sample, &zr_sample_usage },
	{ "plan", "show the memory that a training will take", zr_cmd_plan, &zr_plan_usage },
	{ "config", "check, show, compare or import configurations", zr_cmd_config,
	  &zr_config_usage },
	{ "data", "show what a training will learn from", zr_cmd_data, &zr_data_usage },
	{ "plugin", "list plugins, or show the options of one", zr_cmd_plugin, &zr_plugin_usage },
	{ "checkpoint", "list, verify, export, import or prune checkpoints", zr_cmd_checkpoint,
	  &zr_checkpoint_usage },
	{ "doctor", "show what this machine lacks for training, and what mends it", zr_cmd_doctor,
	  &zr_doctor_usage },
	{ "bench", "measure what this machine can do, for forecasts", zr_cmd_bench,
	  &zr_bench_usage },
	{ "schedule", "print the learning rate of every step", zr_cmd_schedule,
	  &zr_schedule_usage },
	{ "completion", "complete commands in a shell", zr_cmd_completion, &zr_completion_usage },
};
const int zr_n_commands = sizeof zr_commands / sizeof *zr_commands;
_Static_assert(sizeof zr_commands / sizeof *zr_commands <= ZR_COMMANDS, "raise ZR_COMMANDS");
