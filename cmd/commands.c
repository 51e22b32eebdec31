/* SPDX-License-Identifier: Apache-2.0
 *
 * commands.c - the table of all subcommands.
 */
#include "cmd/cmd.h"

const struct zr_command zr_commands[] = {
	{ "train", "train a model", zr_cmd_train },
	{ "tokenize", "turn text into the tokens of a tokenizer.json", zr_cmd_tokenize },
	{ "eval", "measure how well a model predicts what is held out", zr_cmd_eval },
	{ "report", "write a page of runs: curves, time, memory, differences", zr_cmd_report },
	{ "watch", "show a run in the terminal while it trains", zr_cmd_watch },
	{ "sample", "print text that a trained model continues", zr_cmd_sample },
	{ "plan", "show the memory that a training will take", zr_cmd_plan },
	{ "config", "check, show, compare or import configurations", zr_cmd_config },
	{ "data", "show what a training will learn from", zr_cmd_data },
	{ "plugin", "list plugins, or show the options of one", zr_cmd_plugin },
	{ "checkpoint", "list, verify, export or prune checkpoints", zr_cmd_checkpoint },
	{ "doctor", "show what this machine lacks for training, and what mends it", zr_cmd_doctor },
	{ "bench", "measure what this machine can do, for forecasts", zr_cmd_bench },
	{ "schedule", "print the learning rate of every step", zr_cmd_schedule },
	{ "completion", "complete commands in a shell", zr_cmd_completion },
};
const int zr_n_commands = sizeof zr_commands / sizeof *zr_commands;
_Static_assert(sizeof zr_commands / sizeof *zr_commands <= ZR_COMMANDS, "raise ZR_COMMANDS");
