/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd.h - what the subcommands share. Each subcommand returns the exit code of the process; argv[0]
 * is its name.
 */
#ifndef ZR_CMD_H
#define ZR_CMD_H

#include "cmd/options.h"
#include "core/config/config.h"

#define ZR_CMD_OVERRIDES 128

/* What most commands take: a configuration, -o over it, and two options. */
struct zr_cmd_args {
	const char *operand; /* NULL if none was given */
	const char *overrides[ZR_CMD_OVERRIDES];
	int n_overrides;
	int json;
	int ranks; /* 0 if not given */
};

/* Rows of the tables of options of commands: `type` has members as those above. */
#define ZR_CMD_OPTION_SET(type, text)                                                              \
	{                                                                                          \
		'o', "option", "section.key=value", text,                                          \
			.kind = ZR_CMD_LIST, .at = offsetof(type, overrides),                      \
			.most = ZR_CMD_OVERRIDES, .count = offsetof(type, n_overrides)             \
	}
#define ZR_CMD_OPTION_RANKS(type, text, most_ranks)                                                \
	{                                                                                          \
		'n', "ranks", "RANKS", text, .kind = ZR_CMD_INT, .at = offsetof(type, ranks),      \
					     .least = 1, .most = most_ranks,                       \
					     .counts = "a number of ranks"                         \
	}
#define ZR_CMD_OPTION_JSON(type, text)                                                             \
	{                                                                                          \
		0, "json", NULL, text, .kind = ZR_CMD_FLAG, .at = offsetof(type, json)             \
	}

/* args.c: refuses an operand that is no INI, but another program's configuration, or, if it must be
 * a file, a directory. Returns 0, or 2 after a line. */
int zr_cmd_check_conf(const char *path, int is_file);

/* Prints "zeroth: text" as the one line of an error to stderr and returns its exit code. */
int zr_cmd_failed(const struct zr_error *err);

/* Applies [log]. */
void zr_cmd_log(const struct zr_config *cfg);

/* Prints every value and its source as JSON: `config show --json`. 0 or -1. */
int zr_cmd_config_json(const struct zr_config *cfg);

/* commands.c: what `zeroth --help` lists, in this order. */
#define ZR_COMMANDS 32
struct zr_command {
	const char *name, *summary;
	int (*run)(int argc, char **argv);
	const struct zr_cmd_usage *usage;
};
extern const struct zr_command zr_commands[];
extern const int zr_n_commands;

extern const struct zr_cmd_usage zr_train_usage;
extern const struct zr_cmd_usage zr_launch_usage;
extern const struct zr_cmd_usage zr_sample_usage;
extern const struct zr_cmd_usage zr_eval_usage;
extern const struct zr_cmd_usage zr_report_usage;
extern const struct zr_cmd_usage zr_watch_usage;
extern const struct zr_cmd_usage zr_plan_usage;
extern const struct zr_cmd_usage zr_config_usage;
extern const struct zr_cmd_usage zr_config_diff_usage;
extern const struct zr_cmd_usage zr_config_import_usage;
extern const struct zr_cmd_usage zr_data_usage;
extern const struct zr_cmd_usage zr_plugin_usage;
extern const struct zr_cmd_usage zr_schedule_usage;
extern const struct zr_cmd_usage zr_checkpoint_usage;
extern const struct zr_cmd_usage zr_tokenize_usage;
extern const struct zr_cmd_usage zr_bench_usage;
extern const struct zr_cmd_usage zr_doctor_usage;
extern const struct zr_cmd_usage zr_completion_usage;

int zr_cmd_train(int argc, char **argv);
int zr_cmd_launch(int argc, char **argv);
int zr_cmd_sample(int argc, char **argv);
int zr_cmd_eval(int argc, char **argv);
int zr_cmd_report(int argc, char **argv);
int zr_cmd_watch(int argc, char **argv);
int zr_cmd_plan(int argc, char **argv);
int zr_cmd_config(int argc, char **argv);
int zr_cmd_config_diff(int argc, char **argv);
int zr_cmd_config_import(int argc, char **argv);
int zr_cmd_data(int argc, char **argv);
int zr_cmd_plugin(int argc, char **argv);
int zr_cmd_schedule(int argc, char **argv);
int zr_cmd_checkpoint(int argc, char **argv);
int zr_cmd_tokenize(int argc, char **argv);
int zr_cmd_bench(int argc, char **argv);
int zr_cmd_doctor(int argc, char **argv);
int zr_cmd_completion(int argc, char **argv);

#endif
