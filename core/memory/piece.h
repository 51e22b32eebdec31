/* SPDX-License-Identifier: Apache-2.0
 *
 * piece.h - pieces: runs of whole blocks of a unit that this rank holds, with their master, gradient, compute copy and
 * optimizer state, wherever those live. What the processor cannot reach goes through a set of buffers in the staging:
 * read before, written after. [step]
 */
#ifndef ZR_CORE_PIECE_H
#define ZR_CORE_PIECE_H

#include "core/memory/tier.h"

struct zr_piece {
	int32_t unit, set;
	int32_t optimizer; /* of all its blocks; ZR_ANY: whichever, and it comes without states */
	int64_t first, n;  /* blocks of the unit */
	int64_t at;        /* first, counted from the first block that this rank holds */
	int64_t state;     /* first, counted in the optimizer's states */
};
#define ZR_ANY (-1)

/* Kinds of data as bits. */
#define ZR_WITH(d) (1u << (d))
#define ZR_WITH_STATES (~0u << ZR_D_STATE)

/* Whether a unit has this kind of data at all: a compute copy apart from its master, a master. */
int zr_has_datum(const struct zr_setup *s, int32_t unit, int d);

/* What follows from the plan alone: bytes per block, where a piece's data is kept, whether it has any, whether it passes
 * through a set of buffers. */
uint64_t zr_block_bytes(const struct zr_setup *s, int32_t unit, int d);
struct zr_spot zr_datum_spot(const struct zr_setup *s, const struct zr_piece *p, int d);
int zr_piece_has(const struct zr_setup *s, const struct zr_piece *p, int d);
int zr_datum_staged(const struct zr_setup *s, int32_t unit, int d);

/* Brings in, or puts back, what of `with` is staged. */
int zr_piece_move(struct zr_session *s, const struct zr_piece *p, uint32_t with, int out);

char *zr_piece_data(const struct zr_session *s, const struct zr_piece *p, int d); /* address while the set is the piece's */

/* Blocks [from, from + n) of the piece as fp32 in x, whatever is kept of the master. put keeps what is at x and makes the
 * compute copy; where that is all that is kept it is rounded stochastically if asked to. */
/* x is where the piece's processor reaches it. */
int zr_master_get(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x);
int zr_master_put(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x, int stochastic);

/* ZR_CHUNK blocks of fp32 within the processor's reach. */
static inline float *zr_chunk(const struct zr_session *s)
{
	return (float *)s->region[ZR_R_CHUNK];
}

/* Whether what updates pieces cannot reach host memory; the operations that do it. */
int zr_updates_without_host(const struct zr_session *s);
const struct zr_ops *zr_update_ops(const struct zr_session *s);

/* As get and put, with x in host memory; at most ZR_CHUNK blocks where zr_updates_without_host says so. */
int zr_master_out(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x);
int zr_master_in(struct zr_session *s, const struct zr_piece *p, int64_t from, int64_t n, float *x);

/* Of a piece, counted from its first block, what this rank counts in sums over parameters: others may
 * hold it, too. 0: nothing. */
static inline int zr_counted(const struct zr_setup *s, const struct zr_piece *p, int64_t *from, int64_t *end)
{
	const struct zr_share *c = &s->plan.unit[p->unit].counted;
	*from = c->first - p->first;
	*end = *from + c->n;
	return zr_intersect(0, p->n, from, end);
}

/* Segments of blocks [first, first + n) of a unit: its tensors clipped to that range. */
uint64_t zr_cut_segments(const struct zr_session *s, int32_t unit, int64_t first, int64_t n, struct zr_seg *out);

/* A piece of blocks [first, first + n) of a run. */
struct zr_piece zr_piece_in(const struct zr_setup *s, const struct zr_run *r, int64_t first, int64_t n);

/* Calls fn for all pieces of a unit one after the other, with `in` read before and `out` written after; those of one
 * optimizer, or ZR_ANY. */
int zr_each_piece(struct zr_session *s, int32_t unit, int32_t optimizer, uint32_t in, uint32_t out,
		  int (*fn)(struct zr_session *, const struct zr_piece *, void *arg), void *arg);

#endif
