/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_call.h - a call of a layer: of all rows, or of a slice of them.
 */
#ifndef ZR_CORE_LAYER_CALL_H
#define ZR_CORE_LAYER_CALL_H

#include "core/lower/lower.h"

/* A part of a layer whose experts are placed, and the memory of struct zr_home_call. */
struct zr_low_home {
	int32_t part, round; /* ZR_HOME_* */
	int32_t on_host;     /* it computes in host memory */
	struct zr_operand memory[ZR_HOME_MEMORY];
	const struct zr_operand *gradient; /* of each unit, there */
};

/* Of no memory. */
static inline struct zr_low_home zr_low_no_home(int32_t round)
{
	struct zr_low_home h = { .round = round };

	for (int32_t k = 0; k < ZR_HOME_MEMORY; k++)
		h.memory[k] = zr_none();
	return h;
}

/* Part of a backward, for each part of a gradient that comes in parts: rows > 0. */
struct zr_low_call {
	const struct zr_use *use;
	int32_t number;
	uint32_t loss;                /* 0: no loss layer */
	struct zr_operand work, part; /* part: of no region in the first call */
	int64_t row, rows;
	/* Of a slice: its number among all, or -1: this call has all rows; ZR_PART_*; where the
	 * slice's gradients go, [use->n_units], of no region where the call has none of a unit;
	 * and the memory of struct zr_layer_call. */
	int32_t slice;
	uint32_t parts;
	const struct zr_operand *leaf;
	struct zr_operand keys, all_keys, key_sums, held, attended, dattended, kept, slot_sums;
	const struct zr_low_home *home; /* NULL: all experts are here */
};

/* By heads, attention has all rows of the sequence, and none of the layer's. */
static inline int zr_of_all_rows(const struct zr_low_call *c)
{
	return c->parts && !(c->parts & (ZR_PART_BEFORE | ZR_PART_AFTER));
}

/* Where a call's gradient of its k-th unit goes on the device, of no region: nowhere. */
struct zr_operand zr_low_call_gradient(struct zr_lowering *l, const struct zr_low_call *c,
				       uint32_t k);

/* Takes the parameters of the use's units, for the calls that follow. */
void zr_low_take_params(struct zr_lowering *l, const struct zr_use *use);

void zr_low_call(struct zr_lowering *l, const struct zr_low_call *c);

/* What the call's forward keeps. */
struct zr_operand zr_low_saved(struct zr_lowering *l, const struct zr_low_call *c);

/* What the i-th slice of a rank has of memory that all have alike; the last one to its end. */
struct zr_operand zr_low_of_slice(const struct zr_lowering *l, struct zr_operand all, int64_t i);

/* lower_slices.c: calls of all slices that this rank has; work: of one. */
void zr_low_slices(struct zr_lowering *l, const struct zr_low_call *c);

/* lower_homes.c: a call; of a layer whose experts are divided those of all its parts, and what rows
 * do between them. */
void zr_low_calls(struct zr_lowering *l, const struct zr_low_call *c);

#endif
