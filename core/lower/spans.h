/* SPDX-License-Identifier: Apache-2.0
 *
 * spans.h - which instructions touched which bytes last. For each region, once as memory of this
 * rank and once as memory of the others: byte ranges with their last writer and all readers since.
 * It suffices to compare an instruction with these: what comes after the last writer comes after
 * all that the last writer came after.
 */
#ifndef ZR_CORE_SPANS_H
#define ZR_CORE_SPANS_H

#include "core/lower/instr.h"
#include "core/memory/plan.h"
#include "core/program/program.h"

struct zr_setup_facts;

#define ZR_SPAN_LEVELS 10

/* From `at` to the next span. Of the readers on an in-order queue the latest stands for all. */
struct zr_span {
	uint64_t at;                   /* its key: see spans.c */
	int32_t writer;                /* -1: none yet */
	int32_t reader[ZR_Q_IN_ORDER]; /* on each such queue, -1: none */
	int32_t others;                /* on other queues: head of a list in zr_spans.reader, -1 */
	int32_t next[ZR_SPAN_LEVELS];  /* of a skip list, 0: none. Only the first few are in use. */
};

/* Lists of readers share their ends: nothing in one ever changes. */
struct zr_reader {
	int32_t instr, next;
};

/* The first byte at which an operand meets an earlier instruction. -1: none has written what it
 * reads. */
struct zr_conflict {
	uint64_t at;
	int32_t instr;
};

struct zr_spans {
	const struct zr_setup *setup;
	struct zr_span *span; /* the first one begins at key 0 */
	struct zr_reader *reader;
	struct zr_conflict *found;
	int32_t n_span, cap_span, n_reader, cap_reader, n_found, cap_found;
	int32_t unused;  /* head of a list of removed spans, 0: none */
	uint64_t random; /* for heights in the skip list: the same in each run */
};

/* All return 0 or ZR_ENOMEM. find adds to `found` what an operand has to come after: the writers of
 * what it reads, and of what it writes the readers too. add: i has touched its operands. */
int zr_spans_find(struct zr_spans *t, const struct zr_operand *o);
int zr_spans_found(struct zr_spans *t, uint64_t at, int32_t instr);
int zr_spans_add(struct zr_spans *t, const struct zr_lowered *p, int32_t i);
int zr_spans_touch(struct zr_spans *t, const struct zr_operand *o, int32_t instr, int queue);
void zr_spans_free(struct zr_spans *t);

/* Where the region of an operand begins in its arena; 0: it is an object of a store. */
uint64_t zr_operand_base(const struct zr_plan *p, const struct zr_operand *o);

/* Whether it is memory of other ranks. */
int zr_operand_others(const struct zr_setup_facts *f, const struct zr_operand *o);

#endif
