/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_args.h - the argument of the kernels in elementwise.cuh, in C and in what NVRTC
 * compiles.
 */
#ifndef ZEROTH_KERNELS_ELEMENTWISE_ARGS_H
#define ZEROTH_KERNELS_ELEMENTWISE_ARGS_H

#define ZR_EW_STATES    8
#define ZR_EW_CONSTANTS 32
#define ZR_EW_SEGMENTS  64  /* of one call that measures sums */
#define ZR_EW_THREADS   256 /* of a block */

struct zr_ew_args {
	const float *grad;
	float *master;
	void *lowp;
	void *state[ZR_EW_STATES]; /* as the type of each says */
	const double *total;       /* of the sums, in device memory */
	double *sums;              /* [n_seg][SUMS], in device memory */
	uint64_t seed, step;
	int64_t n;     /* elements; 0 when measuring */
	int64_t first; /* of them within the parameter */
	/* measuring: where segments start in the buffers, and their elements, at most a block */
	int64_t off[ZR_EW_SEGMENTS];
	int32_t count[ZR_EW_SEGMENTS];
	uint32_t n_seg;
	uint32_t param;
	float mult;
	int32_t whole; /* buffers can be read four elements at a time */
	float k[ZR_EW_CONSTANTS];
};

#endif
