/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.h - a file of torch.save: a ZIP archive with data.pkl, which says what is there, and a file
 * for each storage. Little-endian files alone. Messages name the file. Nothing of it is run:
 * pickle.h. [main]
 */
#ifndef ZR_FILES_TORCH_TORCH_H
#define ZR_FILES_TORCH_TORCH_H

#include "files/torch/pickle.h"
#include "files/torch/zip.h"

struct zr_torch {
	char *path;
	int fd;
	uint64_t bytes;
	struct zr_zip zip;
	struct zr_pickle *pickle;
	const struct zr_py *root;
};

/* On failure there is nothing to close. */
int zr_torch_open(const char *path, struct zr_torch *out, struct zr_error *err);
/* The same of bytes [from, from + bytes) of a file, as checkpoints of torch.distributed have it. */
int zr_torch_open_at(const char *path, uint64_t from, uint64_t bytes, struct zr_torch *out,
		     struct zr_error *err);
/* A file that is a pickle alone, as .metadata. */
int zr_pickle_open(const char *path, struct zr_torch *out, struct zr_error *err);
void zr_torch_close(struct zr_torch *t); /* a zeroed one is fine */

/* Byte of the file where a tensor begins, whose elements lie in a row and in the file. name: of the
 * tensor, for messages. */
int zr_torch_place(const struct zr_torch *t, const struct zr_py *tensor, const char *name,
		   uint64_t *at, struct zr_error *err);
/* The value of a number, or of a tensor of one element. */
int zr_torch_number(const struct zr_torch *t, const struct zr_py *x, const char *name, double *out,
		    struct zr_error *err);

#endif
