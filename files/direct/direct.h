/* SPDX-License-Identifier: Apache-2.0
 *
 * direct.h - writes a file past the page cache and reads it back: what is written is gathered in
 * windows of huge pages, which threads write and read while the next ones fill. Where there is no
 * O_DIRECT, or no thread, it works all the same.
 */
#ifndef ZR_FILES_DIRECT_DIRECT_H
#define ZR_FILES_DIRECT_DIRECT_H

#include <stddef.h>
#include <stdint.h>

#define ZR_DIRECT_WINDOW  (2u << 20) /* bytes; smaller for a small file */
#define ZR_DIRECT_WINDOWS 6
#define ZR_DIRECT_THREADS 4
/* that it takes */
#define ZR_DIRECT_BYTES ((uint64_t)(ZR_DIRECT_WINDOWS + ZR_DIRECT_THREADS + 1) * ZR_DIRECT_WINDOW)

struct zr_direct;
struct XXH3_state_s;

/* Begins to write a file of `bytes` bytes. The caller keeps both descriptors: `fd`, open for
 * reading and writing, and `direct`, the same with O_DIRECT, or -1. NULL: no memory. [any] */
struct zr_direct *zr_direct_open(int fd, int direct, uint64_t bytes);

/* Copies the data, which goes to byte `at` of the file, and adds it to the hash, an XXH3_state_t.
 * Data that follows that of the call before is written together with it; no byte is written twice.
 * Returns 0, or the errno of what failed so far. [one thread at a time] */
int zr_direct_write(struct zr_direct *d, const void *data, size_t bytes, uint64_t at,
		    struct XXH3_state_s *hash);

/* Waits until all data is written and read back, and frees d, which may be NULL. Returns 0 or an
 * errno. *bad: the byte from which on the file reads back as something else, or UINT64_MAX. The
 * data is durable after an fsync, which is the caller's. */
int zr_direct_close(struct zr_direct *d, uint64_t *bad);

#endif
