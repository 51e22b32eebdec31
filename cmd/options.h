/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - the options of a command, one row of a table each. What the command accepts, what
 * --help prints and what a shell completes follow from the row alone.
 */
#ifndef ZR_CMD_OPTIONS_H
#define ZR_CMD_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

/* What an option leaves in the struct that zr_cmd_parse fills. */
enum zr_cmd_kind {
	ZR_CMD_FLAG,    /* int, which becomes 1 */
	ZR_CMD_TEXT,    /* const char * */
	ZR_CMD_CHOICE,  /* const char *, one of the words of `argument`, as "text|any" */
	ZR_CMD_LIST,    /* const char *[most]: the option may be given again */
	ZR_CMD_INT,     /* int in [least, most] */
	ZR_CMD_WHOLE,   /* int64_t in [least, most] */
	ZR_CMD_NUMBER,  /* double in [least, most] */
	ZR_CMD_SECONDS, /* double, more than 0 and less than `most` */
	ZR_CMD_BYTES,   /* uint64_t, 1 or more; K, M, G and T may follow it */
};

/* Where an option stands in the usage, if not in brackets of its own. */
enum zr_cmd_place {
	ZR_CMD_ALONE,
	ZR_CMD_WITHIN,   /* in the brackets of the row before: it needs that option */
	ZR_CMD_OR,       /* beside it behind a bar: one of the two */
	ZR_CMD_REQUIRED, /* without brackets */
	ZR_CMD_HIDDEN,   /* neither there nor in the help: for tests */
};

struct zr_cmd_option {
	char letter; /* its short name; 0: none */
	const char *name;
	const char
		*argument; /* as help calls it; NULL: a flag. Words in lower case are completed */
	const char *help;  /* NULL: the row after this one describes both */
	enum zr_cmd_kind kind;
	size_t at; /* where its value lies */
	double least, most;
	size_t count;       /* of a list: where its int number of entries lies */
	const char *counts; /* of a number, for messages: "a number of ranks" */
	const char *verbs;  /* "check new": the verbs that take it; NULL: all */
	enum zr_cmd_place place;
};

struct zr_cmd_usage;

/* A way to call a command. */
struct zr_cmd_form {
	const char *verb;               /* NULL: the command has no verbs */
	const char *operands;           /* "CONF", "[CONF]", "RUN..."; NULL: none */
	const struct zr_cmd_usage *own; /* the verb has a help of its own */
};
#define ZR_CMD_FORMS 6

struct zr_cmd_usage {
	const char *command;                       /* "plan", "config import" */
	struct zr_cmd_form form[ZR_CMD_FORMS + 1]; /* the last one has neither verb nor operands */
	const char *about;                         /* paragraphs between usage and options */
	const char *more;                          /* behind the options; NULL: nothing */
	const struct zr_cmd_option *option;        /* the last one has no name */
	int is_long;                               /* the usage says "[options]" */
};

struct zr_cmd_operands {
	char **at;
	int n;
};

/* Finds the verb argv[1] of a command that has some. NULL: there is no such verb, *code is the exit
 * code, and what was wrong, or the help, is printed. */
const struct zr_cmd_form *zr_cmd_verb(int argc, char **argv, const struct zr_cmd_usage *usage,
				      int *code);

/* Parses what follows `zeroth COMMAND`, or with a form that has a verb what follows that verb:
 * argv[0] is the command or the verb. Options go to `to`. form NULL: the command's only one.
 * Returns -1 to continue, else the exit code: 0 after --help, 2 after a usage error. */
int zr_cmd_parse(int argc, char **argv, const struct zr_cmd_usage *usage,
		 const struct zr_cmd_form *form, void *to, struct zr_cmd_operands *operands);

/* Prints "zeroth COMMAND: text" and how the command is called: all of the help would push the
 * message off the screen. text NULL: getopt has said it. Returns 2. */
int zr_cmd_wrong(const struct zr_cmd_usage *usage, const char *text);

/* Prints one line "zeroth COMMAND: ..." alone. Returns 2. */
int zr_cmd_refuse(const struct zr_cmd_usage *usage, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* help.c: whether a form takes the option. */
int zr_cmd_takes(const struct zr_cmd_form *form, const struct zr_cmd_option *o);

/* What --help prints, and its first lines. */
void zr_cmd_print_help(const struct zr_cmd_usage *usage);
void zr_cmd_print_usage(const struct zr_cmd_usage *usage, FILE *out);

#endif
