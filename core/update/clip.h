/* SPDX-License-Identifier: Apache-2.0
 *
 * clip.h - QK-Clip (Kimi K2, 2025), [train] qk_clip: scores of attention grow with the weights that
 * make queries and keys. Forwards give the largest score of each head; the largest of a step, over
 * all micro-batches and ranks, says by how much those weights are scaled after the update.
 */
#ifndef ZR_CORE_CLIP_H
#define ZR_CORE_CLIP_H

#include "core/memory/plan.h"
#include "core/memory/subgroup.h"

struct zr_session;
struct zr_step_result;
struct zr_opt_data;

/* Refuses what no factor of weights bounds. [main] */
int zr_clip_check(const struct zr_setup *s, struct zr_error *err);

/* Fills layer and counts; of nothing where the option is off. [main] */
int zr_clip_place(const struct zr_setup *s, struct zr_clip_plan *p, struct zr_error *err);

/* [step] The factors of the update to come, from the largest scores of all ranks; what the result
 * says of them. */
void zr_clip_decide(struct zr_session *s, struct zr_step_result *r);

/* [step] Queries and keys of what was just updated are scaled: a sub-group, and its compute copy; a
 * whole matrix. scalars: as operations of `ops` read them, with the factors behind. */
int zr_clip_subgroup(struct zr_session *s, const struct zr_opt_data *d);
int zr_clip_whole(struct zr_session *s, const struct zr_ops *ops, int32_t tensor, float *matrix,
		  const struct zr_scalars *scalars, struct zr_error *err);

#endif
