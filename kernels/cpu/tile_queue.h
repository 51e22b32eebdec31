/* SPDX-License-Identifier: Apache-2.0
 *
 * tile_queue.h - products by tile registers that wait in a queue. The registers work beside the
 * vector units: what computes in vectors calls for a step in between, a block of a sum.
 */
#ifndef ZEROTH_KERNELS_CPU_TILE_QUEUE_H
#define ZEROTH_KERNELS_CPU_TILE_QUEUE_H

#include "simd.h"
#include "tiles.h"

#define COL   16 /* columns of a tile, rows too */
#define QUEUE 8  /* products that wait at most */

/* `times` pieces c[32, 32] = or += a b, each a sum of so many blocks. a is rows of words that are
 * pairs along the sum; b is columns of 16, each [pairs][16] words. */
struct product {
	float *c;
	const uint32_t *a, *b;
	int64_t ldc, row, col;          /* floats from row to row of c, bytes of a, words of b */
	int64_t a_step, b_step;         /* words from a block to the next along the sum */
	int64_t c_next, a_next, b_next; /* and from a piece to the next */
	int64_t blocks, times;
	int add;
};

struct queue {
	int64_t n, at;      /* products; the one at work */
	int64_t done, left; /* steps of its piece done, of all left */
	float *c;           /* where the sums in the registers belong, or NULL */
	int64_t ldc;        /* between rows there */
	struct product p[QUEUE];
};

static inline void enqueue(struct queue *q, struct product p)
{
	q->p[q->n++] = p;
	q->left += p.blocks * p.times;
}

/* Register t is stored where its last sum belongs, and begins another one at c. */
#define TURN(q, p, t, at_row, at_col)                                                              \
	do {                                                                                       \
		const int64_t bytes = (p)->ldc * (int64_t)sizeof(float);                           \
		if ((q)->c)                                                                        \
			TILE_STORE(t, (q)->c + (at_row) * (q)->ldc + (at_col),                     \
				   (q)->ldc * (int64_t)sizeof(float));                             \
		if ((p)->add)                                                                      \
			TILE_LOAD(t, (p)->c + (at_row) * (p)->ldc + (at_col), bytes);              \
		else                                                                               \
			TILE_ZERO(t);                                                              \
	} while (0)

/* The next step, of which there is one. A sum takes long to leave the multiplier, and what comes
 * after a store waits for it: so sums are stored one by one between the first products of the next
 * piece. */
ZR_INLINE void step(struct queue *q)
{
	struct product *p = &q->p[q->at];
	const uint32_t *a = p->a + q->done * p->a_step, *b = p->b + q->done * p->b_step;

	__asm__ volatile("" ::: "memory"); /* gcc's loads of tiles do not say that they read */
	TILE_LOAD(4, a, p->row);
	TILE_LOAD(6, b, 64);
	if (!q->done) {
		TURN(q, p, 0, 0, 0);
		TILE_MULTIPLY_ADD(0, 4, 6);
		TILE_LOAD(7, b + p->col, 64);
		TURN(q, p, 1, 0, COL);
		TILE_MULTIPLY_ADD(1, 4, 7);
		TILE_LOAD(5, a + COL * p->row / 4, p->row);
		TURN(q, p, 2, COL, 0);
		TILE_MULTIPLY_ADD(2, 5, 6);
		TURN(q, p, 3, COL, COL);
		TILE_MULTIPLY_ADD(3, 5, 7);
		q->c = NULL;
	} else {
		TILE_MULTIPLY_ADD(0, 4, 6);
		TILE_LOAD(7, b + p->col, 64);
		TILE_MULTIPLY_ADD(1, 4, 7);
		TILE_LOAD(5, a + COL * p->row / 4, p->row);
		TILE_MULTIPLY_ADD(2, 5, 6);
		TILE_MULTIPLY_ADD(3, 5, 7);
	}

	q->left--;
	if (++q->done < p->blocks)
		return;

	q->done = 0;
	q->c = p->c;
	q->ldc = p->ldc;
	p->c += p->c_next;
	p->a += p->a_next;
	p->b += p->b_next;
	q->at += !--p->times;
}

/* All steps, and the sums where they belong. */
static inline void finish(struct queue *q)
{
	while (q->left)
		step(q);
	if (q->c) {
		const int64_t bytes = q->ldc * (int64_t)sizeof *q->c;
		TILE_STORE(0, q->c, bytes);
		TILE_STORE(1, q->c + COL, bytes);
		TILE_STORE(2, q->c + COL * q->ldc, bytes);
		TILE_STORE(3, q->c + COL * q->ldc + COL, bytes);
	}

	q->c = NULL;
	q->n = q->at = 0;
}

/* Of n times that this is called, time i: does the steps that are due, of `all` there were. */
ZR_INLINE void steps(struct queue *q, int64_t all, int64_t i, int64_t n)
{
	while (q->left * n > all * (n - 1 - i))
		step(q);
}

#endif
