/* SPDX-License-Identifier: Apache-2.0
 *
 * instr.h - what really happens in a step: the operations of a recorded program as instructions.
 * Each names the bytes that it reads and writes, the queue that runs it and the instructions
 * that it waits for. Tiers, devices, comm abilities and types on the wire are known to what
 * makes this (lower.h) and to nothing behind it: what runs instructions decides nothing.
 */
#ifndef ZR_CORE_INSTR_H
#define ZR_CORE_INSTR_H

#include <stdint.h>

#include "core/base/error.h"

struct zr_setup;
struct zr_setup_programs;
struct zr_program;

/* Kinds of instructions, functions of the session, and which of their operands is which: see
 * instr.def. */
enum zr_instr_kind {
#define ZR_INSTR(kind, name, queue, begin, ...) ZR_I_##kind,
#include "core/lower/instr.def"
	ZR_I_KINDS
};

enum zr_host_call {
#define ZR_HOST_CALL(call, what, begin, ...) ZR_H_##call,
#include "core/lower/instr.def"
	ZR_H_CALLS
};

#define O(kind, operand)                        ZR_O_##kind##_##operand,
#define ZR_INSTR(kind, name, queue, begin, ...) enum { __VA_ARGS__ ZR_O_##kind##_OPERANDS };
#define ZR_HOST_CALL(call, what, begin, ...)    enum { __VA_ARGS__ ZR_O_##call##_OPERANDS };
#include "core/lower/instr.def"
#undef O

/* Operands of pair k, which are named EACH_; those behind n pairs. */
static inline int32_t zr_in_pair(int32_t each, int64_t k)
{
	return each + 2 * (int32_t)k;
}

static inline int32_t zr_behind_pairs(int32_t operand, int64_t n)
{
	return zr_in_pair(operand, n - 1);
}

/* Memory of a part of a layer whose experts are divided: operands of a layer, from ROWS_SENT on.
 * What a part has follows each other. */
enum {
	ZR_HOME_ROWS_SENT,
	ZR_HOME_GRADS_SENT,
	ZR_HOME_WEIGHTS_SENT,
	ZR_HOME_OFFSETS,
	ZR_HOME_TABLE,
	ZR_HOME_ROWS_CAME,
	ZR_HOME_GRADS_CAME,
	ZR_HOME_WEIGHTS_CAME,
	ZR_HOME_ROWS_MADE,
	ZR_HOME_WEIGHTS_MADE,
	ZR_HOME_ROWS_BACK,
	ZR_HOME_WEIGHTS_BACK,
	ZR_HOME_MEMORY
};

/* COMPUTE and HOST run in order, one instruction after the other: by the operations of the device,
 * or by those on host memory. The others run beside them, in any order; COMM is posted in order. A
 * device may compute later than it is told to: see core/exec/marks.c. */
enum zr_queue { ZR_Q_COMPUTE, ZR_Q_HOST, ZR_Q_COPY, ZR_Q_STORE, ZR_Q_COMM, ZR_QUEUES };
#define ZR_Q_IN_ORDER 2 /* queues before this one */

/* Flags. */
#define ZR_F_MARK    1u  /* of the compute queue: a later copy starts after it */
#define ZR_F_STORE   2u  /* ACCUMULATE: the first contribution or tree becomes the sum */
#define ZR_F_MEASURE 4u  /* ACCUMULATE: the last one is the last of all */
#define ZR_F_DEVICE  16u /* COLLECTIVE: on device memory */
/* COLLECTIVE: an all-to-all of one exchange, with a count for each pair of ranks */
#define ZR_F_COUNTS 512u
/* COLLECTIVE: the same, with counts that a table has when it begins */
#define ZR_F_ROWS     1024u
#define ZR_F_UPDATE   32u   /* part of an update among layers: its time is counted */
#define ZR_F_BACKWARD 64u   /* LAYER: its backward */
#define ZR_F_LOGITS   128u  /* LAYER: no loss, but the logits of the last row */
#define ZR_F_LEAN     2048u /* LAYER: ZR_CALL_LEAN */
/* WRITE: it may go on when its program is over, because it reads a buffer that instructions alone
 * write. Once a program is ordered: it does go on, because no instruction there waits for it. */
