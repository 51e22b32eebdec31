/* SPDX-License-Identifier: Apache-2.0
 *
 * comm_fixture.h - several ranks of a comm plugin in one test: as threads of this process, or as
 * processes of their own, with a boot that is a table in shared memory. A rank says what went wrong
 * through CHECK; the test fails with the first such text once all ranks have ended.
 */
#ifndef ZR_COMM_FIXTURE_H
#define ZR_COMM_FIXTURE_H

#include <zeroth/comm.h>
#include <zeroth/zero.h>

#include "tests/lib/testhost.h"

enum ranks { THREADS, PROCESSES };

struct fixture {
	const char *plugin; /* "comm/local" */
	enum ranks as;
	int world, per_node;      /* per_node 0: one node */
	int workers;              /* 0: 1 */
	const char *option[4][2]; /* name, value */
};

struct rank {
	struct zr_host *h;
	const struct zr_comm_v1 *v;
	struct zr_inst *c;
	int rank, world, per_node;
	const struct fixture *fixture;
};

/* Runs fn on every rank. Returns 0, or the number of ranks that failed; `dead` (-1: none) may die
 * by a signal. A run of more than a minute is killed and failed. */
int fixture_run(const struct fixture *fixture, void (*fn)(struct rank *r), int dead);
const char *fixture_failure(void); /* text of the first failure of the last run */

/* Waits until `n` ranks have called it in this run: a meeting that does not need the plugin. */
void fixture_meet(int n);

void fixture_say(struct rank *r, const char *file, int line, const char *what, const char *why);
#define CHECK(r, cond)                                                                             \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fixture_say(r, __FILE__, __LINE__, #cond, test_error((r)->h));             \
	} while (0)

/* Post and wait of one segment: the code of the first that fails. */
struct zr_comm_op fixture_op(int kind, int group, int dtype, const struct zr_comm_seg *seg,
			     int n_seg);
int fixture_do(struct rank *r, const struct zr_comm_op *op);
int fixture_barrier(struct rank *r, int64_t step, int32_t op);

/* Makes a group of these ranks, of which this is one: the code. */
int fixture_group(struct rank *r, int group, const int32_t *ranks, int32_t n);
/* An exchange over the group, which has these ranks, of counts that `round` makes up; 0, or a text
 * that says what is wrong. */
const char *fixture_exchange(struct rank *r, int group, const int32_t *ranks, int32_t n, int round);

/* Element i of segment s on rank r of a made-up tensor: small integers and awkward floats, a -0
 * every 7. */
void fixture_fill(void *at, int dtype, int rank, int s, int64_t first, int64_t n);
uint64_t fixture_esz(int dtype);

#endif
