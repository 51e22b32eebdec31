/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h - private to the plugin device/cpu: its instance, and what its files offer each other.
 *
 * Every operation is cut into items, which the host's workers take in any order. An item either
 * computes elements that no other item writes, or a partial result that is later added in index
 * order. Sums are cut at places that depend on shapes only, elements among items by the number of
 * workers too: so the bits do not depend on the workers (I1).
 */
#ifndef ZR_DEVICE_CPU_H
#define ZR_DEVICE_CPU_H

#include <checks.h>
#include <kernels.h>
#include <zeroth/optimizer.h>

#define CPU_SCRATCH (8u << 20) /* bytes per worker: packed operands, or attention's tiles */
/* bytes for the partial products of a matrix product split along K */
#define CPU_SPLIT (8u << 20)

struct zr_inst {
	const struct zr_host *h;
	const struct zr_cpu_kernels *k;
	struct zr_native native; /* by which those that it lends optimizers find it */
	int32_t isa, workers;
	char *scratch; /* owned: CPU_SCRATCH bytes per worker, then CPU_SPLIT bytes */
	uint64_t scratch_bytes;
	char variant[64];
	struct zr_ops ops;
	uint64_t limit; /* of device memory, in bytes; 0: it is the host's, without a limit */
	uint64_t used;  /* bytes of live allocations, where there is a limit */
};

static inline void *cpu_scratch(const struct zr_inst *d, int32_t worker)
{
	return d->scratch + (size_t)worker * CPU_SCRATCH;
}

static inline float *cpu_split(const struct zr_inst *d)
{
	return (float *)(d->scratch + (size_t)d->workers * CPU_SCRATCH);
}

static inline int64_t cpu_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t cpu_ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static inline void *cpu_at(const void *base, int32_t dtype, int64_t element)
{
	return (char *)(uintptr_t)base + zr_bytes_of(dtype, element);
}

/* memory.c: functions of zr.device/1 */
int cpu_mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out);
void cpu_mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind);
int cpu_copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes);
int cpu_copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint64_t *ticket);
int cpu_copy_wait(struct zr_inst *d, uint64_t ticket);

/* ops.c: runs fn on n items; one item runs on the caller at once. */
void cpu_parallel(const struct zr_inst *d, int64_t n, void (*fn)(void *, int64_t, int32_t),
		  void *arg);
/* The operations: cpu_matmul() ... */
#define OPERATION(name, arg, last, pointers, work)                                                 \
	int cpu_##name(const struct zr_ops *, struct zr_stream *, const struct zr_op_##arg *);
#define QUERY(name, arg) uint64_t cpu_##name(const struct zr_ops *, const struct zr_op_##arg *);
#include <ops.def>

/* elementwise.c */
int cpu_elementwise(const struct zr_opt_step *s, const struct zr_elementwise *e);

/* matrices.c */
extern const struct zr_matrices cpu_matrices;

/* matmul.c: some rows and columns of a product [m, n], with the bits that they have there. */
int cpu_matmul_of(const struct zr_ops *ops, const struct zr_op_matmul *op, int64_t m, int64_t n);

/* narrow.c: turns a product in 8 bits into one of bf16, on copies of its operands in its work. */
void cpu_narrow(const struct zr_inst *d, struct zr_op_matmul *op);

#endif
