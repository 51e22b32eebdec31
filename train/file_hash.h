/* SPDX-License-Identifier: Apache-2.0
 *
 * file_hash.h - a hash that tells a file from others by its bytes. [any]
 */
#ifndef ZR_TRAIN_FILE_HASH_H
#define ZR_TRAIN_FILE_HASH_H

#include <stdint.h>

struct zr_file_hash {
	const char *name; /* borrowed; for messages */
	int64_t bytes;
	/* of all bytes; unless `whole` asks for them: of a file above 64 MiB, of its first MiB and
	 * of 64 blocks of 4 KiB */
	uint64_t hash;
};

/* Sets bytes and hash of the open file. Ranks that are threads of one process hash a file once, as
 * long as its times stay what they are. Returns 0 or errno. */
int zr_file_hash(int fd, struct zr_file_hash *file, int whole);

/* A line about a file so large that people wonder what takes so long. */
void zr_file_hash_announce(const char *name, int64_t bytes);

#endif
