/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce.h - gradients on their way to their owners: what the files share that lower a reduce.
 */
#ifndef ZR_CORE_LOWER_REDUCE_H
#define ZR_CORE_LOWER_REDUCE_H

#include "core/lower/lower.h"

/* ---- reduce_ways.c ---- */

/* Bytes of so many blocks in fp32. */
uint64_t zr_low_fp32_bytes(int64_t blocks);

/* Whether there is one rank. */
int zr_low_alone(const struct zr_lowering *l);

/* Whether the device adds up micro-batches until their sum leaves it. */
int zr_low_on_device_first(const struct zr_lowering *l);

/* Where contributions are added: a region. */
int zr_low_sum_region(const struct zr_lowering *l);
int zr_low_sums_on_host(const struct zr_lowering *l);

/* Whether gradients pass through host memory. */
int zr_low_by_host(const struct zr_lowering *l);

/* Whether what arrives becomes the sum. */
int zr_low_stores(const struct zr_lowering *l);

/* Whether ranks send in this micro-batch. */
int zr_low_sends(const struct zr_lowering *l);

/* Whether ranks of a node add up first what they have for others. */
int zr_low_by_node(const struct zr_lowering *l);

/* What comes for a unit: of each rank its contribution, of neighbours, or their sum; in which
 * type. */
int zr_low_contributions(const struct zr_lowering *l);
int32_t zr_low_contribution_type(const struct zr_lowering *l);

int zr_low_is_on_host(const struct zr_lowering *l, const struct zr_operand *o);

/* What layers left of a unit's gradient, without the padding. */
struct zr_operand zr_low_whole_gradient(struct zr_lowering *l, int32_t u);

/* The sum of a rank's own contributions, which the last micro-batch sends. */
struct zr_operand zr_low_local_sum(const struct zr_lowering *l, int32_t u);

/* So many bytes of the sum of the blocks that this rank owns, from its block `skip` on; where
 * contributions are added to it first. */
struct zr_operand zr_low_owned_sum(const struct zr_lowering *l, int32_t u, int64_t skip,
				   uint64_t bytes);
struct zr_operand zr_low_first_sum(const struct zr_lowering *l, int32_t u, int64_t skip,
				   uint64_t bytes);

/* A buffer for what ranks send or receive: in host memory, or where layers compute. */
int32_t zr_low_message_region(int on_host);
struct zr_operand zr_low_message(struct zr_lowering *l, int on_host, uint64_t bytes);

/* So many bytes for the i-th of an operation's experts, in a buffer of all of them, which the first
 * one takes. */
struct zr_operand zr_low_room_for_expert(struct zr_lowering *l, int32_t i, int32_t experts,
					 int32_t region, uint64_t bytes);

/* ---- reduce_sums.c ---- */

/* Adds all contributions to what this rank owns of a unit, or of its slice. */
void zr_low_add_unit(struct zr_lowering *l, int32_t u, const struct zr_sent_received *x);

/* A micro-batch's gradient joins this rank's own sum. */
void zr_low_add_locally(struct zr_lowering *l, int32_t u);

/* ---- reduce_sends.c ---- */

/* A copy as ranks send it; fp32 stays where it is. */
struct zr_operand zr_low_narrow(struct zr_lowering *l, int32_t u, struct zr_operand send,
				uint64_t bytes, int host);

/* A buffer for what this rank receives, where every rank sends as many bytes as `send` has. */
struct zr_operand zr_low_room_for(struct zr_lowering *l, const struct zr_operand *send);

/* What this rank sends of an operation's i-th unit, and where it receives. from: what it read. */
struct zr_sent_received zr_low_fill(struct zr_lowering *l, const struct zr_pop *op, int32_t i,
				    struct zr_operand *from);

/* Sends contributions to the owners of the units. By node, zr_low_send() sends them within each
 * node, and zr_low_send_on() sends the sums of nodes to the owners. */
void zr_low_send(struct zr_lowering *l, const struct zr_pop *op);
void zr_low_send_on(struct zr_lowering *l, const struct zr_pop *op);

/* A fence of all ranks: others may read contributions to the first n units where they lie; with
 * n = 0, they have read them. */
void zr_low_meet(struct zr_lowering *l, const struct zr_pop *op, int32_t n);

#endif
