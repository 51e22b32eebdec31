/* SPDX-License-Identifier: Apache-2.0
 *
 * offload_fixture.h - stores under test: a scratch directory as the disk, instances with options,
 * requests that must succeed, and the files that an instance made. Whatever must succeed fails the
 * running test with the plugin's text.
 */
#ifndef ZR_TESTS_OFFLOAD_FIXTURE_H
#define ZR_TESTS_OFFLOAD_FIXTURE_H

#include <zeroth/offload.h>

#include "tests/lib/testhost.h"

/* cmocka.h, which wants these before it, after headers with members that its macros name */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

extern struct zr_host *host;
extern char disk[];   /* option `path` of nvme */
extern char logged[]; /* every line since the last store_try */

struct zr_host *store_host(void); /* one that keeps those lines */

int offload_setup(void **state);
int offload_teardown(void **state); /* fails if something is left in the directory */

struct store {
	const struct zr_desc *desc;
	const struct zr_offload_v1 *v;
	struct zr_inst *inst;
	struct zr_tier_info info;
	void *opts;
};

/* options: name, text, ..., NULL; nvme's path is `at`. The code of create; nothing to close if it
 * is not 0. */
int store_try(struct store *s, const char *plugin, const char *at, const char *const *options);
/* in `disk`; must succeed */
void store_open(struct store *s, const char *plugin, const char *const *options);
void store_close(struct store *s);

uint64_t store_make(struct store *s, const char *key, uint64_t bytes);
/* the ticket */
uint64_t store_post(struct store *s, int write, uint64_t object, uint64_t off, void *mem,
		    uint64_t bytes);
void store_wait(struct store *s, uint64_t ticket);
void store_write(struct store *s, uint64_t object, uint64_t off, const void *mem, uint64_t bytes);
void store_read(struct store *s, uint64_t object, uint64_t off, void *mem, uint64_t bytes);
/* the code of wait */
int store_reads(struct store *s, uint64_t object, uint64_t off, void *mem, uint64_t bytes);

/* The directories that instances made in `at`: how many; the first one's path, or "". */
int dirs_in(const char *at, char *first, size_t room);
/* The path of the file that holds objects of `key`, in the first directory of `disk`. */
void file_of(const char *key, char *path, size_t room);

uint32_t draw(uint32_t n);                           /* pseudo-random, in [0, n) */
void fill(char *mem, uint64_t bytes, uint32_t seed); /* different bytes for every seed */

#endif
