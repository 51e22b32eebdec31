/* SPDX-License-Identifier: Apache-2.0
 *
 * optimizer.h - a few small parameters, with gradients and states, that an optimizer updates as
 * core would: in pieces of whole blocks, each lent between pages that nobody may touch.
 */
#ifndef ZR_CMD_CHECK_OPTIMIZER_H
#define ZR_CMD_CHECK_OPTIMIZER_H

#include <zeroth/optimizer.h>

#include "cmd/check/check.h"
#include "core/base/exact.h"
#include "core/setup.h"

#define ZR_BENCH_STATES  16
#define ZR_BENCH_TENSORS 4

/* The gradients of a run. */
enum {
	ZR_GRAD_RANDOM,
	ZR_GRAD_ODD,  /* some are not finite, or tiny */
	ZR_GRAD_ZERO, /* all are 0 */
	ZR_GRAD_SOME, /* two of three are 0 */
	ZR_GRAD_TINY, /* their squares are 0 in fp32 */
};

/* The parameters with which a run begins. */
enum {
	ZR_PARAM_RANDOM,
	ZR_PARAM_ZERO,
	ZR_PARAM_TIES,    /* halfway between numbers of 16 bits, and where they are few */
	ZR_PARAM_SPECIAL, /* no numbers, infinite, the largest */
};

/* Whose options a run has: beside the plain ones there are others, as of a parameter group, in
 * which every option with ZR_O_GROUP has another value. */
enum {
	ZR_GROUPS_PLAIN,
	ZR_GROUPS_OTHER, /* created and called with the others */
	ZR_GROUPS_MIXED, /* created with the plain ones, every second tensor has the others */
};

/* How a test differs from the plainest run. */
struct zr_bench_way {
	int piece;     /* blocks of a piece; 0: all at once, or with step_whole a tensor */
	int backwards; /* pieces from last to first */
	int32_t lowp;  /* ZR_BF16, ZR_F16, ZR_F32; 0: none */
	int steps;     /* 0: 3; -1: none */
	int restart;   /* a new instance before this step; 0: none */
	int32_t rank, world;
	float scale;    /* of the gradients, which grad_mult takes back; 0: 1 */
	double lr;      /* 0: 1e-2 */
	int grads;      /* ZR_GRAD_* */
	int params;     /* ZR_PARAM_* */
	int groups;     /* ZR_GROUPS_* */
	uint32_t mem;   /* ZR_MEM_* of the buffers; 0: ZR_MEM_HOST */
	int lenient;    /* steps may fail */
	uint32_t minor; /* of the host; 0: today's */
	uint64_t grown; /* bytes behind the structs of today */
};

/* All bytes after the steps: masters, states, copies in 16 bits. */
struct zr_bench {
	struct zr_check *c;
	struct zr_try it;
	const struct zr_optimizer_v1 *v;
	struct zr_state state[ZR_BENCH_STATES]; /* as declared */
	uint32_t n_states;
	uint32_t flags[ZR_BENCH_STATES]; /* ZR_STATE_* */
	/* of states by shape: bytes per block of each tensor */
	uint32_t by_shape[ZR_BENCH_STATES][ZR_BENCH_TENSORS];
	int64_t blocks, elements; /* of all tensors */
	float *master, *grad;
	int no_fp16; /* it says that it does not write such copies */
	char *lowp, *data[ZR_BENCH_STATES];
	void *others; /* options of ZR_GROUPS_MIXED; NULL: none */
	struct zr_exact sums[ZR_BENCH_TENSORS][64];
	double total[ZR_BENCH_TENSORS][64]; /* of partial() */
	/* scalars of the run, and those before the last update */
	double run[ZR_OPT_RUN], run_before[ZR_OPT_RUN];
	double all[64]; /* sums over all parameters, of the last partial() */
	/* of its update of one element (zeroth/elementwise.h): constant data; NULL: it has none */
	const char *functions, *text;
};

struct zr_bench *zr_bench_run(struct zr_check *c, const struct zr_bench_way *way);
void zr_bench_free(struct zr_bench *b);
/* How many scalars of the run it has in the host that is played, 0: none. */
uint32_t zr_bench_scalars(const struct zr_bench *b);
/* Those, which a step may only read; zr_area_free() takes them. NULL: it has none. */
double *zr_bench_lend_scalars(const struct zr_bench *b, const double *values);
/* What a call may return that way. */
void zr_bench_judge(struct zr_bench *b, const struct zr_bench_way *way, int rc);
/* Scalars of the run for this update: those of a step that does not count are made again. A run
 * ends with sums that are not finite. */
void zr_bench_advance(struct zr_bench *b, const struct zr_bench_way *way, int number);
/* Bytes from block to block of a state: of one by shape the most of any tensor, whose own blocks
 * lie together where its first one does; bytes of a block of a tensor. */
uint64_t zr_bench_block(const struct zr_bench *b, uint32_t i);
/* Whether it says how large states by shape are. */
int zr_bench_may_be_by_shape(const struct zr_optimizer_v1 *v);
uint64_t zr_bench_block_of(const struct zr_bench *b, uint32_t i, int tensor);
/* Fails with the first element that differs; `what` continues "with ... ". */
void zr_bench_same(const struct zr_bench *a, const struct zr_bench *b, const char *what);
/* The same, of the elements of one tensor. */
void zr_bench_same_tensor(const struct zr_bench *a, const struct zr_bench *b, int tensor,
			  const char *what);
/* Gives every option with ZR_O_GROUP but lr another value that suits the plugin; how many. */
int zr_bench_other_options(struct zr_try *t);

/* Bits of what lies behind the elements of a tensor in its last block. */
#define ZR_BENCH_PADDING 0x7fc0b10cu

/* The tensors, and where they start, in blocks. */
struct zr_bench_tensor {
	const char *name;
	int32_t ndim;
	int64_t dims[2], elements, first, blocks;
};
extern const struct zr_bench_tensor zr_bench_tensors[ZR_BENCH_TENSORS];
int zr_bench_padding(int64_t element); /* whether it belongs to no tensor */

#endif
