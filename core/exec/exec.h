/* SPDX-License-Identifier: Apache-2.0
 *
 * exec.h - runs the programs of a step. Instructions are begun in order; before one begins, what it
 * waits for ends. Nothing here decides anything: what happens is in the program, one function per
 * kind of instruction. [step]
 */
#ifndef ZR_CORE_EXEC_H
#define ZR_CORE_EXEC_H

#include "core/lower/instr.h"
#include "core/session.h"

/* An instruction with its operands and their addresses. */
struct zr_call {
	const struct zr_lowered *program;
	const struct zr_instr *i;
	const struct zr_operand *o;
	char *const *at;               /* [i->n], NULL: no address, or none is wanted */
	const struct zr_comm_seg *seg; /* COLLECTIVE: [i->blocks] */
	uint64_t *ticket;              /* that what goes on beside others gets: not 0 */
	struct zr_error *err;          /* says why it failed */
};

/* Begins an instruction, or ends it. */
typedef int zr_call_fn(struct zr_session *s, const struct zr_call *c);

/* The functions that core/lower/instr.def names: of moves.c, compute.c, calls.c; decide.c: targets
 * and learning rates before a step, its decision after the boundary; data.c: the micro-batch that
 * the session is at. */
#define ZR_INSTR_BESIDE(kind, name, queue, begin, end, ...) zr_call_fn begin, end;
#define ZR_INSTR(kind, name, queue, begin, ...)             zr_call_fn begin;
#define ZR_HOST_CALL(call, what, begin, ...)                zr_call_fn begin;
#include "core/lower/instr.def"

/* graphs.c: the operations of an instruction of the program that runs. What comes next is none of
 * them: the device gets what was kept back before. */
const struct zr_ops *zr_ops_for(const struct zr_session *s, const struct zr_instr *i);
int zr_graph_apart(struct zr_session *s, struct zr_error *err);

/* slices.c: from a call of all rows of a slot, that of the slice that the instruction is for. */
void zr_slice_call(const struct zr_setup_facts *f, const struct zr_instr *i,
		   struct zr_layer_call *call);

/* homes.c: with ZR_F_ROWS, how many elements go where; the part of a layer that an instruction is
 * for, and in s->call where its rows are, behind so many pairs of units. */
void zr_rows_to_exchange(const struct zr_session *s, const struct zr_call *c,
			 struct zr_comm_exchange *x);
void zr_home_part(const struct zr_setup_facts *f, const struct zr_instr *i,
		  struct zr_home_call *part);
void zr_point_home(struct zr_session *s, const struct zr_call *c, int64_t units);

/* data.c: the sum of all weights of the step, the same on all ranks. */
int zr_count_targets(struct zr_session *s, double *sum, struct zr_error *err);

/* bind.c: the addresses of all programs' operands; needs the session's memory. [main] */
int zr_bind(struct zr_session *s, struct zr_error *err);
void zr_unbind(struct zr_session *s);

/* issue.c: instruction n of the program that runs begins, when what it waits for ended; ends, if it
 * goes on. A failure gets the text of what and where. */
int zr_begin(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err);
int zr_end(struct zr_session *s, const struct zr_lowered *p, int32_t n, struct zr_error *err);
/* what graphs.c keeps back of the instructions that have begun */
int zr_end_stretch(struct zr_session *s, struct zr_error *err);
/* a late write, by the number that waits have */
int zr_end_late(struct zr_session *s, int32_t late, struct zr_error *err);

/* marks.c: whether the device remembers what was enqueued so far; makes a mark of it, if so, to be
 * known by a number; the slot of the mark that a copy of the running program starts after. */
int zr_can_mark(const struct zr_session *s);
int zr_mark(struct zr_session *s, uint64_t *mark, struct zr_error *err);
uint32_t zr_mark_before(const struct zr_session *s, const struct zr_instr *copy);

/* beside.c: a thread for what the host computes. Opens it where there is use for it; [main].
 * Whether it takes an instruction; gives it one, which gets a ticket; waits for one, for all: a
 * failure is that of the first one that failed, which the session is then at. On that thread: the
 * instruction that runs, -1: this is another thread. */
int zr_beside_open(struct zr_session *s, struct zr_error *err);
void zr_beside_close(struct zr_session *s);
int zr_beside_takes(const struct zr_session *s, const struct zr_instr *i);
void zr_beside_give(struct zr_session *s, const struct zr_call *c, zr_call_fn *fn, int32_t number);
int zr_beside_wait(struct zr_session *s, uint64_t ticket, struct zr_error *err);
int zr_beside_settle(struct zr_session *s, struct zr_error *err);
int32_t zr_beside_at(void);

/* ranges.c: what runs, by name, for tools that watch the device, if that tells them. Opens the
 * names; [main]. A step begins, or ends; an instruction begins, and if it says 1, ends; the program
 * that ran is over. */
int zr_ranges_open(struct zr_session *s, struct zr_error *err);
void zr_ranges_close(struct zr_session *s);
void zr_range_step(const struct zr_session *s, int begins);
int zr_range_begins(const struct zr_session *s, const struct zr_lowered *p, int32_t n);
void zr_range_ends(const struct zr_session *s);
void zr_range_program_ends(const struct zr_session *s);

/* run.c: a program from its beginning to the end of all it began but late writes. */
int zr_run_program(struct zr_session *s, int32_t id, struct zr_error *err);

/* The step that what runs now belongs to: an update that is owed is the one before's. */
static inline int64_t zr_step_running(const struct zr_session *s)
{
	const struct zr_lowered *p = s->running;
	if (!s->owed || !p)
		return s->step + 1;
	if (p->id == ZR_S_UPDATE || p->instr[s->at].flags & ZR_F_UPDATE)
		return s->step;
	return s->step + 1;
}

/* What runs now, for people; allocates nothing. */
void zr_running_text(const struct zr_session *s, char *out, size_t size);

#endif
