/* SPDX-License-Identifier: Apache-2.0
 *
 * data_fixture.h - data plugins under test: files made for a test in a directory of their own,
 * instances, and requests. Whatever must succeed fails the running test with the plugin's text.
 */
#ifndef ZR_TESTS_DATA_FIXTURE_H
#define ZR_TESTS_DATA_FIXTURE_H

#include <zeroth/data.h>

#include "tests/lib/testhost.h"

/* cmocka.h, which wants these before it, after headers with members that its macros name */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

extern struct zr_host *host;
extern char dir[]; /* of the files */

int data_setup(void **state);
int data_teardown(void **state); /* removes the files that were written */

char *in_dir(const char *name); /* the path of a file; eight are kept */
void write_file(const char *name, const void *bytes, size_t n);
/* Tokens first, first + 1, ...; width 2 or 4; header: the number of tokens that one of llm.c
 * announces, -1 without a header. */
void write_tokens(const char *name, uint32_t first, int n, int width, int header);
/* n bytes of text; byte i is fn(i) */
void write_text(const char *name, int n, int (*fn)(int));

struct data {
	const struct zr_desc *desc;
	const struct zr_data_v1 *v;
	struct zr_inst *inst;
	void *opts;
};

/* options: name, text, ..., NULL. The code of create; nothing to close if it is not 0. */
int data_open(struct data *d, const char *plugin, const char *const *options);
/* The same, which must succeed, and prepare. */
void data_prepared(struct data *d, const char *plugin, const char *const *options, int64_t length);
void data_close(struct data *d);
struct zr_data_info info_of(struct data *d);

#define MAX_BATCH 65536
extern int32_t inputs[MAX_BATCH], targets[MAX_BATCH]; /* of every request */

struct zr_batch request(int32_t split, int64_t step, int64_t slot, int64_t slots, int64_t sequences,
			int64_t length);
void get(struct data *d, const struct zr_batch *b);

#endif
