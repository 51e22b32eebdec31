/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_case.h - attention problems for tests: made, run by a variant, compared.
 *
 * Each run poisons outputs and scratch with NaN, the inputs' padding is poisoned too, and what lies
 * around the outputs is checked: a value not written, a stray read or a stray write shows.
 */
#ifndef ZEROTH_TESTS_ATTENTION_CASE_H
#define ZEROTH_TESTS_ATTENTION_CASE_H

#include <kernels.h> /* before cmocka.h, whose fail() is a macro */

#include <setjmp.h>

#include <cmocka.h>

struct variant {
	const char *name;
	void (*forward)(const struct zr_op_attention *, int64_t lo, int64_t hi, void *scratch);
	void (*backward)(const struct zr_op_attention_bwd *, int64_t parts, int64_t lo, int64_t hi,
			 void *scratch, float *delta, float *sums);
	void (*sum)(const struct zr_op_attention_bwd *, int64_t parts, int64_t lo, int64_t hi,
		    float *sums);
	int64_t (*sums)(const struct zr_op_attention *);
	uint64_t (*scratch)(const struct zr_op_attention *, int backward);
};

extern const struct variant oracle64; /* the scalar source in double; storage ZR_F64 */
extern struct variant variants[5];    /* those this machine can run, the scalar one first */
extern int n_variants;
void find_variants(void);

/* q, k, v of a token lie in one row, as a model has them, and so do dq, dk, dv. */
struct problem {
	struct zr_op_attention_bwd op;
	int64_t B, T, H, G, D; /* batch, length, heads, key-value heads, head_dim */
	/* of the heads that share a key-value head, in the backward; 1 at first */
	int64_t parts;
	int32_t dtype;
	/* elements, padding between rows included */
	int64_t in_stride, out_stride, n_in, n_out, n_lse;
	char *qkv, *out, *dout, *dqkv, *lse, *delta; /* owned */
	int32_t *starts;                             /* owned; NULL: one document */
	size_t elem, real;                           /* bytes of an element and of lse */
};

extern int64_t attention_pad; /* elements between rows that belong to nobody */

/* Inputs drawn as make_attention.py does, times `by`; free with drop(). */
struct problem make(const int64_t shape[5], int32_t dtype, uint64_t seed, double by);
void drop(struct problem *p);

/* Cuts each sequence into documents, some of one token, some longer than a tile. */
void give_documents(struct problem *p);

struct options {
	float dropout;
	int documents; /* 1: give_documents() */
	int64_t window;
	float softcap;
};
void give_options(struct problem *p, const struct options *options);

double get(const struct problem *p, const void *base, int64_t i);
void put(const struct problem *p, void *base, int64_t i, double x);
double get_lse(const struct problem *p, int64_t i);

/* Compute in two calls, the heads (backward: the parts) from `cut` on first. */
void forward(const struct variant *v, struct problem *p, int64_t cut);
void backward(const struct variant *v, struct problem *p, int64_t cut);
void both(const struct variant *v, struct problem *p);

/* A forward of the queries from `first` on alone gives the bits of the whole one, and touches no
 * more. */
void assert_rows_alone(const struct variant *v, struct problem *p, int64_t first);

/* Forward and backward give the same bits where q, k and v of a head lie side by side, with padding
 * behind each head, as where the heads of each are together. */
void assert_heads_apart(const struct variant *v, struct problem *p);

/* A forward that also gives the largest score of each head, before its soft cap, has the bits of
 * one that does not, and gives what a plain loop over the queries and the keys that they attend to
 * gives in double; what is larger already stays. */
void assert_largest_scores(const struct variant *v, struct problem *p);

/* B, T, heads, kv_heads, head_dim; around every tile, panel, vector and block of the vector
 * kernels */
#define N_ATTENTION_SHAPES 14
extern const int64_t attention_shapes[N_ATTENTION_SHAPES][5];

/* Every variant agrees with the oracle on these shapes; `parts` as in struct problem, of shapes
 * that have so many. */
void assert_variants_agree(int64_t parts, int32_t dtype, const struct options *options,
			   double tolerance);

/* A window of the length or more gives the bits of no window. */
void assert_wide_windows(const struct variant *v, struct problem *p);

/* In a window, the last tokens of a sequence get the bits that they get without the first 128, and
 * of the first 64 nothing is read for them. */
void assert_window_forgets(const struct variant *v, int32_t dtype, int64_t head_dim);

/* |x - y|^2 and |y|^2, to assert a relative norm per tensor. */
struct distance {
	double diff, norm;
};
void measure(struct distance *d, double x, double y);
void assert_close(const struct distance *d, double tolerance, const struct problem *p,
		  const char *variant, const char *what);
/* out, lse, dq, dk, dv of x against those of y. */
void compare_all(const struct problem *x, const struct problem *y, double tolerance,
		 const char *variant);

#endif
