/* SPDX-License-Identifier: Apache-2.0
 *
 * tree.h - directories of small files: copying, removing, comparing.
 */
#ifndef ZR_FAULT_TREE_H
#define ZR_FAULT_TREE_H

#include <stdint.h>
#include <stdio.h>

void tree_remove(const char *path);
void tree_copy(const char *from, const char *to);

/* A line per file: its path and a hash of what it has. Of files whose contents depend on time
 * (metrics.jsonl, summary.json, plan.json) the number of lines is taken. Returns an owned text. */
char *tree_list(const char *path);

/* The first line that only one of two lists has, as "+path" or "-path"; "": none. Lines with one of
 * the texts of `except`, which may be NULL, do not count. */
void tree_difference(const char *a, const char *b, const char *const *except, char *out,
		     size_t size);

uint64_t tree_hash(const char *text);

/* A file's text, owned; "" where there is none. */
char *tree_text(const char *path);

#endif
