/* SPDX-License-Identifier: Apache-2.0
 *
 * completion.h - what may stand where the user presses Tab. It follows from the commands' tables of
 * options and from those of the configuration, so that it never lags behind them. [main]
 */
#ifndef ZR_CMD_COMPLETION_H
#define ZR_CMD_COMPLETION_H

#include <stddef.h>
#include <stdio.h>

struct zr_command;

/* The commands that there are: main gives them, since the one that completes is among them. */
void zr_complete_commands(const struct zr_command *list, int n);

/* Candidates for the last of the words, which begin behind the name of the program, go to `out`, a
 * line each: the word, and after a tab what it means, if that is known. */
void zr_complete_words(const char *const *words, int n, FILE *out);

/* options.c: for a word after -o that begins "section.key=value": `words` say which plugins are
 * meant, as far as they name them or a configuration. */
struct zr_candidates {
	const char *begin; /* what candidates begin with */
	FILE *out;
};
void zr_candidate(const struct zr_candidates *c, const char *word, const char *doc);
void zr_complete_option(const struct zr_candidates *c, const char *const *words, int n);
void zr_complete_plugins(const struct zr_candidates *c, const char *role, const char *prefix);

#define ZR_FILES_ANY  0
#define ZR_FILES_INI  1 /* *.ini */
#define ZR_FILES_DIRS 2 /* directories only */
#define ZR_FILES_RUNS 3 /* likewise; those of runs do not go on with a slash */
/* Names in the directory that the word `path` is in. prefix: in front of each. */
void zr_complete_files(const struct zr_candidates *c, int kind, const char *path,
		       const char *prefix);

#endif
