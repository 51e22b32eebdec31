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

/* Memory of a played device. If it is separate there are two ranges of addresses: `seen`, which
 * callers get and nobody can touch, and `real`, where the memory is; byte i of one is byte i of the
 * other. */
struct cpu_arena {
	uint64_t limit, used; /* bytes of live allocations; limit 0: memory of the host */
	char *seen, *real;
	uint64_t span;            /* bytes of each range, 0: not separate */
	struct cpu_piece *pieces; /* owned: live allocations in it, ascending */
};

#define CPU_LATE 1024 /* copies under way at most, with late_copies; one more is done at once */

struct cpu_copy {
	char *dst;
	const char *src;
	int64_t bytes; /* 0: free */
};

struct zr_inst {
	const struct zr_host *h;
	const struct zr_cpu_kernels *k;
	struct zr_native native; /* by which cpu_elementwise() is called */
	int32_t isa, workers;
	char *scratch; /* owned: CPU_SCRATCH bytes per worker, then CPU_SPLIT bytes */
	uint64_t scratch_bytes;
	char variant[64];
	struct zr_ops ops;          /* the operations */
	struct zr_ops separate_ops; /* the same on addresses of `seen` */
	struct cpu_arena arena;
	/* owned: [CPU_LATE] that were started, ticket k + 1 at k; NULL: copies are done at once */
	struct cpu_copy *late;
	struct cpu_range *pinned; /* owned: the list */
};

/* Where the memory behind an address of any kind is. */
static inline void *cpu_real(const struct zr_inst *d, const void *p)
{
	uintptr_t at = (uintptr_t)p - (uintptr_t)d->arena.seen;
	return at < d->arena.span ? d->arena.real + at : (void *)(uintptr_t)p;
}

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

/* memory.c: the arena, and functions of zr.device/1 */
int cpu_arena_open(struct zr_inst *d, uint64_t limit, int separate);
void cpu_arena_close(struct zr_inst *d);
int cpu_mem_alloc(struct zr_inst *d, uint64_t bytes, uint32_t kind, void **out);
void cpu_mem_free(struct zr_inst *d, void *p, uint64_t bytes, uint32_t kind);
int cpu_copy(struct zr_inst *d, struct zr_stream *s, void *dst, const void *src, uint64_t bytes);
int cpu_copy_start(struct zr_inst *d, void *dst, const void *src, uint64_t bytes, uint64_t *ticket);
int cpu_copy_wait(struct zr_inst *d, uint64_t ticket);

/* pinned.c: the list of pinned memory: lent by mem_pin, or of mem_alloc; and functions of
 * zr.device/1 */
int cpu_pinned_add(struct zr_inst *d, void *p, uint64_t bytes);
void cpu_pinned_drop(struct zr_inst *d, const void *p);
void cpu_pinned_end(struct zr_inst *d);
/* fails where a GPU would hold up the host */
int cpu_check_beside(const struct zr_inst *d, const struct cpu_copy *c);
int cpu_mem_pin(struct zr_inst *d, void *p, uint64_t bytes);
void cpu_mem_unpin(struct zr_inst *d, void *p);

/* separate.c: fills the table of operations on a separate memory. */
void cpu_separate_fill(struct zr_ops *ops, struct zr_inst *d);

/* ops.c: runs fn on n items; one item runs on the caller at once. */
void cpu_parallel(const struct zr_inst *d, int64_t n, void (*fn)(void *, int64_t, int32_t),
		  void *arg);
/* The operations: cpu_matmul() ... */
#define OPERATION(name, arg, last, pointers, work)                                                 \
	int cpu_##name(const struct zr_ops *, struct zr_stream *, const struct zr_op_##arg *);
#define QUERY(name, arg) uint64_t cpu_##name(const struct zr_ops *, const struct zr_op_##arg *);
#include <ops.def>

/* elementwise.c, on a separate memory, too */
int cpu_elementwise(const struct zr_opt_step *s, const struct zr_elementwise *e);

/* matmul.c: some rows and columns of a product [m, n], with the bits that they have there. */
int cpu_matmul_of(const struct zr_ops *ops, const struct zr_op_matmul *op, int64_t m, int64_t n);

#endif
