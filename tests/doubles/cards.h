/* SPDX-License-Identifier: Apache-2.0
 *
 * cards.h - private to the double of cards: device/cpu with a memory of its own. Callers get
 * addresses that nobody can touch, `seen`; the memory behind them is `real`.
 */
#ifndef ZR_TESTS_CARDS_H
#define ZR_TESTS_CARDS_H

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
	struct card_range *pinned; /* owned: the list */
};

/* cards.c: where the memory behind an address of any kind is. */
void *card_real(const struct zr_inst *d, const void *p);
void *card_real_address(const void *p); /* of the instance that was made last */

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
