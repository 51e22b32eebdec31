/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_fixture.h - setups of a small model of tests/lib, as they are before memory is taken.
 */
#ifndef ZR_TESTS_PLAN_FIXTURE_H
#define ZR_TESTS_PLAN_FIXTURE_H

#include "core/setup.h"

extern const char *plan_ini; /* "matrix.ini" */

/* Fixtures of a group: the text that the model reads. */
int plan_data(void **unused);
int plan_data_remove(void **unused);

/* options: "section.key=value", ending with NULL. NULL with a text in err if refused. */
struct zr_setup *plan_try(uint32_t flags, int world, const char *const *options,
			  struct zr_error *err);

/* The first of `world` ranks, without the others; fails the test if refused. */
struct zr_setup *plan_open(int world, const char *const *options);
void plan_close(struct zr_setup *s);

/* From operation `from` on the first of the kind that has the unit in its list; p->n: none. */
int32_t first_after(const struct zr_program *p, int32_t from, int32_t kind, int32_t unit);

/* Bytes received from other ranks in one run of the program. */
uint64_t program_bytes(const struct zr_program *p);

#endif
