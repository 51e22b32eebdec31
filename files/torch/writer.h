/* SPDX-License-Identifier: Apache-2.0
 *
 * writer.h - files as torch.save writes them: a zip archive of a pickle and of the numbers of its
 * tensors, uncompressed, each at a multiple of 64 bytes. It is written from its start to its end,
 * so that no tensor has to be in memory. [main]
 *
 * A file may have several archives, one behind the other, as torch.distributed.checkpoint has them.
 */
#ifndef ZR_FILES_TORCH_WRITER_H
#define ZR_FILES_TORCH_WRITER_H

#include "core/base/error.h"
#include "files/torch/pickler.h"

struct zr_zip_entry;

struct zr_torch_writer {
	char *path;
	int fd;
	int failed;                 /* errno of what failed first: nothing is written any more */
	uint64_t at;                /* bytes of the file so far */
	uint64_t from;              /* where the archive begins */
	struct zr_zip_entry *entry; /* of the archive */
	int64_t n, room;
	int64_t storages; /* of the archive so far */
	uint64_t left;    /* bytes of the storage that are not here yet */
	uint32_t crc;     /* of those that are */
	uint32_t table[8][256];
	struct XXH3_state_s *hash; /* of all bytes of the file */
};

/* A new file, in place of what bears the name. On failure there is nothing to close. */
int zr_torch_create(struct zr_torch_writer *w, const char *path, struct zr_error *err);
/* Begins an archive with a pickle, which is complete. */
void zr_torch_begin(struct zr_torch_writer *w, const struct zr_pickler *p);
/* Begins the next storage, of so many bytes, all of which zr_torch_append then adds. They are
 * numbered from 0 in each archive. */
void zr_torch_storage(struct zr_torch_writer *w, uint64_t bytes);
void zr_torch_append(struct zr_torch_writer *w, const void *data, size_t bytes);
/* Ends the archive. Returns its bytes. */
uint64_t zr_torch_end(struct zr_torch_writer *w);
/* Makes the file durable, reads it back and closes it. rc: what failed meanwhile; it is returned,
 * else what writing failed with. Then the file is removed. */
int zr_torch_finish(struct zr_torch_writer *w, int rc, struct zr_error *err);

#endif
