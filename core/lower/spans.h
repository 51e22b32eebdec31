/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.h - which instructions touched which bytes last. For each region, once as memory of this rank and once as memory
 * of the other ranks, byte ranges with their last writer and those that have read them since. With what every pair of
 * neighbours in this order is asked, all pairs are: a writer follows the writer before it and the readers in between.
 */
#ifndef ZR_CORE_SPANS_H
#define ZR_CORE_SPANS_H

#include "core/lower/instr.h"
#include "core/plan.h"

/* From `at` to where the next one begins. Of readers on a queue that runs in order the latest stands for all. */
struct zr_span {
	uint64_t at;
	int32_t writer;                /* -1: none yet */
	int32_t reader[ZR_Q_IN_ORDER]; /* on each such queue, -1: none */
	int32_t others;                /* readers on other queues: the first of a list in zr_spans.reader, -1: none */
};

/* Lists of readers share their ends: nothing in one ever changes. */
struct zr_reader {
	int32_t instr, next;
};

/* An earlier instruction that touches a byte which another one is about to touch. -1: nobody wrote what it reads. */
struct zr_conflict {
	uint64_t at;
	int32_t instr;
};

struct zr_span_list {
	struct zr_span *span;
	int32_t n, cap;
};

struct zr_spans {
	const struct zr_setup *setup;
	struct zr_span_list list[ZR_R_COUNT][2]; /* of this rank, of others */
	struct zr_reader *reader;
	struct zr_conflict *found;
	int32_t n_reader, cap_reader, n_found, cap_found;
};

/* Both return 0 or ZR_ENOMEM. find adds to `found` whom an operand has to come after: of what it reads the writers, of
 * what it writes the readers too. add: instruction i has touched its operands. */
int zr_spans_find(struct zr_spans *t, const struct zr_operand *o);
int zr_spans_add(struct zr_spans *t, const struct zr_lowered *p, int32_t i);
void zr_spans_free(struct zr_spans *t);

int zr_operand_others(const struct zr_setup *s, const struct zr_operand *o); /* whether it is memory of other ranks */

/* The store that instruction i is a request to, as an index of setup.offload; -1: none. */
int zr_instr_store(const struct zr_setup *s, const struct zr_lowered *p, int32_t i);

/* realloc for at least `need` elements. NULL: no memory, and nothing changed. */
void *zr_list_grow(void *list, int32_t need, int32_t *cap, size_t size);

#endif
