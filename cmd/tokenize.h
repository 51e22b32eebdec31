/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize.h - what the two ways of zeroth tokenize share.
 */
#ifndef ZR_CMD_TOKENIZE_H
#define ZR_CMD_TOKENIZE_H

#define ZR_TOKENIZE_EVERY_TTY 0.1  /* seconds between lines of progress on a terminal */
#define ZR_TOKENIZE_EVERY_LOG 10.0 /* and elsewhere */

#include <stdint.h>

/* "  12 %  ETA 3 s" of what began `took` seconds ago, to text; "" where all is not known. */
void zr_tokenize_eta(uint64_t at, uint64_t all, double took, char text[80]);
/* What messages call an input. */
const char *zr_tokenize_name(const char *path);
/* Bytes of all files; 0: one is none, such as standard input. */
uint64_t zr_tokenize_bytes(char **in, int n);
/* Says what a model of these tokens needs. */
void zr_tokenize_vocabulary(int64_t tokens);
/* The signal that asked to stop, or 0. */
int zr_tokenize_stopped(void);
void zr_tokenize_catch(void); /* stops at SIGINT and SIGTERM */

int zr_tokenize_chat(int argc, char **argv); /* zeroth tokenize --chat */

#endif
