/* SPDX-License-Identifier: Apache-2.0
 *
 * zip.h - where the files of a ZIP archive lie, which all are stored as they are, as torch.save
 * writes them: its directory (APPNOTE 6.3, 4.3.12 to 4.3.16), with 64-bit sizes. [any]
 */
#ifndef ZR_FILES_TORCH_ZIP_H
#define ZR_FILES_TORCH_ZIP_H

#include <stdint.h>

#include "core/base/error.h"

struct zr_zip_file {
	char *name;
	uint64_t at, bytes; /* at: in the file that has the archive */
};

struct zr_zip {
	struct zr_zip_file *file;
	int64_t n;
};

/* Bytes [from, from + bytes) of fd are an archive. path: for messages. */
int zr_zip_open(int fd, uint64_t from, uint64_t bytes, const char *path, struct zr_zip *out,
		struct zr_error *err);
void zr_zip_close(struct zr_zip *z);
/* The file DIRECTORY/name, whatever its directory is called. NULL: there is none. */
const struct zr_zip_file *zr_zip_find(const struct zr_zip *z, const char *name);

#endif
