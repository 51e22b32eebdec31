/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.h - what the files that run operations of a program share: layers.c, gather.c, relay.c, reduce.c, update.c,
 * replay.c.
 */
#ifndef ZR_CORE_REPLAY_H
#define ZR_CORE_REPLAY_H

#include "core/session.h"

static inline const struct zr_comm_v1 *zr_comm_of(const struct zr_session *s)
{
	return s->setup->comm.vtbl;
}

static inline int zr_alone(const struct zr_session *s)
{
	return s->setup->process.world == 1;
}

static inline int32_t zr_number_of(const struct zr_session *s, const struct zr_pop *op)
{
	return (int32_t)(op - s->program->op);
}

static inline const int32_t *zr_units_of(const struct zr_session *s, const struct zr_pop *op)
{
	return s->program->unit + op->first;
}

/* The segments of an operation stay until its wait: each has its own stretch of the table, as of the list of units. */
static inline struct zr_comm_seg *zr_segments_of(const struct zr_session *s, const struct zr_pop *op)
{
	return s->comm_seg + op->first;
}

/* Posts the first n segments of an operation; its wait completes s->posted. */
int zr_post(struct zr_session *s, const struct zr_pop *op, int32_t kind, int32_t group, int32_t dtype, int32_t n);

/* layers.c */
int zr_run_layer(struct zr_session *s, const struct zr_pop *op);
int zr_begin_move(struct zr_session *s, const struct zr_pop *op, int32_t leg); /* ZR_L_* */
int zr_end_move(struct zr_session *s, const struct zr_pop *op, int32_t leg);

/* relay.c: a gather, or a move of activations, begins its way; the leg under way ends and the next one begins; all end */
int zr_relay_start(struct zr_session *s, const struct zr_pop *op);
int zr_relay_next(struct zr_session *s, const struct zr_pop *op);
int zr_relay_finish(struct zr_session *s, const struct zr_pop *op);
int zr_is_reading(const struct zr_session *s, const struct zr_pop *op); /* the leg under way is a read */

/* gather.c */
int zr_run_gather(struct zr_session *s, const struct zr_pop *op);
int zr_begin_gather(struct zr_session *s, const struct zr_pop *op, int32_t leg); /* ZR_L_* */
int zr_end_gather(struct zr_session *s, const struct zr_pop *op, int32_t leg);
int zr_run_drop(struct zr_session *s, const struct zr_pop *op);
int zr_run_publish(struct zr_session *s, const struct zr_pop *op);
int zr_wait_publish(struct zr_session *s, const struct zr_pop *op);

/* reduce.c */
int zr_run_reduce(struct zr_session *s, const struct zr_pop *op);
int zr_wait_reduce(struct zr_session *s, const struct zr_pop *op);
int zr_end_reduce(struct zr_session *s); /* s->late */

/* update/update.c; begin comes before the first update of a step, end ends what pieces still read and write */
int zr_run_update(struct zr_session *s, const struct zr_pop *op);
int zr_update_begin(struct zr_session *s);
int zr_update_end(struct zr_session *s);

/* From s->piece_next on to piece `end` of all updates of a step: fn on each that is wanted, its data read ahead as the plan's
 * staging allows, and written after. */
struct zr_sweep {
	int (*fn)(struct zr_session *s, const struct zr_piece *p);
	int (*wants)(const struct zr_session *s, const struct zr_piece *p); /* NULL: all */
	uint32_t out; /* ZR_WITH() of what fn changes; 0: nothing */
};
int zr_update_sweep(struct zr_session *s, int64_t end, const struct zr_sweep *w);

/* Blocks [from, from + n) of a piece, with their master in fp32 and, or NULL, where its rounding goes. */
struct zr_opt_blocks {
	const struct zr_piece *piece;
	int64_t from, n;
	char *master, *lowp;
};
/* Calls fn once for each group that has some of the first `segments` of s->seg, which lie in these blocks. */
typedef int zr_opt_fn(struct zr_session *s, struct zr_optimizer *o, struct zr_opt_step *step);
int zr_opt_each_group(struct zr_session *s, const struct zr_opt_blocks *b, uint64_t segments, zr_opt_fn *fn);
struct zr_opt_step zr_opt_step_of(const struct zr_session *s, int32_t group); /* without data */
struct zr_buf zr_opt_buffer(const struct zr_session *s, char *base, int64_t blocks, int32_t dtype);

/* update/whole.c: all tensors that are updated as whole matrices */
int zr_whole_update(struct zr_session *s);

/* update/partial.c: the sums over whole parameters, before any of them is updated; those of a step's segments */
int zr_partial_sums(struct zr_session *s);
int zr_partial_totals(struct zr_session *s, const struct zr_optimizer *o, struct zr_opt_step *step);

#endif
