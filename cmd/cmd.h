/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd.h - what the subcommands share. Each subcommand returns the exit code of the process; argv[0]
 * is its name.
 */
#ifndef ZR_CMD_H
#define ZR_CMD_H

#include "core/config/config.h"
#include "train/run/restart.h"

#define ZR_CMD_OVERRIDES 128

/* The options that most subcommands take: -o section.key=value..., one operand, and those of the
 * table in args.c that their usage names. */
struct zr_cmd_args {
	const char *operand; /* NULL if none was given */
	/* with room for the overrides that restarts add */
	const char *overrides[ZR_CMD_OVERRIDES + ZR_RESTART_OVERRIDES];
	int n_overrides;
	int json;
	int ranks;                        /* -n, 0 if not given */
	int restarts, min_ranks;          /* --restarts, --min-ranks, 0 if not given */
	double watchdog;                  /* --watchdog, 0 if not given */
	int program;                      /* --program */
	const char *resume;               /* --resume, NULL if not given */
	int other_data;                   /* --other-data */
	int verify;                       /* --verify */
	uint64_t memory;                  /* --memory, 0 if not given */
	int sequences;                    /* --sequences, 0 if not given */
	int compare, no_compare, fit;     /* --compare, --no-compare, --fit */
	uint64_t device, host, disk;      /* --device, --host, --disk: bytes, 0 if not given */
	const char *rates, *card, *scale; /* --rates, --card, --scale, NULL if not given */
};

/* Parses the common options. operand: its name for messages, or NULL if the command takes none and
 * refuses one. Returns -1 to continue, else the exit code (0 after --help on stdout, 2 after a
 * usage error). */
int zr_cmd_parse(int argc, char **argv, const char *usage, const char *operand,
		 struct zr_cmd_args *out);

/* After a message about the command line, which all of the help would push off the screen: how the
 * command is called. Returns 2. */
int zr_cmd_synopsis(const char *usage);

/* Returns 0 if `ranks` is in [1, most]; otherwise prints these limits and returns 2. */
int zr_cmd_check_ranks(const char *argv0, int ranks, int most);

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
};
extern const struct zr_command zr_commands[];
extern const int zr_n_commands;

int zr_cmd_train(int argc, char **argv);
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
