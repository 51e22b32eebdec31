/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h - the files that a path or pattern means, in order of their names' bytes: one stream.
 * Also how the streams are told to people.
 */
#ifndef ZR_DATA_FILES_H
#define ZR_DATA_FILES_H

#include <zeroth/data.h>

struct file {
	char *name;
	int64_t n;     /* tokens, set by the owner */
	int64_t bytes; /* and what it is told from another file by */
	uint64_t hash;
	uint32_t sampled; /* as in struct zr_data_file */
};

struct files {
	struct file *f;
	int n;
	int64_t tokens; /* of all */
};

/* Files of option `key` = pattern: a name, or a pattern of glob(7). Fails if there is none, or if
 * one is not a regular file. Freed by files_free. [main] */
int files_find(const struct zr_host *h, const char *key, const char *pattern, struct files *out);
void files_free(struct files *fs);

/* Whether `split` and `val_path` can be given together: one of them says what evaluates. [pure] */
int files_check_split(const struct zr_host *h, double split, const char *val_path);

/* The file that holds token `at` of the stream; *at becomes its position in that file. */
const struct file *files_at(const struct files *fs, int64_t *at);

/* The i-th file of both splits, as zr_data_v1.file() tells it. */
void files_tell(const struct files fs[2], uint32_t i, struct zr_data_file *out);

/* "jargon.txt.gz: 1.7 M bytes, 5 % held out" to text[room]. */
void files_describe(const struct files *fs, const char *unit, int64_t train, int64_t val,
		    char *text, size_t room);

#endif
