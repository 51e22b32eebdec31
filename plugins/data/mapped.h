/* SPDX-License-Identifier: Apache-2.0
 *
 * mapped.h - a file that is mapped, never copied, and what tells it from another one.
 */
#ifndef ZR_DATA_MAPPED_H
#define ZR_DATA_MAPPED_H

#include "files.h"

struct mapped {
	const uint8_t *base; /* NULL: not mapped */
	int64_t bytes;
};

/* Fails if it is empty or no regular file. [main] */
int mapped_open(const struct zr_host *h, const char *name, struct mapped *m);
/* The same of an open file, which is closed also where this fails. name: for messages. [main] */
int mapped_take(const struct zr_host *h, const char *name, int fd, struct mapped *m);
void mapped_close(struct mapped *m);

/* Sets f->bytes, f->hash and f->sampled of one of `files` files of `all` bytes: to hash all of a
 * large set would take minutes before the first step. [main] */
void mapped_hash(const struct mapped *m, int64_t files, int64_t all, struct file *f);

/* Where `told` has a hash of samples but is asked for one of all bytes, it gets that one. [main] */
void mapped_hash_whole(const struct mapped *m, struct zr_data_file *told);

#endif