#define ZR_F_LATE 256u

/* Access of an operand. */
#define ZR_READS  1u
#define ZR_WRITES 2u

/* Whose memory an operand is in. */
#define ZR_MINE (-1)
/* the same place of all other ranks: what they wrote is seen after a fence */
#define ZR_OTHERS (-2)
/* the shares of all ranks one after the other, as comm maps them; the others' for the proof */
#define ZR_VIEW (-3)
/* 0 and more: of that rank; of another one than this it counts as ZR_OTHERS */

struct zr_operand {
	int32_t region; /* ZR_R_*, -1: none is wanted */
	int32_t whose;
	uint32_t access;
	int32_t unit; /* ZR_VIEW: whose shares */
	/* number of the buffer that `at` is counted in until it has its place, 0: none */
	int32_t buffer;
	int32_t rsv;
	uint64_t at, bytes;
};

/* How far apart `n` equal parts of an operand begin, which reach from its begin to its end. */
static inline uint64_t zr_parts_apart(const struct zr_operand *o, int64_t n, uint64_t bytes)
{
	return n > 1 ? (o->bytes - bytes) / (uint64_t)(n - 1) : 0;
}

/* Memory for a part of a program, in the region whose kind it is. Its life is counted in
 * operations of the record, which are the same on all ranks: others may read a buffer where it
 * lies. */
struct zr_buffer {
	int32_t region;
	int32_t first, last; /* operations between which it holds data, both included; -1: none
				 * yet; last INT32_MAX: to the end of the program */
	uint32_t align;
	uint64_t bytes, offset; /* offset: from where all buffers of its memory begin */
};

struct zr_instr {
	uint8_t kind, queue;
	uint16_t flags;
	/* operation of the recorded program that it is a part of, -1: none */
	int32_t op;
	int32_t unit;   /* for messages, -1: none */
	int32_t number; /* see instr.def */
	/* COLLECTIVE; root where there are counts: the first of them. group of ACCUMULATE:
	 * contributions of a tree, 1: none */
	int32_t group, root;
	int32_t dtype, from; /* element types; ACCUMULATE: what a contribution is rounded to */
	int32_t first, n;    /* operands: lowered.operand[first .. first + n) */
	/* instructions that are over before it starts: lowered.dep[after .. after + n_after); the
	 * last ones are writes that the store of this read sees to, and are ended after it */
	int32_t after, n_after, n_behind;
	/* of the unit, or of the sub-group; COLLECTIVE: `blocks` exchanges */
	int64_t block, blocks;
};

/* What the host computes beside the thread that begins instructions: see core/exec/beside.c. */
static inline int zr_beside_kind(const struct zr_instr *i)
{
	return i->queue == ZR_Q_HOST &&
	       (i->kind == ZR_I_ACCUMULATE || i->kind == ZR_I_OPTIMIZE || i->kind == ZR_I_CAST ||
		i->kind == ZR_I_ENCODE || i->kind == ZR_I_DECODE);
}

/* Bytes that arrive by the k-th exchange of a collective, its own part with them. Of rows that go
 * to experts, and come back: as if all experts had as many. */
static inline uint64_t zr_arriving(const struct zr_instr *i, const struct zr_operand *o, int64_t k)
{
	const uint64_t sent = o[zr_in_pair(ZR_O_COLLECTIVE_EACH_SENT, k)].bytes;
	const uint64_t received = o[zr_in_pair(ZR_O_COLLECTIVE_EACH_RECEIVED, k)].bytes;
	if (i->flags & ZR_F_ROWS && sent < received)
		return sent;
	return received;
}

/* Which operand of a read or a write is in a store; the other one is in memory. */
static inline int32_t zr_stored(const struct zr_instr *i)
{
	return i->kind == ZR_I_WRITE ? ZR_O_COPY_TO : ZR_O_COPY_FROM;
}

static inline int32_t zr_unstored(const struct zr_instr *i)
{
	return i->kind == ZR_I_WRITE ? ZR_O_COPY_FROM : ZR_O_COPY_TO;
}

/* Before an instruction starts, a late write is over: instruction late / ZR_LOWERED of program
 * late % ZR_LOWERED. */
