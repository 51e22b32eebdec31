/* SPDX-License-Identifier: Apache-2.0
 *
 * error.h - how core reports failure: functions return 0 or a negative ZR_E* code and leave one
 * line of text in the struct zr_error of their caller. Whoever decides writes the text; callers
 * pass it on.
 */
#ifndef ZR_CORE_BASE_ERROR_H
#define ZR_CORE_BASE_ERROR_H

#include <zeroth/plugin.h>

struct zr_error {
	int code;
	char text[1024];
};

/* Records code and text (the first one stands) and returns code. e may be NULL. */
int zr_err(struct zr_error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Records ZR_ENOMEM, "out of memory", and returns it. */
int zr_no_memory(struct zr_error *e);

/* Appends to the text of a failure. e may be NULL. */
void zr_err_add(struct zr_error *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Blanks for control characters, of UTF-8's own for the first byte: a terminal would obey texts of
 * files. */
void zr_one_line(char *text);

#endif
