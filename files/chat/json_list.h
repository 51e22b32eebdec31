/* SPDX-License-Identifier: Apache-2.0
 *
 * json_list.h - a JSON list as lines: where it lies, each of its values becomes one line. Memory is
 * that of the text.
 */
#ifndef ZR_CHAT_JSON_LIST_H
#define ZR_CHAT_JSON_LIST_H

#include <stddef.h>

struct zr_json_list {
	int is_list; /* 0: the text is no list and stays as it is */
	int depth;   /* of braces and brackets that are open; 1: between values */
	int in_string, escaped;
	int has_value; /* since the last comma */
	int values;    /* there was one */
	int ended;
};

/* n bytes at the start of a text say whether it is a list: its first character that is no white
 * space is a bracket. */
void zr_json_list_begin(struct zr_json_list *l, const char *text, size_t n);

/* Cuts the n bytes that come next: commas between values become line ends; line ends inside of
 * values, and the outer brackets, become spaces. end: nothing follows. Returns NULL, or what is
 * wrong. What is wrong with a value itself shows when its line is read. */
const char *zr_json_list_cut(struct zr_json_list *l, char *text, size_t n, int end);

#endif
