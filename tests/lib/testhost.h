/* SPDX-License-Identifier: Apache-2.0
 *
 * testhost.h - a host for plugins under test: struct zr_host without core. It counts memory, keeps
 * the last failure, can refuse an allocation, and runs parallel() on as many threads as a test
 * wants. Also: plugins by name, their options parsed from the table's own default texts.
 *
 * Whatever a test did wrong (no such plugin, no such option) prints a line and aborts.
 */
#ifndef ZR_TESTHOST_H
#define ZR_TESTHOST_H

#include <zeroth/plugin.h>

/* A host with `workers` threads (the caller included), rank 0 of 1. Free with test_host_free. Other
 * members (rank, run_dir) may be changed by the test before it creates an instance. */
struct zr_host *test_host(int workers);
void test_host_free(struct zr_host *h); /* aborts if memory of alloc() was not released */

const char *test_error(const struct zr_host *h); /* text of the last fail(), "" if none */
int test_error_code(const struct zr_host *h);    /* its code, 0 if none */
int test_errors(const struct zr_host *h);        /* how many fail() calls */
const char *test_log(const struct zr_host *h);   /* text of the last log(), "" if none */
void test_clear(struct zr_host *h);              /* forgets failures and logs */
uint64_t test_bytes(const struct zr_host *h);    /* bytes allocated now */
int64_t test_allocs(const struct zr_host *h);    /* calls of alloc() so far */
/* the nth alloc() from now fails; 0: none does */
void test_refuse(struct zr_host *h, int64_t nth);

/* Writes beyond so many bytes of a file fail from now on, as on a full disk (EFBIG); -1: none. */
void test_file_limit(int64_t bytes);

/* The first descriptor of "role/id": $ZR_TEST_PLUGINS/role/id.so, or in the build directory
 * ./plugins/role/.libs/id.so. Loaded once, never unloaded. */
const struct zr_desc *test_plugin(const char *name);
/* The same of tests/doubles/cards.c. */
const struct zr_desc *test_plugin_cards(void);
/* Every descriptor of the file, ending with NULL. */
const struct zr_desc *const *test_plugin_all(const char *name);
/* The function table of an interface of a descriptor, or NULL. */
const void *test_iface(const struct zr_desc *desc, const char *id);

/* A malloc'ed options struct holding the defaults (`auto` as its sentinel); free() it. Options that
 * have no default keep zero bytes. */
void *test_options(const struct zr_desc *desc);
/* Sets one option from text, which must outlive opts. 0, or -1 for a text the type or the range
 * refuses. */
int test_set(const struct zr_desc *desc, void *opts, const char *name, const char *text);
/* resolve (with the host's world and workers as the only facts), check, create: as core would.
 * The code of the first that fails. */
int test_create(const struct zr_host *h, const struct zr_desc *desc, void *opts,
		struct zr_inst **out);

#endif