struct zr_late_wait {
	int32_t instr, late;
};

struct zr_subgroup;

struct zr_lowered {
	int32_t id; /* ZR_S_* */
	int32_t n, cap, n_operand, cap_operand, n_dep, cap_dep;
	int32_t n_buffer, cap_buffer, n_wait, cap_wait;
	struct zr_late_wait *wait; /* instruction by instruction */
	struct zr_buffer *buffer;  /* number 1 is the first */
	struct zr_instr *instr;
	struct zr_operand *operand;
	int32_t *dep;
	/* of exchanges with counts: elements for each rank, then from each */
	int64_t *count;
	int32_t n_count, cap_count;
	struct zr_subgroup *subgroup; /* what instructions of sub-groups name by number */
	int32_t n_subgroup, cap_subgroup;
	uint64_t in_place; /* bytes of other ranks that are read where they lie */
	uint64_t hash;
};

/* Programs of a step, in the order in which they run. */
enum zr_lowered_id {
	ZR_S_FIRST,    /* a micro-batch of several: the first, */
	ZR_S_MICRO,    /* the next ones, */
	ZR_S_LAST,     /* the last one; and the only one */
	ZR_S_BOUNDARY, /* loss, norm, non-finite numbers of all ranks */
	ZR_S_MEET,     /* the loss of all ranks, after an evaluation */
	ZR_S_UPDATE,
	ZR_S_ONWARD, /* in place of an update and the next program: the one within the other */
	ZR_S_EVAL,
	ZR_S_VALUES, /* values that were filled in reach all who hold them */
	ZR_LOWERED
};

extern const char *const zr_lowered_name[], *const zr_instr_name[], *const zr_queue_name[];
extern const char *const zr_collective_name[]; /* by ZR_COMM_* */

/* lower.c: all programs of a setup, in whose plan everything has its place but their buffers;
 * gives these theirs, and the plan its sizes. [main] */
int zr_lower_all(struct zr_setup *s, struct zr_error *err);

/* lower.c: orders and verifies them. [main] */
int zr_prove_all(struct zr_setup *s, struct zr_error *err);

/* place.c: offsets of the regions of a plan and of the buffers of all programs. */
int zr_place_all(struct zr_setup *s, struct zr_error *err);

/* order.c: fills dep: what each instruction waits for, which follows from the bytes that it and
 * those before it read and write; what is waited for is not late. Nothing that others imply is
 * added. Where a store takes so many requests at a time, the next one waits for the oldest. */
int zr_order(const struct zr_setup *s, struct zr_lowered *p, struct zr_error *err);

/* order.c: whether i of p is a write, and j of q a read that its store begins when the write is
 * over: it is posted without a wait. */
int zr_kept_behind(const struct zr_setup *s, const struct zr_lowered *p, int32_t i,
		   const struct zr_lowered *q, int32_t j);

/* order.c: whether j, which depends on i, is a copy that starts after a mark of i. */
int zr_starts_after_mark(const struct zr_lowered *p, int32_t i, int32_t j);

/* late.c: fills wait: what of a program waits for the late writes of all programs, which are
 * ordered. */
int zr_late_waits(const struct zr_setup *s, struct zr_lowered *p, struct zr_error *err);

/* verify.c: refuses a program, naming both instructions, in which an instruction reads or writes
 * bytes that another one writes while nothing orders them; reads bytes that do not outlive a
 * program before they are written; touches bytes of a late write and does not wait for it; waits
 * for itself or a later one, or as a copy for one that has no mark; or has more requests under way
 * than a store takes. Linear in operands and dependencies, but for the depth of lists. */
int zr_verify(const struct zr_setup *s, const struct zr_lowered *p, struct zr_error *err);

void zr_lowered_free(struct zr_lowered *p);

/* "gather (unit h.0)" into buf, which it returns; allocates nothing. */
/* that was lowered, NULL: none */
const struct zr_program *zr_record_of(const struct zr_setup_programs *p, int32_t id);
const char *zr_instr_text(const struct zr_setup *s, const struct zr_lowered *p, int32_t i,
			  char *buf, size_t size);

#endif
