/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels_job.h - invariant I1 inside a kernel: no result depends on where its range was cut, in
 * any variant; and every vector variant agrees with the scalar oracle, in most operations bit for
 * bit, over odd sizes, with poisoned outputs between guards. A test is a table of kernels, which
 * job_main() runs.
 */
#ifndef ZEROTH_TESTS_KERNELS_JOB_H
#define ZEROTH_TESTS_KERNELS_JOB_H

#include "cpu/scalar.h"

#include <stdio.h>

#include "kernels_fixture.h"

/* One operation on buffers of its own. Before it is made, span is n and grain 64. */
struct job {
	int64_t span, grain; /* it may be cut at multiples of grain */
	union {
		struct zr_op_embedding embedding;
		struct zr_op_embedding_bwd embedding_bwd;
		struct zr_op_layernorm layernorm;
		struct zr_op_layernorm_bwd layernorm_bwd;
		struct zr_op_rmsnorm rmsnorm;
		struct zr_op_rmsnorm_bwd rmsnorm_bwd;
		struct zr_op_rotary rotary;
		struct zr_op_gelu_bwd gelu_bwd;
		struct zr_op_swiglu swiglu;
		struct zr_op_swiglu_bwd swiglu_bwd;
		struct zr_op_residual residual;
		struct zr_op_cast cast;
		struct zr_op_init init;
		struct zr_op_adamw adamw;
		struct zr_op_sgd sgd;
		struct zr_op_lion lion;
		struct zr_op_adagrad adagrad;
		struct zr_op_lamb lamb;
		struct zr_op_muon muon;
		struct zr_op_muon_factor muon_factor;
		struct zr_op_master master;
		struct zr_op_round_stochastic round_stochastic;
		struct zr_op_fold fold;
		struct zr_op_bias_bwd bias_bwd;
		struct zr_op_logit_cap logit_cap;
		struct zr_op_expert_combine expert_combine;
		struct zr_op_expert_weigh expert_weigh;
	} op;
	float *part;
	struct {
		void *p;
		int64_t n;
		int32_t dtype;
	} out[8];
	int outs;
};

struct shape {
	int64_t rows, width, n; /* n: elements, for what has no rows */
};

struct kernel {
	const char *name;
	void (*make)(struct job *, const struct shape *, int32_t dtype, int variation);
	void (*run)(const struct zr_cpu_kernels *, struct job *, int64_t lo, int64_t hi);
	int variations;
	double tolerance; /* against the oracle, relative to 1 + |value|; 0: the same bits */
};

/* Numbers with full mantissas, so that a changed order of additions shows: the same for every job
 * of the same arguments. */
void *noise(int64_t n, int32_t dtype);
/* The same for a buffer that the operation writes or, with fresh, only writes. */
void *output(struct job *j, int64_t n, int32_t dtype, int fresh);
/* p, its elements made positive */
void *absolute(void *p, int64_t n, int32_t dtype);
const int32_t *draw_tokens(int64_t n, int32_t vocabulary);

/* Every test of every kernel, in every variant. */
int job_main(const char *name, const struct kernel *kernels, int n);

#endif
