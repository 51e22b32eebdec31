/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h - one line at a time to stderr: "zeroth: warning: data: ..." with the topic of whoever
 * speaks. [any] thread. A live progress line on the terminal is taken away before a line and
 * redrawn after it.
 */
#ifndef ZR_CORE_BASE_LOG_H
#define ZR_CORE_BASE_LOG_H

#include <stdio.h>
#include <zeroth/plugin.h>

void zr_logf(int level, const char *topic, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void zr_log_level(int level); /* lines above this level are dropped; default ZR_LOG_INFO */

/* If not NULL: gets every line, whatever its level; nonzero: it has taken it. */
extern int (*zr_log_taker)(int level, const char *topic, const char *text);

/* The progress line: its text stays on the terminal's last line until replaced; NULL takes it away.
 * Only meaningful where `out` is a terminal. */
void zr_log_live(FILE *out, const char *line);

#endif
