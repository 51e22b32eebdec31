/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.h - a library that tests preload: it counts calls of the C library and lets a chosen one
 * fail.
 *
 *   ZR_FAULT="call=write n=3 kind=EIO"   the third write fails with EIO. Further words, each
 *                                        optional:
 *       and=later      so do all that follow
 *       process=1      in rank 1 alone; process=main: in the process that starts ranks, and what it
 *                      forks before they are ranks. Without it, in each process, each with counts
 *                      of its own.
 *       path=manifest  only calls on files with this text in their path are counted
 *       slow=0.2       seconds that kind=slow takes
 *   kind: the name of an error; `short`: half of the bytes; `slow`: 0.05 s later; `flip`: one bit
 *       is another one
 *   ZR_FAULT_COUNTS=FILE  the numbers of calls go there, as a struct fault_counts
 *   ZR_FAULT_LOG=FILE     a line per call that changes a file or a directory, in order; see
 *                         record.c
 *   ZR_FAULT_NO_RING=1    there is no io_uring
 *   ZR_FAULT_PROGRAM=NAME other programs, such as a shell that starts it, are left alone
 *
 * Counted are calls on regular files and directories outside of /proc, /sys and /dev, by
 * descriptors above 2. Streams of fopen are made of the same reads and writes. What runs behind
 * main is left alone.
 */
#ifndef ZR_FAULTS_H
#define ZR_FAULTS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum fault_call {
	FAULT_ALLOC,    /* malloc, calloc, realloc, aligned_alloc, posix_memalign */
	FAULT_MMAP,     /* of the program and its libraries, not those of malloc */
	FAULT_OPEN,     /* open, openat, fopen */
	FAULT_READ,     /* read, readv, pread, preadv2, streams */
	FAULT_WRITE,    /* write, writev, pwrite, streams */
	FAULT_SYNC,     /* fsync, fdatasync, msync */
	FAULT_RANGE,    /* sync_file_range */
	FAULT_RENAME,   /* rename, renameat, renameat2, link, symlink */
	FAULT_MKDIR,    /* mkdir, mkdirat */
	FAULT_SPACE,    /* fallocate */
	FAULT_TRUNCATE, /* ftruncate */
	FAULT_CLOSE,
	FAULT_UNLINK, /* unlink, unlinkat, rmdir */
	FAULT_LIST,   /* opendir, fdopendir, readdir */
	FAULT_STAT,   /* stat, lstat, fstat, fstatat, statvfs, access */
	FAULT_LOCK,   /* flock */
	FAULT_THREAD, /* pthread_create */
	FAULT_FORK,
	FAULT_SETUP, /* io_uring_queue_init, registering buffers */
	FAULT_RING,  /* completions of reads and writes of io_uring */
	FAULT_CALLS
};

#define FAULT_NAMES                                                                                \
	{                                                                                          \
		"alloc", "mmap", "open", "read", "write", "sync", "range", "rename", "mkdir",      \
			"space", "truncate", "close", "unlink", "list", "stat", "lock", "thread",  \
			"fork", "setup", "ring"                                                    \
	}

enum fault_kind { FAULT_NONE, FAULT_FAIL, FAULT_SHORT, FAULT_FLIP, FAULT_SLOW };

#define FAULT_PROCESSES 9 /* main, ranks 0 to 7 */

struct fault_counts {
	/* the most that a process of this name reached */
	_Atomic int64_t calls[FAULT_PROCESSES][FAULT_CALLS];
	_Atomic int64_t fired;
	char where[512]; /* the first call that was not what it should have been */
};

/* The rest is between the files of the library. */

/* Counts a call; path: of what it works on, may be NULL. FAULT_FAIL: errno is set, the call must
 * not be made. */
enum fault_kind fault_point(enum fault_call call, const char *path);
int fault_error(void);

/* The path of an open file, or NULL where calls on it are not counted. */
const char *fault_fd_path(int fd, char *buf, size_t size);
const char *fault_at_path(int dir, const char *path, char *buf, size_t size);

/* Under it this thread's calls are not counted. */
extern __thread int fault_busy;
void *fault_next(const char *name);

size_t fault_half(size_t bytes);
/* A copy of data with one bit changed, aligned to pages; to be released by fault_drop. */
void *fault_flipped(const void *data, size_t bytes);
void fault_drop(void *copy, size_t bytes);
void fault_flip(void *data, size_t bytes);

/* One line of the log. */
void fault_record(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fault_records(void);

/* read and write, counted. */
long fault_read(int fd, void *mem, size_t bytes);
long fault_write(int fd, const void *mem, size_t bytes);
int fault_open(int dir, const char *path, int flags, unsigned mode);
int fault_close(int fd);

#define VISIBLE __attribute__((visibility("default")))

#endif
