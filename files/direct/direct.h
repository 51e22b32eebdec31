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

/* To write a file of `bytes` bytes, open as `fd` for reading and writing; `direct`: the same, with
 * O_DIRECT, or -1. Both stay the caller's. NULL: no memory. [any] */
struct zr_direct *zr_direct_open(int fd, int direct, uint64_t bytes);

/* The data is copied, and added to the hash, an XXH3_state_t. What follows the data of the call
 * before goes with it; no byte is written twice. 0, or the errno of what failed so far. [one thread
 * at a time] */
int zr_direct_write(struct zr_direct *d, const void *data, size_t bytes, uint64_t at,
		    struct XXH3_state_s *hash);

/* Returns when all is written and read back: 0, or errno. *bad: if not UINT64_MAX, what was written
 * there reads back as something else. Frees it; d may be NULL. Durable is what an fsync behind it
 * makes so. */
int zr_direct_close(struct zr_direct *d, uint64_t *bad);

#endif
