/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.h - private to the double of cards: device/cpu with a memory of its own. Callers get
 * addresses that nobody can touch, `seen`; the memory behind them is `real`.
 */
#ifndef ZR_TESTS_CARDS_H
#define ZR_TESTS_CARDS_H

#include <pthread.h>
#include <zeroth/device.h>
#include <zeroth/optimizer.h>

/* An allocation: whole pages that fault, those with the memory, and a page that faults behind each
 * of the two. */
struct card_piece {
	char *seen, *real;
	uint64_t bytes; /* in whole pages */
	struct card_piece *next;
};

#define CARD_LATE 1024 /* copies under way at most, with late_copies; one more is done at once */

struct card_copy {
	void *dst;
	const void *src;
	uint64_t bytes; /* 0: free */
	uint64_t after; /* so many operations are over before */
	uint64_t more;  /* rows behind the first, so far apart */
	uint64_t dst_apart, src_apart;
	uint32_t begin, end; /* marks that it passes, or ZR_TIME_NONE */
};

/* An operation that waits until something needs it: its struct is behind it. */
struct card_task {
	int (*run)(const struct zr_ops *, const void *op);
	struct card_task *next;
	_Alignas(16) char op[];
};

struct zr_inst {
	const struct zr_host *h;
	struct zr_inst *cpu; /* owned: of device/cpu */
	const struct zr_ops *cpu_ops;
	int separate;              /* operations and copies alone reach its memory */
	struct zr_native native;   /* by which card_elementwise() is called */
	struct zr_ops ops;         /* on addresses of `seen` */
	struct card_piece *pieces; /* owned: the list of live allocations */
	/* owned: [CARD_LATE] that were started, ticket k + 1 at k; NULL: copies are done at once */
	struct card_copy *late;
	pthread_t thread; /* that calls it, once `called` */
	int called;
	int later;         /* operations wait until something needs them */
	int without_marks; /* copies do not look at marks */
	int declared;      /* it says that the host reaches nothing, whatever it does */
	int stream;        /* it names one */
	/* owned: those that wait; how many were enqueued, and how many of these are over */
	struct card_task *first, **last;
	uint64_t enqueued, over;
	uint64_t mark[ZR_MARKS];   /* what was enqueued then */
	struct card_range *pinned; /* owned: the list */
	/* what its clock says, in ns; marks that keep that, owned: [n_time] or NULL; those that
	 * the copies that start pass, or ZR_TIME_NONE */
	int64_t clock;
	struct card_time *time;
	uint32_t n_time, copy_begins, copy_ends;
	int wants_graphs;
	struct zr_graph *graph; /* that is made, owned; NULL: none is */
	/* operations that were called one by one; launches of graphs; operations in these;
	 * graphs */
	long alone, launches, within, graphs, anew;
};

/* cards.c: where the memory behind an address of any kind is. */
void *card_real(const struct zr_inst *d, const void *p);
void *card_real_address(const void *p); /* of the instance that was made last */

/* cards_later.c: operations that wait: one more, whose struct is copied; a copy among them, from
 * memory that need not stay; those before number `end` run; none of those left ever will. */
int card_enqueue(struct zr_inst *d, int (*run)(const struct zr_ops *, const void *), const void *op,
		 size_t size);
int card_enqueue_copy(struct zr_inst *d, void *to, const void *from, uint64_t bytes);
int card_run_until(struct zr_inst *d, uint64_t end);
int card_run_all(struct zr_inst *d);
void card_forget(struct zr_inst *d);

/* cards_time.c: whether a task is a mark; an operation took its time; a copy beside did; functions
 * of zr.device/1 */
int card_is_mark(int (*run)(const struct zr_ops *, const void *));
void card_time_passes(struct zr_inst *d);
void card_time_copied(struct zr_inst *d, uint32_t begin, uint32_t end);
void card_time_end(struct zr_inst *d);
int card_time_open(struct zr_inst *d, uint32_t n);
int card_time_mark(struct zr_inst *d, struct zr_stream *s, uint32_t mark);
int card_time_copies(struct zr_inst *d, uint32_t begin, uint32_t end);
int card_time_between(struct zr_inst *d, uint32_t from, uint32_t to, int64_t *ns);

/* cards_graphs.c: keeps an operation, whose struct is copied, in the graph that is made; fails
 * while one is; writes the counts; functions of zr.device/1 */
int card_graph_keep(struct zr_inst *d, int (*run)(const struct zr_ops *, const void *),
		    const void *op, size_t size);
int card_graph_none(const struct zr_inst *d, const char *what);
void card_graph_count(const struct zr_inst *d);
int card_graph_begin(struct zr_inst *d);
int card_graph_end(struct zr_inst *d, struct zr_graph **graph);
int card_graph_launch(struct zr_inst *d, struct zr_graph *graph);
void card_graph_free(struct zr_inst *d, struct zr_graph *graph);

/* cards_ops.c: fills the table of operations. */
void card_ops_fill(struct zr_inst *d);

/* cards_pinned.c: the list of pinned memory: lent by mem_pin, or of mem_alloc; and functions of
 * zr.device/1 */
int card_pinned_add(struct zr_inst *d, void *p, uint64_t bytes);
void card_pinned_drop(struct zr_inst *d, const void *p);
void card_pinned_end(struct zr_inst *d);
/* fails where a GPU would hold up the host */
int card_check_beside(const struct zr_inst *d, const struct card_copy *c);
int card_mem_pin(struct zr_inst *d, void *p, uint64_t bytes);
void card_mem_unpin(struct zr_inst *d, void *p);

#endif
