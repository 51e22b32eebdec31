/* SPDX-License-Identifier: Apache-2.0
 *
 * header.h - what the ranks of an operation tell each other of it where they share no memory: in
 * what they must agree, and what is said where they do not (invariant I5).
 */
#ifndef ZR_COMM_HEADER_H
#define ZR_COMM_HEADER_H

#include "plugins/comm/names.h"

/* kind 0: nothing was posted yet. */
struct comm_header {
	int32_t kind, dtype, root, n_seg;
	int32_t op, unit;
	int64_t step;
	int64_t total;   /* elements of all segments */
	uint64_t counts; /* hash of the elements of each */
	uint64_t seq;    /* number in the group, from 1: not compared */
};

/* Without a number. */
struct comm_header comm_header_of(const struct zr_comm_op *op);
struct comm_header comm_header_of_exchange(const struct zr_comm_exchange *x);

/* What two headers differ in, NULL: in nothing. Counts of exchanges are compared pair by pair. */
const char *comm_difference(const struct comm_header *x, const struct comm_header *y);
/* The one of ranks a and b that all others are like; -1: neither. */
int32_t comm_common(const struct comm_header *all, int32_t ranks, int32_t a, int32_t b);

/* "all_gather over the world (step 3, op 17, unit 2)" */
void comm_op_text(const struct comm_header *op, int32_t group, char *out, size_t room);

/* Two ranks of the world that differ; common: the one that all others are like, -1: there is
 * none. */
struct comm_differing {
	const char *what;
	int32_t group, rank[2], common;
	const struct comm_header *header[2];
};
void comm_differing_text(const struct comm_differing *d, char *out, size_t room);

/* What is known of a rank that an operation waits for. */
struct comm_seen {
	int32_t rank;
	int has_left;
	int has_come;                    /* to this operation, but not all of the data has moved */
	const struct comm_header *waits; /* in this operation of `waits_group`; NULL: not known */
	int32_t waits_group, group;
	const struct comm_header *last; /* operation of the group that all came to */
};

/* A list of such ranks as a text, of which the first few are named. */
struct comm_missing {
	char *out;
	size_t room;
	int32_t named, more;
};
void comm_missing_add(struct comm_missing *m, const struct comm_seen *s);
void comm_missing_end(struct comm_missing *m);

#endif
