/* SPDX-License-Identifier: Apache-2.0
 *
 * chat_kept.h - the directory where tokens of conversations are kept, and whether a file there is
 * believed: one that this user or root owns and nobody else can write, which is no link, and whose
 * bytes have the hash that was noted when they were written. The note is in a file beside it, which
 * is also the lock of who writes.
 */
#ifndef ZR_DATA_CHAT_KEPT_H
#define ZR_DATA_CHAT_KEPT_H

#include "mapped.h"

struct kept {
	const struct zr_host *h;
	char *dir, *path; /* path: of the tokens */
	const char *name; /* in the directory */
	uint64_t key;     /* hash of all that decides the tokens */
	int at, lock;     /* descriptors, -1: none */
};

/* Opens the directory, which is made if need be, and the lock. cache: the directory, or NULL or "":
 * the user's usual one. Closed by kept_close, also where it fails. [main] */
int kept_open(const struct zr_host *h, const char *cache, uint64_t key, struct kept *k);
void kept_close(struct kept *k);

/* Waits for other processes. to_write: no other one reads or writes then. */
int kept_wait(const struct kept *k, int to_write);

/* Maps the tokens that are believed; m->base = NULL: there are none, and `why` says why not, "" for
 * no file at all. */
#define KEPT_WHY 160
int kept_take(const struct kept *k, struct mapped *m, char why[KEPT_WHY]);
/* Maps the tokens that were just written, and notes their hash. */
int kept_note(const struct kept *k, struct mapped *m);

/* An owned text; NULL where there is no memory for it. */
char *kept_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
