/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu_blas.c - tiles of matrix products through OpenBLAS, one thread per call. Its kernels take fp32
 * only: bf16 and fp16 operands are widened in panels along K, in the scratch of the worker.
 */
#include "cpu.h"

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#include <sched.h>
#include <string.h>
#include <time.h>

int cpu_blas_present(void)
{
	return 1;
}

const char *cpu_blas_core(void)
{
	return openblas_get_corename();
}

/* ---- warming: a buffer inside OpenBLAS for every worker ------------------------------------------
 * OpenBLAS maps a buffer when more calls run at once than ever before, and keeps it. So all workers
 * must be inside a product at the same time once, before the first step (I3). */
#define WARM_N 160

struct warm {
	int32_t inside, workers;
	const struct zr_inst *d;
};

static int64_t milliseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void warm_item(void *arg, int64_t item, int32_t worker)
{
	struct warm *w = arg;
	float *a = cpu_scratch(w->d, worker), *c = a + WARM_N * WARM_N;
	int64_t end = milliseconds() + 200;
	(void)item;
	__atomic_fetch_add(&w->inside, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&w->inside, __ATOMIC_ACQUIRE) < w->workers && milliseconds() < end)
		sched_yield();
	end = milliseconds() + 3;
	do
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, WARM_N, WARM_N, WARM_N, 1, a, WARM_N, a, WARM_N,
			    0, c, WARM_N);
	while (milliseconds() < end && w->workers > 1);
}

void cpu_blas_warm(const struct zr_inst *d)
{
	struct warm w = { 0, d->workers, d };
	openblas_set_num_threads(1);
	cpu_parallel(d, d->workers, warm_item, &w);
	memset(d->scratch, 0, d->scratch_bytes);
}

/* ---- a tile --------------------------------------------------------------------------------------- */

/* Part of an operand as OpenBLAS takes it: rows x cols as stored, starting at element `first`. */
struct panel {
	const float *p;
	int64_t ld;
};

static struct panel widen(const struct zr_inst *d, const void *x, int32_t dtype, int64_t ld, int64_t first,
			  int64_t rows, int64_t cols, float *room)
{
	struct zr_op_cast cast = { .size = sizeof cast, .dst_dtype = ZR_F32, .src_dtype = dtype, .n = cols };
	int64_t i;
	if (dtype == ZR_F32)
		return (struct panel){ (const float *)x + first, ld };
	for (i = 0; i < rows; i++) {
		cast.src = cpu_at(x, dtype, first + i * ld);
		cast.dst = room + i * cols;
		d->k->cast(&cast, 0, cols);
	}
	return (struct panel){ room, cols };
}

/* Adds K in [k0, k0 + n) of the product to t, or stores it. */
static void add_panel(const struct zr_inst *d, const struct zr_op_matmul *op, int64_t row0, int64_t rows,
		      int64_t col0, int64_t cols, int64_t k0, int64_t n, int add, float *t, int64_t ldt, float *room)
{
	int ta = !!(op->flags & ZR_MM_TRANS_A), tb = !!(op->flags & ZR_MM_TRANS_B);
	struct panel a = ta ? widen(d, op->a, op->a_dtype, op->lda, k0 * op->lda + row0, n, rows, room)
			    : widen(d, op->a, op->a_dtype, op->lda, row0 * op->lda + k0, rows, n, room);
	struct panel b;
	room += op->a_dtype == ZR_F32 ? 0 : rows * n;
	b = tb ? widen(d, op->b, op->b_dtype, op->ldb, col0 * op->ldb + k0, cols, n, room)
	       : widen(d, op->b, op->b_dtype, op->ldb, k0 * op->ldb + col0, n, cols, room);
	cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (blasint)rows,
		    (blasint)cols, (blasint)n, 1, a.p, (blasint)a.ld, b.p, (blasint)b.ld, add ? 1 : 0, t, (blasint)ldt);
}

void cpu_blas_tile(const struct zr_inst *d, const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		   int64_t cols, void *scratch)
{
	int direct = op->d_dtype == ZR_F32, wide = op->a_dtype == ZR_F32 && op->b_dtype == ZR_F32;
	int64_t at = row0 * op->ldd + col0, ldt = direct ? op->ldd : cols;
	float *t = direct ? cpu_at(op->d, ZR_F32, at) : scratch;
	float *room = (float *)scratch + (direct ? 0 : rows * cols);
	int64_t left = (int64_t)(CPU_SCRATCH / sizeof(float)) - (direct ? 0 : rows * cols);
	int64_t kc = wide ? op->k : left / (rows + cols) / 64 * 64, k = 0;
	int add = !!(op->flags & ZR_MM_ACCUMULATE);
	do {
		int64_t n = cpu_min(kc, op->k - k);
		add_panel(d, op, row0, rows, col0, cols, k, n, add, t, ldt, room);
		add = 1;
		k += n;
	} while (k < op->k);
	if (op->bias || op->flags & ZR_MM_GELU || !direct)
		d->k->gemm_finish(op, t, ldt, rows, cols, op->bias ? cpu_at(op->bias, op->b_dtype, col0) : NULL,
				  cpu_at(op->d, op->d_dtype, at), op->pre ? cpu_at(op->pre, op->d_dtype, at) : NULL);
}

#else

int cpu_blas_present(void)
{
	return 0;
}

const char *cpu_blas_core(void)
{
	return "";
}

void cpu_blas_warm(const struct zr_inst *d)
{
	(void)d;
}

void cpu_blas_tile(const struct zr_inst *d, const struct zr_op_matmul *op, int64_t row0, int64_t rows, int64_t col0,
		   int64_t cols, void *scratch)
{
	d->k->gemm_tile(op, row0, rows, col0, cols, scratch);
}
#endif
