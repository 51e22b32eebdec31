/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper_kernels.h - kernels that use all of kernels/cuda/hopper.h, for t_cuda_hopper.c, with
 * mistakes that are planted in them.
 */
#ifndef ZR_TESTS_HOPPER_KERNELS_H
#define ZR_TESTS_HOPPER_KERNELS_H

#include <stdint.h>

enum hopper_fault {
	NO_FAULT,
	/* of one product */
	NO_WAIT_FOR_COPY,
	NO_WAIT_FOR_PRODUCT,
	NO_FENCE_OF_REGISTERS,
	NO_FENCE_OF_MBARRIER,
	NO_COMMIT,
	NO_EXPECTED_BYTES,
	FEWER_BYTES,
	MORE_BYTES,
	WRONG_PARITY,
	OTHER_SWIZZLE,
	WRONG_STRIDE,
	WRONG_LEADING,
	CHANGES_A,
	CHANGES_A_AFTER_FENCE,
	CHANGES_SUMS,
	CHANGES_SUMS_AFTER_FENCE,
	PINS_EARLY,
	WARP_LEFT_OUT,
	/* of a ring */
	NO_WAIT_FOR_RELEASE,
	EARLY_RELEASE,
	NO_RELEASE,
	PARITY_STAYS,
	REGISTERS_KEPT,
	TOO_MANY_REGISTERS,
	WARP_KEEPS_REGISTERS,
	/* of stores for the asynchronous proxy */
	NO_FENCE_OF_STORES,
	PLAIN_STORES,
	NO_BARRIER,
	FENCE_BEHIND_BARRIER,
	COPY_OVER_STORES,
	/* of turns */
	TURN_BY_BLOCK,
	TURN_NOT_PASSED,
	/* of floats that are sent */
	NO_FENCE_OF_SENT,
	NO_FENCE_BEHIND_TURN,
	NO_COMMIT_OF_SENT,
	TURN_BEFORE_SENT,
	CHANGED_BEFORE_SENT,
	NO_WAIT_FOR_SENT,
	/* of named barriers */
	TOO_FEW_ARRIVE,
};

enum { A_SHARED, A_SHARED_MN, A_HELD };

/* d[64][width] = a[m][k] b[k][n], zeros where rows and columns end; rows of a and b are `pitch`
 * elements apart. a_how: A_SHARED_MN has rows of m, one for each k; b_mn: rows of n, otherwise
 * rows of k. */
struct product_case {
	const uint16_t *a, *b;
	int64_t a_pitch, b_pitch;
	int m, n, k, width;
	int a_how, b_mn, swizzle, is_bf16;
	float *d;
	int fault;
};

/* The box of a tensor of any rank as it lies in shared memory. */
struct box_case {
	const uint16_t *x;
	int rank, swizzle;
	int64_t size[4], stride[4]; /* stride in bytes */
	int box[4], first[4];
	uint16_t *to;
	int fault;
};

/* Each block of threads: value = value * 3 + its turn. */
struct turns_case {
	int blocks;
	unsigned *drawn, *turn, *value;
	int fault;
};

/* Each block of threads, in its turn: to[0..n) = or += hopper_sent(turn, i). */
struct sends_case {
	int blocks, n;
	unsigned *drawn, *turn;
	float *to;
	int fault;
};

/* The sum depends on the order. */
static inline float hopper_sent(unsigned turn, int i)
{
	const float large[3] = { 0x1p24F, 1.25F, -0x1p24F };
	return large[turn % 3] + (float)i;
}

#ifdef __cplusplus
extern "C" {
#endif

/* What is asynchronous ends in another order: a bit for warps, copies, and products. */
void hopper_order(int bits);

/* 0, or there is no such tensor map. */
int hopper_product(const struct product_case *);
/* The same by a ring of stages and two warpgroups: d[128][64], K contiguous in both. */
int hopper_ring(const struct product_case *);
/* The same of one warpgroup, which stores both operands itself. */
int hopper_stored(const struct product_case *);
int hopper_box(const struct box_case *);
int hopper_turns(const struct turns_case *);
int hopper_sends(const struct sends_case *);
/* to[thread] = the number that the thread of the other half has shown; of 128 threads. */
int hopper_named(int *to, int fault);

#ifdef __cplusplus
}
#endif
#endif
