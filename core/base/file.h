/* SPDX-License-Identifier: Apache-2.0
 *
 * file.h - files and directories that Zeroth owns. `at` is a descriptor of a directory, or
 * AT_FDCWD. What is written is a new file, and what is removed is what bears the name: nothing is
 * reached through a symbolic link. `follow` is for what a user names. What is read is a regular
 * file: opening anything else fails at once. Functions return 0 or errno unless they say otherwise.
 * [any]
 */
#ifndef ZR_CORE_BASE_FILE_H
#define ZR_CORE_BASE_FILE_H

#include <stdint.h>

#include "core/base/error.h"

/* Descriptors, or -1 with errno: ELOOP for a link, ENXIO for what is not a regular file. */
int zr_dir_open(int at, const char *name, int follow);
int zr_file_open(int at, const char *name, int follow);

#define ZR_HERE UINT64_MAX /* where the file stands */
int zr_write_all_at(int fd, const void *data, size_t bytes, uint64_t at);
int zr_read_all_at(int fd, void *to, size_t bytes, uint64_t at); /* ENODATA: the file ends before */

/* All of a file of at most so many bytes, else EFBIG; *text is owned, and ends with a 0 that is not
 * counted. */
int zr_file_text(int at, const char *name, int follow, size_t most, char **text, size_t *bytes);
/* Writes it to a new file, in place of what bears the name; durably: waits for the disk. */
int zr_file_new(int at, const char *name, const void *data, size_t bytes, int durably);
/* Does so durably, and reads it back. */
int zr_file_put(int at, const char *name, const void *data, size_t bytes);

int zr_sync_dir(int at);
int zr_sync_parent(const char *path); /* the directory that `path` is in */
/* Removes a file, a link, or a directory of files without directories in it. */
int zr_remove(int at, const char *name);
/* Gives `tmp` the name, at once and durably. What has it goes only then; a link goes, what it
 * points to stays. */
int zr_take_name(int at, const char *tmp, const char *name);

/* The code of a file that could not be looked at: ZR_EINVAL where that is what was asked for, as a
 * name that is not there; ZR_ENOMEM; else ZR_EIO. */
int zr_file_code(int no);
/* The error of a file that could not be `done`: opened, read, ... */
int zr_file_failed(struct zr_error *err, const char *path, const char *doing, int no);

#endif
