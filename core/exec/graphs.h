/* SPDX-License-Identifier: Apache-2.0
 *
 * graphs.h - graphs of a device: operations of several instructions that it enqueues at once. What
 * is in one, and what is not: graphs.c. [step] but for open and close
 *
 * They take memory after the first step, where a stretch of instructions asks for something for the
 * first time, and where a graph is made.
 */
#ifndef ZR_CORE_GRAPHS_H
#define ZR_CORE_GRAPHS_H

#include "core/session.h"

/* A stretch of instructions ends behind the one that asks for so many operations. */
#define ZR_GRAPH_OPS 128

struct zr_graph_counts {
	int64_t graphs;   /* that were made, */
	int64_t anew;     /* and made anew with other values */
	int64_t launches; /* of them */
	int64_t within;   /* operations that were enqueued by these */
	int64_t alone;    /* operations that were enqueued one by one */
};

/* Opens them in a training on a device that wants some; [main]. */
int zr_graphs_open(struct zr_session *s, struct zr_error *err);
void zr_graphs_close(struct zr_session *s);
const struct zr_graph_counts *zr_graphs_counts(const struct zr_session *s); /* NULL: none open */

/* Instruction n is about to begin, for which nothing is waited for any more: it is in the open
 * stretch, or in a new one, or the open one ends; it has begun. */
int zr_graph_begin(struct zr_session *s, const struct zr_lowered *p, int32_t n,
		   struct zr_error *err);
int zr_graph_began(struct zr_session *s, const struct zr_instr *i, struct zr_error *err);

/* The open stretch ends, if there is one: the device gets what was kept back; after a failure it
 * does not. */
int zr_graph_end(struct zr_session *s, struct zr_error *err);
void zr_graph_drop(struct zr_session *s);

#endif
