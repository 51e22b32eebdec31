/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.h - private to the plugin device/cuda: its instance, and what its files offer each other.
 *
 * Operations are enqueued on one stream and return at once; copies beside them have streams for
 * each direction. What goes wrong on the device is found by a later call, at the latest by sync:
 * error.c.
 */
#ifndef ZR_DEVICE_CUDA_H
#define ZR_DEVICE_CUDA_H

#include <checks.h>
#include <kernels_cuda.h>
#include <zeroth/optimizer.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

/* matrix products whose algorithm is remembered, a power of two */
#define CUDA_SHAPES 512
/* bytes of device memory for cuBLASLt, of every product the same */
#define CUDA_WORKSPACE (32ull << 20)
#define CUDA_PARTS     (16ull << 20) /* bytes of device memory for partial sums over rows */
/* bytes left free for kernels, which are loaded when first used, and their stacks */
#define CUDA_CODE   (512ull << 20)
#define CUDA_COPIES 256   /* copies under way at most; one more is done at once */
#define CUDA_GRID_Y 65535 /* rows of a grid */
#define CUDA_LEAST  80    /* compute capability * 10 */

/* What an algorithm of cuBLASLt was chosen for. Compared as bytes. */
struct cuda_shape {
	int64_t m, n, k, lda, ldb, ldd;
	uint32_t flags;   /* of the operation, and whether it has bias and pre */
	uint32_t types;   /* of a, b, d, by 8 bits */
	uint32_t aligned; /* of a, b, d, bias, pre, by 5 bits: log2 of bytes, at most 16 bytes */
	uint32_t used;
};

struct cuda_choice {
	struct cuda_shape shape;
	cublasLtMatmulAlgo_t algo;
	int32_t own; /* cuBLASLt takes no such product: ours does */
};

struct zr_inst {
	const struct zr_host *h;
	struct zr_native native;     /* by which cuda_elementwise() is called */
	struct cuda_update *updates; /* owned: compiled ones */
	int device, capability;
	int node;       /* that the GPU is plugged into; -1: it does not matter */
	char sysfs[64]; /* its directory there, if node is known */
	int tf32, graphs;
	int hopper; /* attention's kernels of compute capability 9.0 were tried and are used */
	cudaStream_t stream; /* of operations */
	/* of copies to the device and from it: of those that wait for operations, and the others */
	struct {
		cudaStream_t in, out;
	} waiting, ready;
	cudaEvent_t reached;             /* by the operations, when a copy started */
	cudaEvent_t marked[ZR_MARKS];    /* by the operations, at each mark */
	cudaEvent_t copied[CUDA_COPIES]; /* end of the copy with ticket k + 1 */
	uint8_t copying[CUDA_COPIES];
	cudaEvent_t *timed; /* [n_timed] owned: marks that keep the time; NULL: none are wanted */
	uint32_t n_timed;
	uint32_t copy_begins, copy_ends; /* of these, that the next copies pass; or ZR_TIME_NONE */
	cublasLtHandle_t lt;
	struct cuda_choice *choice; /* [CUDA_SHAPES], owned */
	/* device memory, owned: CUDA_WORKSPACE bytes, then CUDA_PARTS */
	void *scratch;
	/* bytes of device memory for callers, and of live allocations */
	uint64_t memory, used;
	int codes;        /* whether the last operand of 8 bits became codes, else bf16 */
	const char *last; /* operation that was enqueued last */
	int complained;   /* while memory and streams were given back */
	int strayed;      /* host memory that could not be asked of the node */
	char name[64], variant[64];
	struct zr_ops ops;
};

static inline cudaStream_t cuda_stream(const struct zr_inst *d, struct zr_stream *s)
{
	return s ? (cudaStream_t)s : d->stream;
}

static inline float *cuda_parts(const struct zr_inst *d)
{
	return (float *)((char *)d->scratch + CUDA_WORKSPACE);
}

/* error.c: e as a failure with rank, device, what was done and CUDA's own words; ZR_OK if it is
 * success. An error that a kernel or a copy left behind is found by a later call: the text says so,
 * and how to find whose it is. */
int cuda_result(const struct zr_inst *d, cudaError_t e, const char *what);
/* the same as a warning, once: nothing is left to fail */
void cuda_gave_back(struct zr_inst *d, cudaError_t e, const char *what);
int cuda_blas_result(const struct zr_inst *d, cublasStatus_t e, const char *what);

/* memory.c: functions of zr.device/1 */
int cuda_mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out);
void cuda_mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind);
int cuda_mem_pin(struct zr_inst *d, void *p, uint64_t bytes);
void cuda_mem_unpin(struct zr_inst *d, void *p);
int cuda_copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes);
int cuda_sync(struct zr_inst *d, struct zr_stream *s);
int cuda_copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes,
		    uint64_t *ticket);
int cuda_mark(struct zr_inst *d, uint32_t slot);
int cuda_copy_after(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint32_t slot,
		    uint64_t *ticket);
int cuda_copy_rows(struct zr_inst *d, const struct zr_device_rows *r, uint64_t *ticket);
int cuda_copy_wait(struct zr_inst *d, uint64_t ticket);

/* time.c: functions of zr.device/1; marks that a copy on a stream passes, if it shall; all events
 * go, when nothing runs any more */
int cuda_time_open(struct zr_inst *d, uint32_t n);
int cuda_time_mark(struct zr_inst *d, struct zr_stream *s, uint32_t mark);
int cuda_time_copies(struct zr_inst *d, uint32_t begin, uint32_t end);
int cuda_time_between(struct zr_inst *d, uint32_t from, uint32_t to, int64_t *ns);
int cuda_time_copy_begins(struct zr_inst *d, cudaStream_t s);
int cuda_time_copy_ends(struct zr_inst *d, cudaStream_t s);
void cuda_time_end(struct zr_inst *d);

/* ranges.c: functions of zr.device/1; NULL without the headers of NVTX */
#if __has_include(<nvtx3/nvToolsExt.h>)
void cuda_range_push(struct zr_inst *d, const char *name);
void cuda_range_pop(struct zr_inst *d);
#else
#define cuda_range_push NULL
#define cuda_range_pop  NULL
#endif

/* graphs.c: functions of zr.device/1 */
int cuda_graph_begin(struct zr_inst *d);
int cuda_graph_end(struct zr_inst *d, struct zr_graph **graph);
int cuda_graph_launch(struct zr_inst *d, struct zr_graph *graph);
void cuda_graph_free(struct zr_inst *d, struct zr_graph *graph);

/* The operations: cuda_matmul() ... */
#define OPERATION(name, arg, last, pointers, work)                                                 \
	int cuda_##name(const struct zr_ops *, struct zr_stream *, const struct zr_op_##arg *);
#define QUERY(name, arg) uint64_t cuda_##name(const struct zr_ops *, const struct zr_op_##arg *);
#include <ops.def>

/* elementwise.c */
int cuda_elementwise(const struct zr_opt_step *s, const struct zr_elementwise *e);
void cuda_elementwise_end(struct zr_inst *d); /* nothing runs any more */

#endif
