/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.h - many entries of a file, one after the other, at the rate of the disk: threads read
 * ahead and check hashes while the caller puts what is right to its place. [main]
 *
 * What lies in the page cache is read from there. All else goes past it (O_DIRECT) where the file
 * system can, which saves a copy and the cache's pages. A reader has ZR_READER_BYTES of memory, and
 * more only for larger entries.
 */
#ifndef ZR_FILES_CKPT_READER_H
#define ZR_FILES_CKPT_READER_H

#include "files/checkpoint/manifest.h"

/* an entry, or several small ones: 16 MiB */
#define ZR_READER_SLOT    ((uint64_t)ZR_CKPT_ENTRY_BLOCKS * ZR_BLOCK * 4)
#define ZR_READER_SLOTS   (ZR_READER_THREADS + 1)
#define ZR_READER_WINDOW  (UINT64_C(2) << 20) /* of a request, and of the thread that makes it */
#define ZR_READER_THREADS 3
#define ZR_READER_BYTES   (ZR_READER_SLOTS * ZR_READER_SLOT + ZR_READER_THREADS * ZR_READER_WINDOW)

struct zr_reader;

/* cached: other ranks read the same files, so that all reads go through the page cache. NULL: out
 * of memory. */
struct zr_reader *zr_reader_new(int cached);
void zr_reader_free(struct zr_reader *r);

/* Calls fn in the calling thread for entries e[0..n) of a file that zr_ckpt_open opened, in this
 * order, each after its hash was found right: data is 4096-byte aligned, has zeros up to the end of
 * the entry's last block, and is fn's to change until it returns. Ends with the first failure, of
 * an entry or of fn. Nothing else reads the file meanwhile. */
typedef int zr_reader_fn(void *arg, const struct zr_ckpt_entry *e, void *data,
			 struct zr_error *err);
int zr_reader_run(struct zr_reader *r, const struct zr_manifest *m, const struct zr_st *file,
		  const struct zr_ckpt_entry *e, int64_t n, zr_reader_fn *fn, void *arg,
		  struct zr_error *err);

#endif
