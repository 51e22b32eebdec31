/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.h - what the files that run operations of a program share: layers.c, gather.c, reduce.c, update.c,
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
int zr_run_move(struct zr_session *s, const struct zr_pop *op);
int zr_wait_move(struct zr_session *s, const struct zr_pop *op);

/* gather.c */
int zr_run_gather(struct zr_session *s, const struct zr_pop *op);
int zr_wait_gather(struct zr_session *s, const struct zr_pop *op);
int zr_run_drop(struct zr_session *s, const struct zr_pop *op);
int zr_run_publish(struct zr_session *s, const struct zr_pop *op);
int zr_wait_publish(struct zr_session *s, const struct zr_pop *op);

/* reduce.c */
int zr_run_reduce(struct zr_session *s, const struct zr_pop *op);
int zr_wait_reduce(struct zr_session *s, const struct zr_pop *op);

/* update/update.c; begin and end enclose the update program */
int zr_run_update(struct zr_session *s, const struct zr_pop *op);
void zr_update_begin(struct zr_session *s);
int zr_update_end(struct zr_session *s);

#endif
